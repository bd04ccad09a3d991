"""Noisy votes: sensitivity, solver, statements, release and the cap on votes."""

import dataclasses
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedballot.core.errors import DataError, SettingsError
from fedballot.privacy.accounting import gaussian
from fedballot.privacy.audit.statistics import variance_p_value
from fedballot.privacy.mechanisms.ballots import limit_votes
from fedballot.privacy.mechanisms.votes import NoisyVotes
from fedballot.privacy.noise.randomness import os_noise, seeded_noise

PAPER = NoisyVotes(queries=500, max_votes=500, sigma=25, min_clients=100)


@pytest.mark.parametrize("epsilon", [4.3, 1.0, 0.5, 0.25])
@pytest.mark.parametrize("unit", ["client", "record"])
def test_solve_takes_the_smallest_noise_that_fits(epsilon: float, unit: str) -> None:
    shape = {"queries": 3000, "max_votes": 1650, "min_clients": 100}
    found = NoisyVotes.solve(epsilon, 1e-3, unit=unit, **shape)
    assert found.epsilon(1e-3, unit) <= epsilon
    assert replace(found, sigma=found.sigma * (1 - 1e-5)).epsilon(1e-3, unit) > epsilon
    assert found.sigma == pytest.approx(gaussian.sigma(found.sensitivity(unit), epsilon, 1e-3), rel=1e-5)


def test_solve_stops_at_the_smallest_share() -> None:
    found = NoisyVotes.solve(1e3, 1e-3, queries=10, max_votes=10, min_clients=1000)
    assert found.share_sigma == pytest.approx(2.0) and found.epsilon(1e-3) < 1


@given(st.integers(1, 40), st.integers(1, 10), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_no_two_clients_or_records_are_further_apart_than_the_sensitivity(queries: int, cap: int, seed: int) -> None:
    cap = min(cap, queries)
    rng = np.random.default_rng(seed)
    one, other = (limit_votes(rng.normal(size=(queries, 5)), cap, 4).astype(int) for _ in range(2))
    noisy = NoisyVotes(queries, cap, 10.0, 4)
    assert np.linalg.norm(one) <= noisy.sensitivity("client") + 1e-12
    assert np.linalg.norm(one - other) <= noisy.sensitivity("record") + 1e-12


def test_shares_add_up_to_sigma_for_the_guaranteed_honest() -> None:
    noisy = NoisyVotes(500, 500, 25, min_clients=70, colluders=20)
    assert noisy.share_sigma * math.sqrt(50) == pytest.approx(25, rel=1e-6)
    assert noisy.epsilon(1e-5) == pytest.approx(PAPER.epsilon(1e-5), rel=1e-4)


def test_every_statement_is_made() -> None:
    client, record, server, paper_client, paper_record = PAPER.guarantees(1e-5, clients=100, records=600)
    assert (client.unit, client.adjacency, client.view) == ("client", "zero-out", "output only")
    assert (record.unit, record.adjacency) == ("record", "replace-one")
    assert (server.view, server.trust.kind, server.adjacency) == ("server's view", "self", "replace-one")
    assert client.epsilon < record.epsilon < server.epsilon
    assert server.epsilon == pytest.approx(133.086, abs=0.02)
    assert paper_client.status == paper_record.status == "paper's claim"
    assert paper_client.epsilon > client.epsilon and paper_record.epsilon > record.epsilon
    assert record.n == 600 and client.n == 100


def test_secure_aggregation_narrows_what_the_server_sees() -> None:
    found = NoisyVotes(500, 500, 25, 70, 10).guarantees(1e-5, secure=True)
    assert {g.view for g in found} == {"server's view"} and len(found) == 4
    assert str(found[0].trust) == "secure aggregation (min_clients=70, colluders=10)"


def test_seeded_noise_is_stamped() -> None:
    assert {g.status for g in PAPER.guarantees(1e-5, seeded=True)} == {"seeded"}


def test_neighbours_protect_records_more_than_clients() -> None:
    noisy = NoisyVotes(206, 206, 15, min_clients=3, k=5)
    assert noisy.epsilon(1e-4, "record") < noisy.epsilon(1e-4, "client")
    assert noisy.epsilon(1e-4, "record") == pytest.approx(
        gaussian.epsilon(math.sqrt(2 * 206) / (5 * 15), 1e-4), rel=1e-4
    )
    exact = gaussian.epsilon(math.sqrt(206) / 15, 1e-4)
    assert exact <= noisy.epsilon(1e-4, "client") <= exact * 1.001


@pytest.mark.parametrize("k", [None, 5])
def test_released_noise_has_the_declared_variance(k: int | None) -> None:
    noisy = NoisyVotes(2000, 2000, 40.0, min_clients=25, k=k)
    votes = np.zeros((2000, 10), dtype=np.int64)
    votes[:, 3] = k or 1
    residual = noisy.release(votes, os_noise()) - votes
    assert residual.dtype == np.int32 or residual.dtype == np.int64
    variance, count = float(noisy.share_variance), residual.size
    statistic = float((residual.astype(float) ** 2).sum()) / variance
    assert variance == pytest.approx(((k or 1) * 40 / 5) ** 2, rel=1e-6)
    assert 1e-8 < stats.chi2.cdf(statistic, count) < 1 - 1e-8


def test_release_is_repeatable_with_a_seed_only() -> None:
    votes = np.eye(10, dtype=np.int8)
    noisy = NoisyVotes(10, 10, 30, 4)
    assert np.array_equal(noisy.release(votes, seeded_noise(3)), noisy.release(votes, seeded_noise(3)))
    assert not np.array_equal(noisy.release(votes, os_noise()), noisy.release(votes, os_noise()))


@pytest.mark.parametrize(
    ("votes", "says"),
    [
        (np.full((3, 2), 1), "row 0"),
        (np.array([[1, 0], [0, 2], [0, 0]]), "row 1"),
        (np.array([[1, 0], [2, -1], [0, 0]]), "row 1"),
        (np.array([[1, 0], [0, 1], [1, 0]]), "max_votes"),
        (np.eye(2, dtype=np.int8), "shape"),
        (np.array([[1.0, 0], [0, 0], [0, 0]]), "integers"),
    ],
)
def test_release_refuses_what_is_not_counted_for(votes: np.ndarray, says: str) -> None:
    with pytest.raises(DataError, match=says):
        NoisyVotes(3, 2, 10, 4).release(votes, os_noise())


@pytest.mark.parametrize(
    "bad",
    [
        {"max_votes": 0},
        {"max_votes": 501},
        {"sigma": 0.0},
        {"sigma": math.nan},
        {"sigma": 15.0},  # a share of 1.5
        {"colluders": 100},
        {"colluders": -1},
        {"k": 0},
        {"k": 3, "max_votes": 499},
    ],
)
def test_refuses_settings_that_cannot_hold(bad: dict[str, float]) -> None:
    with pytest.raises(SettingsError):
        replace(PAPER, **bad)  # type: ignore[arg-type]


def test_neighbours_answer_every_query() -> None:
    votes = np.array([[2, 1], [0, 3]])
    assert NoisyVotes(2, 2, 10, 4, k=3).release(votes, os_noise()).shape == (2, 2)
    with pytest.raises(DataError, match="row 1"):
        NoisyVotes(2, 2, 10, 4, k=3).release(np.array([[2, 1], [0, 0]]), os_noise())


def test_limit_votes_keeps_the_surest_and_abstains() -> None:
    scores = np.array([[0.1, 0.8, 0.1], [0.5, 0.4, 0.1], [0.2, 0.1, 0.7], [0.9, 0.0, 0.1]])
    assert limit_votes(scores, 4, 2).tolist() == [[0, 1], [1, 0], [0, 0], [1, 0]]
    assert limit_votes(scores, 2, 2).tolist() == [[0, 1], [0, 0], [0, 0], [1, 0]]
    assert limit_votes(scores, 4, 3).tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0]]


