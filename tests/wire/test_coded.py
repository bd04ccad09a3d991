"""Coded labels: round trips, never longer than packed ones, and streams that lie."""

import bz2
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedballot.wire.coded import CodedLabels
from fedballot.wire.packing import WireError, pack_labels

RARE = np.where(np.random.default_rng(0).random(8000) < 0.05, 9, 3)  # of 16


def stream(*labels: int) -> np.ndarray:
    return np.frombuffer(bz2.compress(bytes(labels)), dtype=np.uint8)


@given(
    st.sampled_from([2, 4, 16, 17, 200, 256, 257, 65536]),
    st.integers(0, 2000),
    st.sampled_from([0.01, 0.3, 1.0]),
    st.integers(0, 2**32 - 1),
)
def test_labels_survive_and_are_never_longer_than_packed(n_values, count, even, seed):
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(count) < even, rng.integers(0, n_values, count), n_values // 2)
    codec = CodedLabels(count, n_values)
    (array,) = codec.pack(labels)
    assert array.dtype == np.uint8 and array.size <= codec.packed_size == pack_labels(labels, n_values).size
    assert codec.read([array]).tolist() == labels.tolist()


def test_rare_levels_take_less_and_even_ones_are_packed():
    assert CodedLabels(8000, 16).pack(RARE)[0].size < 0.4 * 4000  # .32: entropy .29
    even = np.random.default_rng(0).integers(0, 16, 8000)
    assert np.array_equal(CodedLabels(8000, 16).pack(even)[0], pack_labels(even, 16))


def test_packed_labels_of_earlier_clients_are_read():
    assert CodedLabels(8000, 16).read([pack_labels(RARE, 16)]).tolist() == RARE.tolist()


def test_a_label_outside_the_range_is_not_packed():
    with pytest.raises(ValueError, match=r"0\.\.15"):
        CodedLabels(2, 16).pack(np.array([3, 16]))


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        (lambda a: a[:-1], "coding", "ends early"),
        (lambda a: a[:0], "coding", "ends early"),
        (lambda a: np.append(a, np.uint8(0)), "coding", "goes on after its end"),
        (lambda a: a[::-1].copy(), "coding", "no bzip2 stream"),
        (lambda a: stream(*RARE[1:]), "coding", "holds 7999 labels; expected 8000"),
        (lambda a: stream(*RARE, 3), "coding", "more than the 8000"),
        (lambda a: stream(*RARE[1:], 16), "range", "a label is 16"),
        (lambda a: a.astype(np.int8), "dtype", "uint8"),
        (lambda a: a[None], "shape", "4000 bytes"),
        (lambda a: np.zeros(4001, np.uint8), "shape", "4000 bytes"),
    ],
)
def test_a_stream_that_lies_is_refused(change, reason, words):
    codec = CodedLabels(8000, 16)
    with pytest.raises(WireError, match=words) as error:
        codec.read([change(codec.pack(RARE)[0])])
    assert error.value.reason == reason


def test_a_stream_that_unpacks_to_much_takes_no_more_memory_than_the_answer():
    bomb = np.frombuffer(bz2.compress(bytes(50_000_000)), dtype=np.uint8)
    assert bomb.size < 4000
    tracemalloc.start()
    with pytest.raises(WireError, match="more than the 8000"):
        CodedLabels(8000, 16).read([bomb])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000  # of Python's; the decoder has at most 4 MB beside it


@given(st.binary(max_size=120), st.integers(0, 80))
def test_any_bytes_are_labels_in_the_range_or_refused(noise, keep):
    codec = CodedLabels(400, 16)
    sent = np.frombuffer((stream(*RARE[:400]).tobytes()[:keep] + noise)[:200], dtype=np.uint8)
    try:
        labels = codec.read([sent])
    except WireError as error:
        assert error.reason in {"coding", "range", "shape"}
    else:
        assert labels.shape == (400,) and labels.min() >= 0 and labels.max() < 16


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 7)), min_size=1, max_size=5))
def test_flipped_bits_change_no_label_unseen(flips):
    codec = CodedLabels(8000, 16)
    (array,) = codec.pack(RARE)
    bits = np.unpackbits(array)
    for place, bit in set(flips):
        bits[(8 * place + bit) % bits.size] ^= 1
    try:
        found = codec.read([np.packbits(bits)])
    except WireError:
        return
    assert np.array_equal(found, RARE)  # the last bits of a stream mean nothing; all else is under a checksum
