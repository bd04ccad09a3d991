"""What crosses the network: round trips, sizes, and damage that is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedballot.wire.packing import (
    WireError,
    label_bits,
    pack_halves,
    pack_integers,
    pack_labels,
    pack_levels,
    pack_probabilities,
    unpack_halves,
    unpack_integers,
    unpack_labels,
    unpack_levels,
    unpack_probabilities,
    unpack_singles,
)


@given(hnp.arrays(np.int64, hnp.array_shapes(max_dims=2), elements=st.integers(-(2**31), 2**31 - 1)))
def test_integers_survive_in_the_smallest_type(values):
    packed = pack_integers(values)
    assert np.array_equal(unpack_integers(packed, values.shape), values)
    if packed.dtype.itemsize > 1:
        half = np.iinfo(f"int{packed.dtype.itemsize * 4}")
        assert values.min() < half.min or values.max() > half.max


def test_integers_beyond_32_bits_are_refused():
    with pytest.raises(OverflowError):
        pack_integers(np.array([2**31]))


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.full((2, 3), np.nan), "non-finite"),
        (np.full((2, 3), np.inf, dtype=np.float32), "non-finite"),
        (np.zeros((2, 3)), "dtype"),
        (np.zeros((2, 3), dtype=np.int64), "dtype"),
        (np.zeros((2, 3), dtype=np.uint8), "dtype"),
        (np.zeros((3, 2), dtype=np.int8), "shape"),
        (np.zeros(6, dtype=np.int8), "shape"),
        (np.zeros((0, 3), dtype=np.int8), "shape"),
    ],
)
def test_bad_integers_are_refused_with_a_reason(array, reason):
    with pytest.raises(WireError) as error:
        unpack_integers(array, (2, 3))
    assert error.value.reason == reason


@given(st.integers(2, 300).flatmap(lambda c: st.tuples(st.just(c), st.lists(st.integers(0, c - 1), max_size=40))))
def test_labels_survive_at_their_bits(case):
    n_values, labels = case
    packed = pack_labels(np.array(labels, dtype=np.int64), n_values)
    assert packed.nbytes == -(-len(labels) * label_bits(n_values) // 8)
    assert unpack_labels(packed, len(labels), n_values).tolist() == labels


def test_ten_classes_and_an_abstention_take_four_bits():
    assert label_bits(11) == 4
    assert pack_labels(np.zeros(3000, dtype=np.int64), 11).nbytes == 1500
    assert label_bits(2) == label_bits(1) == 1


def test_bad_labels_are_refused():
    with pytest.raises(ValueError, match=r"0\.\.2"):
        pack_labels(np.array([3]), 3)
    for packed, reason in (
        (np.zeros(2, dtype=np.int8), "dtype"),
        (np.zeros(3, dtype=np.uint8), "shape"),
        (np.full(2, 255, dtype=np.uint8), "range"),
    ):
        with pytest.raises(WireError) as error:
            unpack_labels(packed, 8, 3)
        assert error.value.reason == reason


@given(hnp.arrays(np.float32, (7, 5), elements=st.floats(-1e4, 1e4, width=32)))
def test_halves_and_levels_come_back_within_their_error(values):
    halves = unpack_halves(pack_halves(values), values.shape)
    assert np.all(np.abs(halves - values) <= np.abs(values) * 2**-11 + 1e-7)
    levels = unpack_levels(pack_levels(values), values.shape)
    assert np.all(np.abs(levels - values) <= np.abs(values).max() / 254 * (1 + 1e-5) + 1e-30)


@given(hnp.arrays(np.float32, (7, 5), elements=st.floats(0, 1, width=32)))
def test_probabilities_come_back_within_half_a_level(values):
    assert np.all(np.abs(unpack_probabilities(pack_probabilities(values), values.shape) - values) <= 1 / 510 + 1e-6)


def test_what_is_out_of_range_is_cut_or_refused_never_infinite():
    assert np.isfinite(pack_halves(np.array([1e9, -1e9]))).all()
    assert not unpack_levels(pack_levels(np.zeros((2, 3))), (2, 3)).any()
    for pack, values in ((pack_halves, [np.nan]), (pack_levels, [np.inf]), (pack_probabilities, [1.1])):
        with pytest.raises(ValueError, match=r"finite|0\.\.1"):
            pack(np.array(values))


@pytest.mark.parametrize(
    ("unpack", "array", "reason"),
    [
        (unpack_halves, np.zeros((2, 3)), "dtype"),
        (unpack_halves, np.zeros((3, 2), np.float16), "shape"),
        (unpack_halves, np.full((2, 3), np.nan, np.float16), "non-finite"),
        (unpack_singles, np.zeros((2, 3), np.float16), "dtype"),
        (unpack_probabilities, np.zeros((2, 3)), "dtype"),
        (unpack_probabilities, np.zeros((2, 2), np.uint8), "shape"),
        (unpack_levels, [np.zeros((2, 3), np.int8)], "count"),
        (unpack_levels, [np.zeros((2, 3), np.int16), np.ones(1, np.float32)], "dtype"),
        (unpack_levels, [np.zeros((2, 2), np.int8), np.ones(1, np.float32)], "shape"),
        (unpack_levels, [np.zeros((2, 3), np.int8), np.zeros(1, np.float32)], "range"),
        (unpack_levels, [np.zeros((2, 3), np.int8), np.full(1, 3e38, np.float32)], "range"),
        (unpack_levels, [np.zeros((2, 3), np.int8), np.full(1, np.nan, np.float32)], "non-finite"),
    ],
)
def test_damaged_predictions_are_refused_with_a_reason(unpack, array, reason):
    with pytest.raises(WireError) as error:
        unpack(array, (2, 3))
    assert error.value.reason == reason
