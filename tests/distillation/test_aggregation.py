"""The tally: exact, in any order, and of one shape."""

import numpy as np
import pytest

from fedballot.distillation.aggregation import tally, votes_of


def test_tally_is_the_exact_sum():
    rng = np.random.default_rng(0)
    ballots = rng.integers(-100, 100, (50, 6, 3)).astype(np.int8)
    expected = ballots.astype(np.int64).sum(axis=0)
    assert np.array_equal(tally(list(ballots), (6, 3)), expected)
    assert np.array_equal(tally(list(ballots[::-1]), (6, 3)), expected)


def test_tally_does_not_overflow_the_ballots_type():
    assert tally([np.full((1, 1), 127, dtype=np.int8)] * 1000, (1, 1))[0, 0] == 127_000


def test_nothing_to_add_is_zero_and_another_shape_is_refused():
    assert not tally([], (2, 2)).any()
    with pytest.raises(ValueError, match="shape"):
        tally([np.zeros((1, 2), dtype=np.int32)], (2, 2))


def test_an_abstention_votes_for_nothing():
    assert votes_of(np.array([0, 2, 3]), 3).tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
