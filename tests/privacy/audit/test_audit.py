"""Audits find faults that are put in on purpose, and nothing where there is none."""

import math

import numpy as np
import pytest

from fedballot.core.errors import DataError, SettingsError
from fedballot.privacy.audit import statistics as audit
from fedballot.privacy.audit.mechanisms import Finding, audit_class_sums, audit_head, audit_logits, audit_votes
from fedballot.privacy.mechanisms import vectors, votes
from fedballot.privacy.mechanisms.class_sums import ClassSums
from fedballot.privacy.mechanisms.heads import PrivateHead
from fedballot.privacy.mechanisms.logits import NoisyLogits
from fedballot.privacy.noise.randomness import seeded_noise
from tests.faults import each_fault

DELTA = 1e-5
VOTES = votes.NoisyVotes.solve(1.0, DELTA, queries=1, max_votes=1, min_clients=3)
HEAD = PrivateHead.solve(1.0, DELTA, records=2000, features=2, classes=2, lam=0.01)


def layers(found: list[Finding]) -> dict[str, bool]:
    return {finding.layer: finding.passed for finding in found}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_correct_votes_pass(seed: int) -> None:
    assert layers(audit_votes(VOTES, DELTA, seeded_noise(seed))) == {
        "variance": True,
        "two worlds": True,
        "one run": True,
    }


@each_fault
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_faulty_votes_are_caught(monkeypatch: pytest.MonkeyPatch, fault, caught: set[str], seed: int) -> None:
    monkeypatch.setattr(votes, "discrete_gaussian", fault)
    found = layers(audit_votes(VOTES, DELTA, seeded_noise(seed)))
    assert all(not found[layer] for layer in caught)


SUMS = {
    "logits": lambda noise: audit_logits(
        NoisyLogits.solve(1.0, DELTA, queries=1, classes=2, bound=2.0, min_clients=3), DELTA, noise, 8000
    ),
    "class sums": lambda noise: audit_class_sums(
        ClassSums.solve(1.0, DELTA, classes=2, features=400), DELTA, noise, 8000
    ),
    "class sums of three": lambda noise: audit_class_sums(
        ClassSums.solve(1.0, DELTA, classes=2, features=400, signed=False, min_clients=3), DELTA, noise, 8000
    ),
}


@pytest.mark.parametrize("run", SUMS.values(), ids=SUMS.keys())
def test_correct_sums_pass(run) -> None:
    assert all(layers(run(seeded_noise(1))).values())


@pytest.mark.parametrize("run", SUMS.values(), ids=SUMS.keys())
@each_fault
def test_faulty_sums_are_caught(monkeypatch: pytest.MonkeyPatch, run, fault, caught: set[str]) -> None:
    monkeypatch.setattr(vectors, "discrete_gaussian", fault)
    found = layers(run(seeded_noise(2)))
    assert all(not found[layer] for layer in caught)


@pytest.mark.slow
def test_correct_head_passes() -> None:
    assert all(layers(audit_head(HEAD, DELTA, seeded_noise(1), 1500)).values())


@pytest.mark.slow
@each_fault
def test_faulty_heads_are_caught(monkeypatch: pytest.MonkeyPatch, fault, caught: set[str]) -> None:
    monkeypatch.setattr(vectors, "discrete_gaussian", fault)
    found = layers(audit_head(HEAD, DELTA, seeded_noise(2), 1500))
    assert all(not found[layer] for layer in caught)


def test_kNN_votes_are_audited_in_their_own_units() -> None:
    found = audit_votes(votes.NoisyVotes(1, 1, 10.0, 3, k=5), DELTA, seeded_noise(4), runs=4000)
    assert all(finding.passed for finding in found)


