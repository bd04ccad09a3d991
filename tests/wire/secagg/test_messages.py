"""Integers that fit the modulus."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedballot.wire.secagg import SecaggError
from fedballot.wire.secagg.messages import check_integers
from tests.wire.secagg.world import FORM, SHAPE


def test_integers_beyond_the_range_are_refused_not_cut(tmp_path: Path) -> None:
    for value, good in ((50, True), (-50, True), (51, False), (-51, False)):
        values = np.full(SHAPE, value)
        if good:
            assert np.array_equal(check_integers(values, FORM), values)
        else:
            with pytest.raises(SecaggError, match="larger than the modulus was chosen for"):
                check_integers(values, FORM)
    for wrong in (np.zeros(SHAPE), np.zeros((40, 9), dtype=int)):
        with pytest.raises(SecaggError, match="expected integers"):
            check_integers(wrong, FORM)
