"""Answers about some records: round trips, sizes, and damage that is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedballot.wire.codec import Choices, Halves, Probabilities
from fedballot.wire.packing import WireError
from fedballot.wire.partial import Partial


def soft(shape: tuple[int, int]) -> Partial:
    return Partial(shape, lambda some: Probabilities(Halves(some)))


def hard(shape: tuple[int, int]) -> Partial:
    return Partial(shape, Choices)


@given(hnp.arrays(np.bool_, st.integers(0, 20)))
def test_answered_rows_come_back_and_others_are_0(answered) -> None:
    rows = np.random.default_rng(0).dirichlet(np.ones(3), len(answered))
    found = soft(rows.shape).read(soft(rows.shape).pack((answered, rows)))
    assert found[answered] == pytest.approx(rows[answered], abs=2e-3) and not found[~answered].any()
    found = hard(rows.shape).read(hard(rows.shape).pack((answered, rows)))
    assert (found[answered].argmax(axis=1) == rows[answered].argmax(axis=1)).all() and not found[~answered].any()


def test_an_answer_takes_a_bit_a_record_and_the_rows_that_it_has() -> None:
    answered, rows = np.arange(800) < 100, np.full((800, 10), 0.1)
    assert [array.nbytes for array in soft(rows.shape).pack((answered, rows))] == [100, 100 * 20]
    assert [array.nbytes for array in hard(rows.shape).pack((answered, rows))] == [100, 50]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda arrays: arrays[:1], "count"),
        (lambda arrays: [arrays[0][:-1], arrays[1]], "shape"),
        (lambda arrays: [arrays[0].astype(np.int8), arrays[1]], "dtype"),
        (lambda arrays: [arrays[0] | 1, arrays[1]], "shape"),  # one more row is announced
        (lambda arrays: [arrays[0], np.full_like(arrays[1], np.nan)], "non-finite"),
        (lambda arrays: [arrays[0], arrays[1] * 0], "range"),  # a row that is answered sums to 1
    ],
)
def test_damage_is_refused(damage, reason) -> None:
    answered, rows = np.arange(16) % 2 == 1, np.full((16, 4), 0.25)
    with pytest.raises(WireError) as error:
        soft(rows.shape).read(damage(soft(rows.shape).pack((answered, rows))))
    assert error.value.reason == reason