def test_two_worlds_bound_is_a_lower_bound_and_sees_what_is_there() -> None:
    rng = np.random.default_rng(0)
    bounds = [audit.two_worlds_bound(rng.normal(0.5, 1, 4000), rng.normal(0, 1, 4000), 1e-5) for _ in range(20)]
    assert max(bounds) < 2.1  # epsilon of mu = 0.5 at delta = 1e-5 is 2.03
    assert np.mean(bounds) > 0.3
    assert audit.two_worlds_bound(np.full(4000, 1.0), np.zeros(4000), 1e-5) > 5
    assert audit.two_worlds_bound(np.zeros(4000), np.full(4000, 1.0), 1e-5) > 5  # either way round
    assert audit.two_worlds_bound(np.zeros(4000), np.zeros(4000), 1e-5) == 0.0


def test_variance_p_value_is_uniform_when_true_and_small_when_not() -> None:
    rng = np.random.default_rng(0)
    right = [audit.variance_p_value(rng.normal(0, 3, 500), 9.0) for _ in range(200)]
    assert 0.02 < np.mean(np.array(right) < 0.1) < 0.2
    assert audit.variance_p_value(rng.normal(0, 1.5, 500), 9.0) < 1e-12


def test_one_run_bound_is_refuted_only_by_enough_guesses() -> None:
    assert audit.one_run_bound(400, 400, 210, 1e-5) == 0.0
    assert audit.one_run_bound(400, 400, 400, 1e-5) > audit.one_run_bound(400, 400, 379, 1e-5) > 2.5
    assert audit.one_run_p_value(400, 0, 0, 1.0, 1e-5) == 1.0


def test_reach_is_refuted_beyond_it_only() -> None:
    rng = np.random.default_rng(0)
    unit = np.eye(50)[0]
    within = [audit.reach_p_value(unit + rng.normal(0, 0.1, 50), 1.0, 0.01) for _ in range(200)]
    assert 0.02 < np.mean(np.array(within) < 0.1) < 0.2
    assert audit.reach_p_value(2 * unit + rng.normal(0, 0.1, 50), 1.0, 0.01) < 1e-6
    assert audit.reach_p_value(0.3 * rng.normal(0, 1, 50), 0.0, 0.01) < 1e-6


def test_batches_pass_if_each_record_is_drawn_by_itself() -> None:
    rng = np.random.default_rng(0)
    right = [audit.poisson_p_value(rng.binomial(4, 0.25, (20, 200)), 4, 0.25) for _ in range(100)]
    assert min(right) > 1e-4 and np.mean(np.array(right) < 0.1) < 0.2
    assert audit.poisson_p_value(rng.binomial(4, 0.3, (20, 200)), 4, 0.25) < 1e-6
    assert audit.poisson_p_value(np.ones((20, 200), dtype=np.int64), 4, 0.25) < 1e-12


def test_inclusion_bound_is_below_the_largest_probability() -> None:
    rng = np.random.default_rng(0)
    bounds = [audit.inclusion_bound(rng.random((3, 100)) < np.array([[0.1], [0.2], [0.5]])) for _ in range(100)]
    assert np.mean(np.array(bounds) > 0.5) < 0.1 and np.mean(bounds) > 0.35
    assert audit.inclusion_bound(np.zeros((2, 10), dtype=bool)) == 0.0


def test_near_worst_pair_is_near_and_within() -> None:
    one, other = audit.near_worst_pair(2500, 10, 0.01)
    reach = 2 * math.sqrt(2) / (0.01 * 2500)
    assert 0.75 * reach < np.linalg.norm(one.weights - other.weights) <= reach


def test_refuses() -> None:
    with pytest.raises(SettingsError):
        audit.one_run_p_value(10, 5, 6, 1.0, 0.0)
    with pytest.raises(SettingsError):
        audit.one_run_bound(10, 5, 5, 0.0, confidence=1.0)
    with pytest.raises(DataError):
        audit.two_worlds_bound(np.zeros(3), np.zeros(3), 0.0)
    with pytest.raises(DataError):
        audit.variance_p_value(np.zeros(1), 1.0)
    with pytest.raises(DataError):
        audit.reach_p_value(np.zeros(3), 1.0, 0.0)
    with pytest.raises(DataError):
        audit.poisson_p_value(np.zeros((1, 5)), 4, 0.25)
    with pytest.raises(DataError):
        audit.inclusion_bound(np.zeros(5, dtype=bool))
