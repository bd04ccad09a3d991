"""The tally: exact, in any order, and of one shape."""

import numpy as np
import pytest

from fedballot.distillation.aggregation import Sum, WeightedMean, votes_of


def tally(ballots, shape) -> Sum:
    votes = Sum(shape)
    for ballot in ballots:
        votes.add(ballot)
    return votes


def test_the_tally_is_the_exact_sum():
    rng = np.random.default_rng(0)
    ballots = rng.integers(-100, 100, (50, 6, 3)).astype(np.int8)
    expected = ballots.astype(np.int64).sum(axis=0)
    for order in (ballots, ballots[::-1]):
        votes = tally(order, (6, 3))
        assert np.array_equal(votes.total, expected) and votes.count == 50


def test_the_tally_does_not_overflow_the_ballots_type():
    assert tally([np.full((1, 1), 127, dtype=np.int8)] * 1000, (1, 1)).total[0, 0] == 127_000


def test_nothing_to_add_is_zero_and_another_shape_is_refused():
    assert not tally([], (2, 2)).total.any()
    with pytest.raises(ValueError, match="shape"):
        tally([np.zeros((1, 2), dtype=np.int32)], (2, 2))


def test_an_abstention_votes_for_nothing():
    assert votes_of(np.array([0, 2, 3]), 3).tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]


def test_a_query_without_weight_is_an_error_or_a_row_of_zeros():
    mean = WeightedMean((2, 2))
    mean.add(np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([2.0, 0.0]))
    with pytest.raises(ValueError, match="no weight at all"):
        mean.value()
    assert mean.value(blank=True).tolist() == [[0.5, 0.5], [0.0, 0.0]]
