"""How clear an ensemble is: the ends of the scale, order, and what lies between."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedballot.distillation.selection import ambiguity

MEASURES = ("entropy", "l2")


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_one_hot_rows_are_clear_and_even_ones_are_not(measure, classes) -> None:
    assert ambiguity(np.eye(classes), measure) == pytest.approx(0)
    assert ambiguity(np.full((1, classes), 1 / classes), measure) == pytest.approx(1)


@pytest.mark.parametrize("measure", MEASURES)
@given(rows=hnp.arrays(np.float64, (4, 5), elements=st.floats(0.01, 1)))
def test_it_lies_between_and_falls_as_a_row_leans_to_its_largest_class(measure, rows) -> None:
    rows = rows / rows.sum(axis=1, keepdims=True)
    found = ambiguity(rows, measure)
    assert ((found >= 0) & (found <= 1 + 1e-12)).all()
    surer = 0.7 * rows + 0.3 * np.eye(5)[rows.argmax(axis=1)]
    assert (ambiguity(surer, measure) <= found + 1e-12).all()
    assert ambiguity(rows[:, ::-1], "entropy") == pytest.approx(ambiguity(rows, "entropy"))


def test_two_classes_that_are_even_by_hand() -> None:
    row = np.zeros((1, 10))
    row[0, :2] = 0.5
    assert ambiguity(row, "entropy") == pytest.approx(np.log(2) / np.log(10))
    assert ambiguity(row, "l2") == pytest.approx(np.sqrt(0.5 / 0.9))
