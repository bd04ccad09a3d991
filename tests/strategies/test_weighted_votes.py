"""Clients with targets of their own, from the request to the result: votes, charges, what is stated, the turnout."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedballot as fb
from fedballot.core.errors import RunError
from fedballot.core.files import read_arrays
from fedballot.core.setting import build
from fedballot.privacy.ledger import Ledger
from fedballot.privacy.mechanism import Facts
from fedballot.privacy.mechanisms.weighted import WHOLE, WeightedVotes
from fedballot.settings.voting import PateSettings, mechanism
from tests.conftest import QUICK_RUN, small_settings
from tests.strategies.test_summed import World

TARGETS = (8.0, 40.0)
WHOLE_BALLOTS = {"abstain": False, "vote_fraction": 1.0}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Six clients with whole ballots, of whom four must be in the sum; those with even numbers allow less."""
    few = {"clients": 6, "min_clients": 4, "private_size": 300, "public_size": 60, "server_epochs": 1}
    targets = {"epsilon": 40, "client_epsilons": TARGETS}
    return World(small_settings(PateSettings, few, WHOLE_BALLOTS, targets), tmp_path)


def weights(settings: PateSettings) -> list[int]:
    facts = [Facts(classes=10, client=client) for client in range(settings.clients)]
    return [settings.composition(one).parts["votes"].weight for one in facts]


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("gone", [[], [0, 2], [1, 3]])
def test_the_turnout_is_of_the_weight_that_came(secure: bool, gone: list[int], world: World) -> None:
    world.settings = build(PateSettings, world.settings.to_dict(), {"secure_aggregation": secure})
    world.gone = {("keys" if secure else "None", client): "raises" for client in gone}
    done = world.run()
    there = [client for client in range(6) if client not in gone]
    each = weights(world.settings)
    assert each[0] == each[2] < each[1] == WHOLE
    total = done.state()["total"]
    assert np.array_equal(total, world.releases(there).sum(axis=0)) and world.charged() == there
    metrics, noisy = done.learned.metrics, mechanism(world.settings)
    assert metrics["released_noise_sigma"] == pytest.approx(noisy.share_sigma * len(there) ** 0.5 / WHOLE)
    assert np.array_equal(done.learned.release["histogram"], total / WHOLE)
    full = sum(each[client] for client in there) / WHOLE * 60
    came = np.array([each[client] / WHOLE for client in there])
    assert metrics.get("vote_weight", 1.0) == pytest.approx((came**2).sum() / came.sum())
    off = 4 * metrics["released_noise_sigma"] * total.size**0.5 / full
    assert metrics["votes_cast_share"] == pytest.approx(1, abs=off)
    assert metrics["votes_cast_share"] == pytest.approx(total.sum() / WHOLE / full)
    if not secure and not gone:  # a sum alone is read as one of all clients
        assert done.learn_from_sum(total, 6).metrics["votes_cast_share"] == pytest.approx(metrics["votes_cast_share"])


def test_a_run_that_is_taken_up_knows_whose_votes_it_has(world: World) -> None:
    world.gone = {("None", 1): "raises"}
    first = world.run()
    world.gone = {}
    again = world.strategy()
    assert again.rounds_done == 1
    again.outcome()
    assert again.learned.metrics["votes_cast_share"] == first.learned.metrics["votes_cast_share"]


@pytest.mark.parametrize("unit", ["client", "record"])
def test_each_ledger_is_charged_what_its_client_is_promised(unit: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {**QUICK_RUN, "delta": 1e-3, "unit": unit, "epsilon": 30, "client_epsilons": [6, 30, 12]}
    result = fb.run("pate-fl", out=tmp_path / "run", engine="local", **given)
    settings = build(PateSettings, result.settings)
    own = [
        one for one in result.guarantees if one.unit == unit and one.view == "output only" and one.status == "proved"
    ]
    assert [one.among for one in own] == [
        "",
        "the 2 clients whose target is 6",
        "the 2 clients whose target is 12",
    ]
    stated = dict(zip((30, 6, 12), (one.epsilon for one in own), strict=True))
    for client in range(6):
        ledger, target = Ledger(tmp_path / "run" / "clients" / f"{client:05d}" / "ledger"), (6, 30, 12)[client % 3]
        assert ledger.spent() == pytest.approx(stated[target]) and ledger.spent() <= target
        assert ledger.account.epsilon == pytest.approx(stated[target])  # a second run finds nothing left
        (cost,) = ledger.costs()
        (released,) = (tmp_path / "run" / "clients" / f"{client:05d}" / "ledger" / "releases").glob("*.npz")
        assert cost == settings.composition(Facts(10, client=client)).parts["votes"].cost(unit)
        assert read_arrays(released)["votes"].shape == (60, 10)
    assert {round(one["largest"], 9) for one in result.values["ledgers"]} == {round(one, 9) for one in stated.values()}
    assert result.guarantee.epsilon == stated[30]
    page = result.report().read_text()
    assert "of the 2 clients whose target is 6" in page
    again = fb.run("pate-fl", out=tmp_path / "again", engine="local", **{**given, "client_epsilons": [30]})
    assert not any(one.among for one in again.guarantees)


def test_a_result_that_promises_a_client_more_than_it_was_charged_for_is_none(monkeypatch, tmp_path: Path) -> None:
    """What all are promised is not enough for those who are promised more."""
    whole = WeightedVotes.guarantees

    def boasts(self: WeightedVotes, *given: Any, **named: Any) -> Any:
        share = 0.8 if self.weight < WHOLE else 1
        return [replace(one, epsilon=share * one.epsilon) for one in whole(self, *given, **named)]

    monkeypatch.setattr(WeightedVotes, "guarantees", boasts)
    given: dict[str, Any] = {**QUICK_RUN, "epsilon": 30, "client_epsilons": [6, 30]}
    with pytest.raises(RunError, match="its noise does not give that"):
        fb.run("pate-fl", out=tmp_path / "run", engine="local", **given)


def test_what_a_ballot_adds_is_the_clients_own_weight(tmp_path: Path) -> None:
    """With almost no noise beside the weights, each ballot shows its own."""
    few = {"clients": 3, "min_clients": 1, "private_size": 150, "public_size": 20, "server_epochs": 1}
    settings = small_settings(
        PateSettings, few, WHOLE_BALLOTS, {"epsilon": 5e4, "client_epsilons": (3e3, 5e4, 1.5e4), "delta": 1e-3}
    )
    world = World(settings, tmp_path)
    world.run()
    each, share = weights(settings), mechanism(settings).share_sigma
    assert len(set(each)) == 3 and share < 0.1 * min(each)
    for client, ballot in enumerate(world.releases(range(3))):
        assert np.abs(ballot.max(axis=1) - each[client]).max() < 6 * share
        assert np.abs(np.sort(ballot, axis=1)[:, :-1]).max() < 6 * share


def test_a_plan_states_every_group(tmp_path: Path) -> None:
    plan = fb.budget("pate-fl", clients=10, queries=300, epsilon=1, client_epsilons=[0.25, 1])
    assert plan.plan.row("client", "exact").epsilon <= 1
    assert [one.among for one in plan.guarantees][-1] == "the 5 clients whose target is 0.25"
    page = plan.write(tmp_path / "plan.html").read_text()
    assert "of the 5 clients whose target is 0.25" in page
    assert json.dumps([one.worded() for one in plan.guarantees])
