"""What crosses the network: round trips, sizes, and damage that is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedballot.wire.codec import (
    Bundle,
    Choices,
    Codec,
    Counts,
    Fractions,
    Halves,
    Integers,
    Levels,
    Probabilities,
    Singles,
)
from fedballot.wire.packing import WireError

PLAIN = np.full((2, 3), 1 / 3, dtype=np.float32)


@given(hnp.arrays(np.int64, hnp.array_shapes(max_dims=2), elements=st.integers(-(2**31), 2**31 - 1)))
def test_integers_survive_in_the_smallest_type(values):
    codec = Integers(values.shape)
    (packed,) = codec.pack(values)
    assert np.array_equal(codec.read([packed]), values)
    if packed.dtype.itemsize > 1:
        half = np.iinfo(f"int{packed.dtype.itemsize * 4}")
        assert values.min() < half.min or values.max() > half.max


def test_integers_beyond_32_bits_are_refused():
    with pytest.raises(OverflowError):
        Integers((1,)).pack(np.array([2**31]))


def test_a_row_s_class_takes_four_bits_of_ten_classes_and_a_blank_row_is_one_of_eleven():
    votes = np.eye(10, dtype=np.int8)[np.arange(3000) % 10]
    for blank in (False, True):
        codec = Choices((3000, 10), blank=blank)
        (packed,) = codec.pack(votes)
        assert packed.nbytes == 1500 and np.array_equal(codec.read([packed]), votes)
    votes[7] = 0
    assert np.array_equal(codec.read(codec.pack(votes)), votes)
    scores = np.array([[0.5, -1, 2], [0, 0, 0]])
    assert Choices((2, 3)).read(Choices((2, 3)).pack(scores)).tolist() == [[0, 0, 1], [1, 0, 0]]


@given(hnp.arrays(np.float32, (7, 5), elements=st.floats(-1e4, 1e4, width=32)))
def test_numbers_come_back_within_their_error(values):
    singles, halves, levels = (kind(values.shape) for kind in (Singles, Halves, Levels))
    assert np.array_equal(singles.read(singles.pack(values)), values)
    assert np.all(np.abs(halves.read(halves.pack(values)) - values) <= np.abs(values) * 2**-11 + 1e-7)
    error = np.abs(levels.read(levels.pack(values)) - values)
    assert np.all(error <= np.abs(values).max() / 254 * (1 + 1e-5) + 1e-30)


@given(hnp.arrays(np.float32, (7, 5), elements=st.floats(0, 1, width=32)))
def test_fractions_come_back_within_half_a_level(values):
    codec = Fractions(values.shape)
    assert np.all(np.abs(codec.read(codec.pack(values)) - values) <= 1 / 510 + 1e-6)


@pytest.mark.parametrize("numbers", [Halves((2, 3)), Fractions((2, 3))])
def test_probabilities_are_read_with_rows_of_sum_one(numbers):
    codec = Probabilities(numbers)
    rows = np.array([[0.2, 0.3, 0.5], [1, 0, 0]])
    values = codec.read(codec.pack(rows))
    assert values == pytest.approx(rows, abs=0.005) and values.sum(axis=1) == pytest.approx(np.ones(2), abs=1e-6)
    for damaged in (rows * 0.9, np.zeros((2, 3))):
        with pytest.raises(WireError) as error:
            codec.read(numbers.pack(damaged))
        assert error.value.reason == "range"


def test_counts_are_exact_and_not_all_zero():
    codec = Counts(3)
    assert codec.read(codec.pack(np.array([0, 2**31 - 1, 7]))).tolist() == [0, 2**31 - 1, 7]
    for damaged, reason in (([0, 0, 0], "range"), ([1, -1, 1], "range"), ([1, 1], "shape")):
        with pytest.raises(WireError) as error:
            codec.read([np.array(damaged, dtype=np.int32)])
        assert error.value.reason == reason
    with pytest.raises(WireError):
        codec.read([np.array([1, 2, 3])])


def test_a_bundle_gives_each_part_its_arrays():
    codec = Bundle((Levels((2, 3)), Integers((2,)), Halves((1,))))
    arrays = codec.pack([PLAIN, np.array([5, -300]), np.array([0.5])])
    assert len(arrays) == codec.array_count == 4
    levels, integers, halves = codec.read(arrays)
    assert levels == pytest.approx(PLAIN, abs=0.002) and integers.tolist() == [5, -300] and halves.tolist() == [0.5]
    for wrong in (arrays[:-1], [*arrays, arrays[-1]], []):
        with pytest.raises(WireError) as error:
            codec.read(wrong)
        assert error.value.reason == "count"
    with pytest.raises(ValueError, match="zip"):
        codec.pack([PLAIN])


def test_what_is_out_of_range_is_cut_or_refused_never_infinite():
    assert np.isfinite(Halves((2,)).pack(np.array([1e9, -1e9]))[0]).all()
    assert not Levels((2, 3)).read(Levels((2, 3)).pack(np.zeros((2, 3)))).any()
    for codec, values in ((Halves((1,)), [np.nan]), (Levels((1,)), [np.inf]), (Fractions((1,)), [1.1])):
        with pytest.raises(ValueError, match=r"finite|0\.\.1"):
            codec.pack(np.array(values))


@pytest.mark.parametrize(
    ("codec", "arrays", "reason"),
    [
        (Integers((2, 3)), [np.full((2, 3), np.nan)], "non-finite"),
        (Integers((2, 3)), [np.full((2, 3), np.inf, dtype=np.float32)], "non-finite"),
        (Integers((2, 3)), [np.zeros((2, 3))], "dtype"),
        (Integers((2, 3)), [np.zeros((2, 3), dtype=np.int64)], "dtype"),
        (Integers((2, 3)), [np.zeros((2, 3), dtype=np.uint8)], "dtype"),
        (Integers((2, 3)), [np.zeros((3, 2), dtype=np.int8)], "shape"),
        (Integers((2, 3)), [np.zeros(6, dtype=np.int8)], "shape"),
        (Integers((2, 3)), [np.zeros((0, 3), dtype=np.int8)], "shape"),
        (Integers((1,), 5), [np.array([6], dtype=np.int8)], "range"),
        (Integers((1,), 5), [np.array([-128], dtype=np.int8)], "range"),
        (Choices((8, 3)), [np.zeros(2, dtype=np.int8)], "dtype"),
        (Choices((8, 3)), [np.zeros(3, dtype=np.uint8)], "shape"),
        (Choices((8, 3)), [np.full(2, 255, dtype=np.uint8)], "range"),
        (Halves((2, 3)), [np.zeros((2, 3))], "dtype"),
        (Halves((2, 3)), [np.zeros((3, 2), np.float16)], "shape"),
        (Halves((2, 3)), [np.full((2, 3), np.nan, np.float16)], "non-finite"),
        (Singles((2, 3)), [np.zeros((2, 3), np.float16)], "dtype"),
        (Singles((2, 3)), [np.full((2, 3), np.inf, np.float32)], "non-finite"),
        (Fractions((2, 3)), [np.zeros((2, 3))], "dtype"),
        (Fractions((2, 3)), [np.zeros((2, 2), np.uint8)], "shape"),
        (Levels((2, 3)), [np.zeros((2, 3), np.int8)], "count"),
        (Levels((2, 3)), [np.zeros((2, 3), np.int16), np.ones(1, np.float32)], "dtype"),
        (Levels((2, 3)), [np.zeros((2, 2), np.int8), np.ones(1, np.float32)], "shape"),
        (Levels((2, 3)), [np.zeros((2, 3), np.int8), np.zeros(1, np.float32)], "range"),
        (Levels((2, 3)), [np.zeros((2, 3), np.int8), np.full(1, 3e38, np.float32)], "range"),
        (Levels((2, 3)), [np.zeros((2, 3), np.int8), np.full(1, np.nan, np.float32)], "non-finite"),
    ],
)
def test_damage_is_refused_with_a_reason(codec: Codec, arrays, reason):
    with pytest.raises(WireError) as error:
        codec.read(arrays)
    assert error.value.reason == reason


@pytest.mark.parametrize(
    "codec",
    [Integers((1,)), Choices((1, 2)), Singles((1,)), Halves((1,)), Levels((1,)), Fractions((1,)), Counts(1)],
    ids=lambda codec: type(codec).__name__,
)
def test_another_number_of_arrays_is_refused(codec: Codec):
    for arrays in ([], [np.zeros(1)] * (codec.array_count + 1)):
        with pytest.raises(WireError) as error:
            codec.read(arrays)
        assert error.value.reason == "count"


def test_every_half_is_read_as_it_is() -> None:
    """All of them, subnormal ones and both zeros too; what is not finite is refused, each by itself."""
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = halves[np.isfinite(halves)]
    read = Halves(finite.shape).read([finite])
    assert read.dtype == np.float32 and read.tobytes() == finite.astype(np.float32).tobytes()
    table = np.asfortranarray(finite[:600].reshape(60, 10))
    read = Halves((60, 10)).read([table])
    assert read.flags.f_contiguous and np.array_equal(read, table)  # sums of rows depend on the layout
    for odd in halves[~np.isfinite(halves)]:
        with pytest.raises(WireError, match="non-finite"):
            Halves((2,)).read([np.array([0.5, odd], dtype=np.float16)])
    assert Halves((0,)).read([np.zeros(0, np.float16)]).shape == (0,)