def test_limit_votes_breaks_ties_by_index() -> None:
    votes = limit_votes(np.tile([1.0, 0.0, 0.0], (100, 1)), 30, 3)
    assert votes[:30, 0].all() and not votes[30:].any()


def test_limit_votes_refuses_bad_scores() -> None:
    with pytest.raises(DataError, match="row 1"):
        limit_votes(np.array([[0.0, 1.0], [math.nan, 0.0]]), 1, 2)
    with pytest.raises(DataError, match="shape"):
        limit_votes(np.zeros((3, 5)), 1, 2)
    with pytest.raises(SettingsError, match="max_votes"):
        limit_votes(np.zeros((3, 2)), 0, 2)


def test_more_noise_than_agreed_makes_epsilon_smaller_and_less_is_refused() -> None:
    """Golden: N=100, sigma=25, Q=500, delta=1e-5; 70 agreed on, then 70 or 100 in the sum."""
    votes = NoisyVotes(queries=500, max_votes=500, sigma=25.0, min_clients=70)
    agreed, more = (votes.guarantees(1e-5, secure=True, arrived=arrived)[0] for arrived in (70, 100))
    assert agreed.epsilon == votes.epsilon(1e-5, "client") == pytest.approx(3.85, rel=0.01)
    whole = NoisyVotes(queries=500, max_votes=500, sigma=25.0 * math.sqrt(100 / 70), min_clients=100)
    assert more.epsilon == pytest.approx(whole.epsilon(1e-5, "client"), rel=1e-4) and more.epsilon < agreed.epsilon
    assert (
        str(more.trust) == "secure aggregation (min_clients=70, colluders=0)"
        and "noise of 100 clients" in more.composition
    )
    # calibrated for 100 of whom 70 came: what the golden table warns of
    short = NoisyVotes(queries=500, max_votes=500, sigma=25.0, min_clients=100)
    assert short.cost().epsilon(1e-5) < 4.7 < dataclasses.replace(short.cost(), shares=70).epsilon(1e-5) < 4.8
    with pytest.raises(SettingsError, match="a sum of fewer than 100 clients must not be opened"):
        short.guarantees(1e-5, secure=True, arrived=70)


