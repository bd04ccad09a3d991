"""Sums of rows: NumPy's own, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from fedballot.core.arrays import row_sums


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [*range(35), 64, 100, 127, 128, 129, 200, 1000])
def test_they_are_numpys_to_the_last_bit(dtype: type, width: int) -> None:
    rng = np.random.default_rng(width)
    values = (rng.normal(size=(400, width)) * 10.0 ** rng.integers(-6, 6, (400, width))).astype(dtype)
    for rows in (values, values[:1], values[:0], np.asfortranarray(values), values[::2], values[:, ::-1]):
        sums = row_sums(rows)
        assert sums.dtype == dtype and sums.tobytes() == rows.sum(axis=1).tobytes()


def test_the_order_matters_to_the_last_bits() -> None:
    """Else the test above could not fail."""
    values = np.random.default_rng(0).normal(size=(400, 10)).astype(np.float32)
    assert not np.array_equal(sum(values.T), values.sum(axis=1))


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan, -0.0])
def test_what_is_no_number_stays_so(odd: float) -> None:
    values = np.full((3, 10), odd)
    assert row_sums(values).tobytes() == values.sum(axis=1).tobytes()
