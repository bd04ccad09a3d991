"""Who takes part in a round of DP-FedAvg is drawn anew, by chance, in secret; noise never depends on who came."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fedballot.core.setting import build
from fedballot.settings.weights_private import DpFedavgSettings
from fedballot.strategies.base import Answer
from tests.conftest import fitting
from tests.strategies.test_fedmd import strategy_of
from tests.strategies.test_weights import DIGITS

CLIENTS = 30


def strategy(**over):
    given = {"clip": 0.5, "noise_multiplier": 2.0, "noise_seed": 1, "rounds": 200, "private_size": 900}
    settings = build(
        DpFedavgSettings, fitting(DpFedavgSettings, DIGITS), {"clients": CLIENTS, "min_clients": 1, **given}, over
    )
    return strategy_of(settings, "dp-fedavg")


def cohorts(one, rounds: int = 200) -> np.ndarray:
    """Who is asked in each round (rounds, clients)."""
    found = np.zeros((rounds, CLIENTS))
    for number in range(rounds):
        found[number, one.cohort(number + 1, list(range(CLIENTS)))] = 1
    return found


def test_each_client_is_asked_by_its_own_chance_and_each_round_anew():
    there = cohorts(strategy(participation=0.2))
    assert stats.binomtest(int(there.sum()), there.size, 0.2).pvalue > 1e-6
    assert min(stats.binomtest(int(n), 200, 0.2).pvalue for n in there.sum(axis=0)) > 1e-6
    sizes = there.sum(axis=1)
    assert 1e-6 < stats.chi2.cdf(199 * sizes.var(ddof=1) / (CLIENTS * 0.2 * 0.8), 199) < 1 - 1e-6


def test_a_fixed_cohort_has_its_size_in_every_round():
    there = cohorts(strategy(participation=0.2, sampling="fixed", noise_multiplier=20.0))
    assert set(there.sum(axis=1)) == {6.0}
    assert min(stats.binomtest(int(n), 200, 0.2).pvalue for n in there.sum(axis=0)) > 1e-6


def test_a_cohort_is_secret():
    one = strategy(participation=0.5, noise_seed=None)
    assert not np.array_equal(cohorts(one, 20), cohorts(one, 20))


def test_a_sum_is_divided_by_a_public_number_and_each_round_has_noise_of_its_own():
    one = strategy(participation=0.2)
    size = one.weights.size
    difference = np.zeros(size, np.float32)
    difference[0] = 0.25
    answers = [Answer(client_id, difference, 0.0, 0.0) for client_id in range(3)]
    nobody = one.averaging().of([])
    moved = (one.averaging().of(answers) - nobody) * CLIENTS * 0.2
    assert moved[0] == pytest.approx(0.75, abs=1e-3) and np.abs(moved[1:]).max() < 1e-3
    one.round_records.append({})
    assert not np.array_equal(one.averaging().of([]), nobody)


def test_no_client_moves_a_sum_by_more_than_its_clip():
    one = strategy(participation=0.2)
    far = np.zeros(one.weights.size, np.float32)
    far[3] = 1e4
    moved = (one.averaging().of([Answer(0, far, 0.0, 0.0)]) - one.averaging().of([])) * CLIENTS * 0.2
    assert np.linalg.norm(moved) == pytest.approx(0.5, abs=2e-3)


def test_the_sum_has_all_of_its_noise():
    one = strategy(participation=0.2, noise_seed=None)
    drawn = one.averaging().of([]) * CLIENTS * 0.2
    assert 1e-6 < stats.chi2.cdf(float((drawn**2).sum()), drawn.size) < 1 - 1e-6  # multiplier 2 of clip 0.5