def worlds(queries: int, classes: int, cap: int, k: int | None) -> list[np.ndarray]:
    """All votes that a client can cast; for kNN, with k records or more."""
    if k is None:
        rows = [np.zeros(classes, int), *np.eye(classes, dtype=int)]
    else:
        rows = [np.array(row) for row in itertools.product(range(k + 1), repeat=classes) if sum(row) == k]
    found = [np.array(some) for some in itertools.product(rows, repeat=queries)]
    return [votes for votes in found if np.count_nonzero(votes.any(axis=1)) <= cap]


@pytest.mark.parametrize(("queries", "cap", "k"), [(3, 2, None), (2, 2, None), (2, 2, 3)])
@pytest.mark.parametrize("unit", ["client", "record"])
def test_the_sensitivity_is_that_of_the_worst_pair_of_all_worlds(queries, cap, k, unit) -> None:
    noisy = NoisyVotes(queries, cap, 20.0, 4, k=k)
    one = np.array(worlds(queries, 3, cap, k))
    other = np.zeros_like(one[:1]) if unit == "client" else one
    moved = (one[:, None] - other[None]).reshape(-1, queries * 3)
    everything = (one[:, None] - one[None]).reshape(-1, queries * 3)
    if k and unit == "record":  # one neighbour of each query makes room for another
        moved = moved[np.abs(moved.reshape(-1, queries, 3)).sum(axis=2).max(axis=1) <= 2]
    for cost, steps in ((noisy.cost(unit), moved), (noisy.cost_alone(), everything)):
        assert cost.sensitivity == pytest.approx(np.linalg.norm(steps, axis=1).max())
        assert cost.coordinates >= np.count_nonzero(steps, axis=1).max()
        assert cost.coordinates >= np.abs(steps).sum(axis=1).max() and cost.unit_shifts <= (np.abs(steps).max() == 1)
    assert noisy.cost(unit).sensitivity == pytest.approx(noisy.ballot * noisy.sensitivity(unit))
    assert noisy.cost_alone().shares == noisy.cost_alone("record").shares == 1
    assert noisy.cost_alone("record").sensitivity == pytest.approx(np.linalg.norm(moved, axis=1).max()) or (
        unit == "client"
    )


@pytest.mark.parametrize("k", [None, 2])
def test_every_cell_has_noise_of_its_own_also_where_nobody_voted(k: int | None) -> None:
    noisy = NoisyVotes(2000, 2000, 40.0, min_clients=25, k=k)
    votes = np.zeros((2000, 6), dtype=np.int64)
    votes[:, 2] = k or np.arange(2000) % 2
    off = noisy.release(votes, os_noise()) - votes
    variance = float(noisy.share_variance)
    assert variance_p_value(off[::2], variance) > 1e-8 and variance_p_value(off[1::2], variance) > 1e-8
    assert variance_p_value(off[:, ::2] - off[:, 1::2], 2 * variance) > 1e-8  # other noise for each class
    assert variance_p_value(off[::2] - off[1::2], 2 * variance) > 1e-8  # and for each query


@pytest.mark.parametrize("rows", [[[4, 0], [3, 1]], [[2, 1], [2, 0]], [[2, 1], [0, 0]]])
def test_neighbours_that_are_more_than_k_or_not_as_many_everywhere_are_refused(rows: list[list[int]]) -> None:
    with pytest.raises(DataError, match="row"):
        NoisyVotes(2, 2, 10, 4, k=3).release(np.array(rows), os_noise())


def test_a_client_without_records_answers_with_its_noise_alone() -> None:
    blank = NoisyVotes(2000, 2000, 40.0, 4, k=3).release(np.zeros((2000, 2), dtype=np.int64), os_noise())
    assert variance_p_value(blank, float(NoisyVotes(2000, 2000, 40.0, 4, k=3).share_variance)) > 1e-8


def test_colluders_are_no_part_of_what_a_guarantee_counts() -> None:
    votes = NoisyVotes(500, 500, 25.0, 70, 10)
    assert votes.guarantees(1e-5)[0].epsilon == votes.epsilon(1e-5)
    more = votes.guarantees(1e-5, secure=True, arrived=80)
    for unit, found in zip(("client", "record"), more[:2], strict=True):
        assert found.epsilon == dataclasses.replace(votes.cost(unit), shares=70).epsilon(1e-5)
    for arrived in (69, 60):
        with pytest.raises(SettingsError, match="must not be opened"):
            votes.guarantees(1e-5, arrived=arrived)
