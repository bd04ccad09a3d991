"""Robust averages: no minority moves them beyond the others, whatever it sends; without one they are plain averages."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedballot.distillation.robust import median, trimmed_mean

ANY = st.sampled_from([-1e30, -7.0, 0.0, 0.5, 1e30])


@given(st.integers(1, 9), st.integers(0, 4), st.integers(0, 2**32 - 1), ANY)
def test_a_minority_moves_nothing_beyond_the_others(honest, bad, seed, sent):
    bad = min(bad, honest - 1)
    rng = np.random.default_rng(seed)
    told = rng.normal(size=(honest, 2, 3))
    answers = rng.permutation(np.concatenate([told, np.full((bad, 2, 3), sent)]))
    for found in (median(list(answers)), trimmed_mean(list(answers), bad)):
        assert found.dtype == np.float64
        assert (found >= told.min(axis=0) - 1e-12).all() and (found <= told.max(axis=0) + 1e-12).all()


@given(st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_their_ends_are_the_mean_and_the_median(count, seed):
    answers = list(np.random.default_rng(seed).normal(size=(count, 4)))
    assert np.allclose(trimmed_mean(answers, 0), np.mean(answers, axis=0))
    assert np.allclose(trimmed_mean(answers, count), median(answers))
    assert np.allclose(trimmed_mean(answers[::-1], 1), trimmed_mean(answers, 1))
    assert np.allclose(median([3 * one + 1 for one in answers]), 3 * median(answers) + 1)


def test_nothing_and_other_shapes_are_refused():
    for answers in ([], [np.zeros(2), np.zeros(3)]):
        with pytest.raises(ValueError):
            median(answers)
        with pytest.raises(ValueError):
            trimmed_mean(answers, 1)
