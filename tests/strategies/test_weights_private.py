"""Private weights: the clipping bound holds whatever clients send, and what is accounted is what is drawn."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedballot.clients.weights_private import DpFedavgClient
from fedballot.clients.workspace import Workspace
from fedballot.core.errors import RunError
from fedballot.core.folders import ClientFolder
from fedballot.core.setting import build
from fedballot.privacy import accounting
from fedballot.privacy.accounting import CohortCost, PoissonCost
from fedballot.privacy.ledger import Account, Ledger
from fedballot.privacy.mechanisms.subsampled import SubsampledGaussian
from fedballot.runs.engine import federated_data
from fedballot.settings.weights_private import DpFedavgSettings, DpFedsgdSettings, client_mechanism, record_mechanism
from fedballot.strategies.base import Answer
from tests.conftest import fitting
from tests.strategies.test_fedmd import run, strategy_of
from tests.strategies.test_weights import DIGITS

GOLDEN = [
    entry
    for entry in json.loads((Path(__file__).parents[1] / "golden" / "privacy.json").read_text())["entries"]
    if entry["id"].startswith("subgauss.pld")
]


def clients(**over) -> DpFedavgSettings:
    return build(DpFedavgSettings, fitting(DpFedavgSettings, DIGITS), {"noise_seed": 1}, over)


def records(**over) -> DpFedsgdSettings:
    return build(
        DpFedsgdSettings,
        fitting(DpFedsgdSettings, DIGITS),
        {"noise_seed": 1, "rounds": 2, "epochs": 1, "rate": 0.25},
        over,
    )


def answer(client_id: int, ballot) -> Answer:
    return Answer(client_id, np.asarray(ballot, dtype=np.float32), 0.0, 0.0)


STRATEGY = strategy_of(clients(clip=0.5, noise_multiplier=0.02), "dp-fedavg")


@hypothesis_settings(max_examples=30, deadline=None)
@given(
    arrays(np.float32, 8, elements=st.floats(-(2.0**100), 2.0**100, width=32)),
    arrays(np.float32, 8, elements=st.floats(-(2.0**100), 2.0**100, width=32)),
    st.integers(0, 2),
)
def test_one_client_moves_the_sum_by_at_most_the_clip(own, other, place):
    """Without noise: with the same seed the noise is the same in both worlds, and cancels."""
    size = STRATEGY.weights.size
    full = [answer(n, np.pad(v, (0, size - 8))) for n, v in enumerate((other, own[::-1], own))]
    absent = [one for one in full if one.client_id != place]
    scale = STRATEGY.settings.divisor
    moved = np.linalg.norm((STRATEGY.averaging().of(full) - STRATEGY.averaging().of(absent)) * scale)
    grid = STRATEGY.mechanism.grid
    assert moved <= 0.5 * (1 + 1e-6) + grid * np.sqrt(size)


def test_the_noise_has_the_size_that_is_accounted():
    strategy = strategy_of(clients(clip=0.5, noise_multiplier=2.0, noise_seed=None), "dp-fedavg")
    drawn = strategy.averaging().of([]) * strategy.settings.divisor
    assert drawn.std() == pytest.approx(1.0, abs=5 / np.sqrt(2 * drawn.size))
    assert not np.array_equal(drawn, strategy.averaging().of([]) * strategy.settings.divisor)


@pytest.mark.parametrize("entry", GOLDEN, ids=lambda entry: entry["id"])
def test_golden_epsilons_of_what_a_run_would_state(entry):
    """Reference values of Poisson sampling; rounding to the grid costs about a thousandth of the noise."""
    p = entry["parameters"]
    mechanism = SubsampledGaussian(1, p["q"], 1.0, p["noise_multiplier"], p["steps"], 50)
    assert mechanism.accountant == ("exact" if p["q"] == 1 else "pld")
    assert mechanism.epsilon(p["delta"]) == pytest.approx(entry["expected"], rel=5e-3)
    assert mechanism.epsilon(p["delta"]) >= entry["expected"] * (1 - 1e-4)


def test_costs_are_those_of_the_sampling():
    poisson = client_mechanism(clients(participation=0.5, noise_multiplier=3.0), 50)
    cost = poisson.cost()
    assert isinstance(cost, PoissonCost) and cost.q == 0.5 and cost.steps == 4
    assert cost.multiplier == pytest.approx(3, rel=2e-3) and cost.multiplier < 3
    fixed = client_mechanism(clients(participation=0.5, noise_multiplier=3.0, sampling="fixed"), 50)
    cost = fixed.cost()
    assert isinstance(cost, CohortCost) and (cost.n, cost.m) == (4, 2)
    assert cost.multiplier == pytest.approx(1.5, rel=2e-3)  # replacing a client moves the sum by two clips
    assert fixed.epsilon(1e-3) > poisson.epsilon(1e-3)


@pytest.mark.parametrize("over", [{"participation": 0.5}, {}])
def test_the_solved_noise_meets_the_target_and_wastes_little(over):
    mechanism = client_mechanism(clients(epsilon=2.0, clients=40, **over), 50)
    assert 1.98 < mechanism.epsilon(1e-3) <= 2.0


def test_local_noise_is_solved_over_all_rounds_whatever_the_number_of_records():
    settings = records(epsilon=3.0, delta=1e-3, rate=1.0, epochs=4)  # whole batches: no sampling to account
    assert settings.steps == 4
    mechanism = record_mechanism(settings, 50)
    assert mechanism.steps == 8 and 2.98 < mechanism.epsilon(1e-3) <= 3.0


def test_opacus_accounts_the_same():
    accountants = pytest.importorskip("opacus.accountants")
    mechanism = SubsampledGaussian(1, 0.05, 1.0, 1.1, 200, 50)
    opacus = accountants.PRVAccountant()
    opacus.history = [(mechanism.cost().multiplier, 0.05, 200)]
    assert mechanism.epsilon(1e-5) == pytest.approx(opacus.get_epsilon(1e-5), rel=1e-2)
    renyi = accountants.RDPAccountant()
    renyi.history = opacus.history
    assert mechanism.epsilon(1e-5) <= renyi.get_epsilon(1e-5)
    assert accounting.epsilon([mechanism.cost()], 1e-5, "rdp") == pytest.approx(renyi.get_epsilon(1e-5), rel=1e-2)


def test_dp_fedavg_with_little_noise_learns_and_charges_each_client_for_each_round_it_is_drawn_in(tmp_path):
    settings = clients(clip=3.0, noise_multiplier=0.02, rounds=6, participation=0.75)
    strategy, result = run("dp-fedavg", settings, tmp_path / "a")
    assert result["metrics"]["server_accuracy"] > 0.6
    guarantee = result["guarantees"][0]
    assert (guarantee["unit"], guarantee["adjacency"], guarantee["status"]) == ("client", "zero-out", "seeded")
    assert guarantee["trust"] == "trusted aggregator" and guarantee["accountant"] == "exact"
    ledgers = [Ledger(path.parent) for path in (tmp_path / "a").glob("clients/*/ledger/ledger.jsonl")]
    # unamplified: a client, and whoever knows that it was drawn, cannot count on the draw being secret
    drawn = sum(record["asked"] for record in result["rounds"])
    assert sum(len(one.costs()) for one in ledgers) == drawn > settings.rounds
    assert all(cost == strategy.mechanism.cost_if_drawn() for one in ledgers for cost in one.costs())
    assert all(len(one.costs()) <= settings.rounds for one in ledgers)
    assert any("participation=1" in word for word in result["warnings"])


def test_a_round_without_anybody_is_a_round_of_noise(tmp_path):
    settings = clients(participation=1e-9, noise_multiplier=0.5, rounds=2)
    strategy, result = run("dp-fedavg", settings, tmp_path)
    assert [record["asked"] for record in result["rounds"]] == [0, 0]
    assert result["status"] == "done" and strategy.rounds == 2


def test_a_fixed_cohort_needs_everybody_connected():
    strategy = strategy_of(clients(sampling="fixed", participation=0.5, noise_multiplier=1.0), "dp-fedavg")
    assert len(strategy.cohort(1, list("abcd"))) == 2
    with pytest.raises(RunError, match="3 of 4 clients"):
        strategy.cohort(1, list("abc"))


def test_dp_fedsgd_charges_each_round_and_a_resumed_run_draws_no_noise_twice(tmp_path):
    settings = records(noise_multiplier=0.8, noise_seed=None)
    strategy, result = run("dp-fedsgd", settings, tmp_path / "a")
    guarantee = result["guarantees"][0]
    assert (guarantee["unit"], guarantee["trust"], guarantee["view"]) == ("record", "self", "server's view")
    assert 5 < guarantee["epsilon"] < 20 and guarantee["status"] == "proved"
    cost = record_mechanism(settings, strategy.weights.size).cost()  # of both rounds
    for path in (tmp_path / "a").glob("clients/*/ledger/ledger.jsonl"):
        ledger = Ledger(path.parent)
        assert len(ledger.costs()) == 2
        assert ledger.account.accountant == "rdp"  # the one that is a filter: never below the exact one
        assert ledger.spent() == pytest.approx(accounting.epsilon([cost], settings.delta, "rdp"))
        assert ledger.spent() >= guarantee["epsilon"] * (1 - 1e-6)
    (tmp_path / "a" / "checkpoint.npz").unlink()  # the server forgets; the clients do not
    again, _ = run("dp-fedsgd", settings, tmp_path / "a", resume=True)
    assert np.array_equal(again.weights, strategy.weights)


@pytest.mark.parametrize(
    ("account", "refused"),
    [
        (Account("site 0", "x", "record", "replace-one", 99.0, 1e-3), "policy"),
        (Account("site 0", "x", "client", "zero-out", 0.5, 1e-3), "budget"),
    ],
    ids=["another unit", "too small a budget"],
)
def test_a_clients_own_ledger_has_the_last_word(account, refused, tmp_path):
    settings = clients(noise_multiplier=1.0)
    ledger = Ledger(tmp_path / "ledger", account)
    workspace = Workspace(0, settings, federated_data(settings), ClientFolder(tmp_path / "0"), "cpu", ledger)
    server = strategy_of(settings, "dp-fedavg")
    config = {"request": "run/1", "round": 1, "fingerprint": server.fingerprint}
    out, _, metrics = DpFedavgClient(workspace).fit(server.request(1), config)
    assert out == [] and metrics["refused"] == refused
    assert ledger.costs() == []
