"""Labels at as few bits as they need."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedballot.wire.packing import WireError, label_bits, pack_labels, unpack_labels


@given(st.integers(2, 300).flatmap(lambda c: st.tuples(st.just(c), st.lists(st.integers(0, c - 1), max_size=40))))
def test_labels_survive_at_their_bits(case):
    n_values, labels = case
    packed = pack_labels(np.array(labels, dtype=np.int64), n_values)
    assert packed.nbytes == -(-len(labels) * label_bits(n_values) // 8)
    assert unpack_labels(packed, len(labels), n_values).tolist() == labels


@given(st.integers(1, 63), st.data())
def test_integers_survive_at_any_width(width, data):
    values = data.draw(st.lists(st.integers(0, 2**width - 1), max_size=40))
    packed = pack_labels(np.array(values, dtype=np.int64), 2**width)
    bits = "".join(f"{value:0{width}b}"[::-1] for value in values)  # lowest first
    assert packed.tobytes() == bytes(int(bits[i : i + 8][::-1], 2) for i in range(0, len(bits), 8))
    assert unpack_labels(packed, len(values), 2**width).tolist() == values


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
