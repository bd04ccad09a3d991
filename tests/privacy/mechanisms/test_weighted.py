"""Votes with a weight: what they move, what they cost, and which weight a target allows."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedballot.core.errors import DataError, SettingsError
from fedballot.privacy.accounting import gaussian
from fedballot.privacy.audit.mechanisms import audit_votes
from fedballot.privacy.audit.statistics import variance_p_value
from fedballot.privacy.mechanisms.votes import NoisyVotes
from fedballot.privacy.mechanisms.weighted import WHOLE, WeightedVotes
from fedballot.privacy.noise.randomness import os_noise, seeded_noise

DELTA = 1e-3
FULL = WeightedVotes.solve(1.0, DELTA, queries=500, max_votes=275, min_clients=90, colluders=5)
PLAIN = NoisyVotes.solve(1.0, DELTA, queries=500, max_votes=275, min_clients=90, colluders=5)
UNITS = pytest.mark.parametrize("unit", ["client", "record", "person"])


@UNITS
def test_a_full_vote_costs_what_a_vote_without_weights_costs(unit: str) -> None:
    """But for the finer grid of the noise, which costs less, and the bound for steps larger than one."""
    assert FULL.sigma == pytest.approx(PLAIN.sigma, rel=1e-5)
    assert FULL.epsilon(DELTA, unit) == pytest.approx(PLAIN.epsilon(DELTA, unit), rel=1e-5)
    assert FULL.sensitivity(unit) == PLAIN.sensitivity(unit)
    assert FULL.cost_alone(unit).epsilon(DELTA) == pytest.approx(PLAIN.cost_alone(unit).epsilon(DELTA), rel=1e-3)


@UNITS
@given(weight=st.integers(1, WHOLE))
def test_a_weight_costs_what_it_moves(unit: str, weight: int) -> None:
    """Never less than continuous noise on a vote of this weight costs, and hardly more."""
    one = replace(FULL, weight=weight)
    moved = weight * math.sqrt(275 if unit == "client" else 2 * 275)
    assert one.cost(unit).sensitivity == pytest.approx(moved) and one.cost(unit).shares == 85
    assert one.cost_alone(unit).sensitivity == pytest.approx(weight * math.sqrt(2 * 275))
    assert one.cost(unit).coordinates == (275 if unit == "client" else 550)
    exact = gaussian.epsilon(moved / (WHOLE * FULL.sigma), DELTA)
    assert exact * (1 - 1e-5) <= one.epsilon(DELTA, unit) <= exact * (1 + 1e-4)


@pytest.mark.parametrize("unit", ["client", "record"])
@given(first=st.floats(0.02, 1), second=st.floats(0.02, 1))
def test_no_larger_weight_keeps_to_the_target(unit: str, first: float, second: float) -> None:
    full = WeightedVotes.solve(1.0, DELTA, queries=500, max_votes=275, min_clients=90, unit=unit)
    weights = [full.largest_weight(target, DELTA, unit) for target in (first, second)]
    for target, weight in zip((first, second), weights, strict=True):
        assert 1 <= weight <= WHOLE
        assert replace(full, weight=weight).epsilon(DELTA, unit) <= target
        assert weight == WHOLE or replace(full, weight=weight + 1).epsilon(DELTA, unit) > target
    assert (weights[0] <= weights[1]) if first <= second else (weights[0] >= weights[1])


def test_the_target_of_the_noise_allows_a_full_vote_and_hardly_any_none() -> None:
    assert FULL.largest_weight(1.0, DELTA) == WHOLE
    assert FULL.largest_weight(1e-3, DELTA) == 0


@pytest.mark.parametrize("weight", [1, 20, WHOLE])
def test_what_leaves_is_the_weight_and_the_same_noise(weight: int) -> None:
    one = WeightedVotes(2000, 2000, 40.0, min_clients=25, weight=weight)
    votes = np.zeros((2000, 10), dtype=np.int8)
    votes[::2, 3] = 1
    told = one.release(votes, os_noise())
    noise = told - weight * votes.astype(int)
    assert told.dtype == np.int32 and variance_p_value(noise, (WHOLE * 40 / 5) ** 2) > 1e-8
    assert abs(told[::2, 3].mean() - told[1::2, 3].mean() - weight) < 6 * WHOLE * 8 / math.sqrt(500)
    assert (one.share_variance, one.largest) == (replace(one, weight=1).share_variance, replace(one, weight=1).largest)
    blank, seeded = (one.release(each, seeded_noise(3)) for each in (np.zeros_like(votes), votes))
    assert np.array_equal(seeded - blank, weight * votes.astype(int))


@pytest.mark.parametrize("votes", [np.full((3, 2), 2), np.full((3, 2), 1), np.array([[1, 0]] * 3), np.eye(3)[:, :2]])
def test_ballots_that_move_more_than_the_weight_are_refused(votes: np.ndarray) -> None:
    with pytest.raises(DataError):
        WeightedVotes(3, 2, 10, 4, weight=5).release(votes, os_noise())


@pytest.mark.parametrize("bad", [{"weight": 0}, {"weight": WHOLE + 1}, {"k": 3, "max_votes": 500}])
def test_refuses_what_cannot_hold(bad: dict[str, int]) -> None:
    with pytest.raises(SettingsError):
        replace(FULL, **bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [1, 2])
def test_an_audit_finds_nothing(seed: int) -> None:
    full = WeightedVotes.solve(1.0, 1e-5, queries=1, max_votes=1, min_clients=3)
    for weight in (WHOLE, WHOLE // 2):
        found = audit_votes(replace(full, weight=weight), 1e-5, seeded_noise(seed), runs=8000)
        assert all(layer.passed for layer in found)
    assert max(layer.claim for layer in found if layer.layer == "two worlds") < 0.6


def test_an_audit_finds_a_weight_that_is_not_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = WeightedVotes.release
    monkeypatch.setattr(WeightedVotes, "release", lambda self, *given: whole(replace(self, weight=WHOLE), *given))
    full = WeightedVotes.solve(1.0, 1e-5, queries=1, max_votes=1, min_clients=3)
    found = audit_votes(replace(full, weight=8), 1e-5, seeded_noise(1), runs=20_000)
    assert not next(layer for layer in found if layer.layer == "two worlds").passed
