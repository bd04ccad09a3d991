"""What crosses the network: round trips, sizes, and damage that is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedballot.wire import WireError, label_bits, pack_integers, pack_labels, unpack_integers, unpack_labels


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
