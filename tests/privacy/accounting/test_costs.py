"""Costs as accountants and ledgers see them, and one of somebody else's package on its way through all of them."""

from __future__ import annotations

import doctest
import importlib
import json
import os
import pkgutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.core.errors import DataError, SettingsError
from fedballot.privacy import accounting
from fedballot.privacy.accounting import (
    CohortCost,
    Cost,
    DeltaCost,
    Filter,
    GaussianCost,
    IntegerCost,
    LaplaceCost,
    PoissonCost,
    PureCost,
    epsilon,
    from_plain,
    gaussian,
    register_cost,
    to_plain,
)
from fedballot.privacy.ledger import Account, BudgetError, Ledger
from fedballot.studies.ledger_view import view

PLUGIN = Path(__file__).parent / "plugin"
DELTA = 1e-5
NOISY: list[Cost] = [
    GaussianCost(0.1, 2),
    IntegerCost(3.0, 9, 8.0, 4, True),
    LaplaceCost(0.1),
    PureCost(0.1, 3),
    PoissonCost(0.1, 2.0, 3),
    CohortCost(100, 10, 2.0, 3),
]


@pytest.fixture
def winner(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The class of cost that the package `winner_costs` brings."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    return importlib.import_module("winner_costs").WinnerCost


def draw() -> dict[str, np.ndarray]:
    return {"x": np.ones(3)}


@pytest.mark.parametrize("cost", NOISY, ids=lambda cost: type(cost).__name__)
def test_many_costs_are_what_the_accountant_adds_them_up_to(cost: Cost) -> None:
    for accountant in ("exact", "pld", "rdp"):
        if cost.supports(accountant):
            together = epsilon([cost.times(3)], DELTA, accountant)
            assert together == pytest.approx(epsilon([cost] * 3, DELTA, accountant), rel=1e-6)


@pytest.mark.parametrize("cost", NOISY, ids=lambda cost: type(cost).__name__)
def test_the_tightest_accountant_is_the_tightest(cost: Cost) -> None:
    known = [name for name in ("exact", "pld", "rdp") if cost.supports(name)]
    assert cost.tightest() in known
    best = epsilon([cost], DELTA, cost.tightest())
    assert all(best <= epsilon([cost], DELTA, name) * (1 + 1e-9) for name in known)
    for name in {"exact", "pld", "rdp"} - {*known}:
        with pytest.raises(SettingsError, match=rf'"{name}" has no bound for {type(cost).__name__}: choose .*"rdp"'):
            epsilon([cost], DELTA, name)


def test_a_sample_is_charged_once() -> None:
    with pytest.raises(SettingsError, match="once"):
        DeltaCost(0.1).times(2)


def test_no_accountant_for_all_of_some_costs() -> None:
    costs = [CohortCost(100, 10, 2.0, 3), OnlyLosses(0.1)]
    with pytest.raises(SettingsError, match="has no bound for OnlyLosses: no accountant adds up all of these"):
        epsilon(costs, DELTA, "rdp")
    assert epsilon(costs[1:], DELTA, "pld") == pytest.approx(epsilon([PureCost(0.1)], DELTA, "pld"), rel=1e-6)


@register_cost
@dataclass(frozen=True)
class OnlyLosses(Cost):
    """A cost whose loss distribution alone is known."""

    ratio: float

    def pld(self) -> Any:
        return PureCost(self.ratio).pld()

    def times(self, count: int) -> Cost:
        return PureCost(self.ratio, count)

    def words(self) -> str:
        return "losses"


@register_cost
@dataclass(frozen=True)
class LeakyCost(PureCost):
    """An (epsilon, delta)-DP release: with probability delta all comes out, else it is pure."""

    delta: float = 0.0

    @property
    def mass(self) -> float:
        return self.delta


def test_a_cost_may_have_a_mass_and_noise() -> None:
    """The optimal composition of (epsilon, delta)-DP: masses apart, randomised response for the rest."""
    leaky = LeakyCost(0.5, delta=1e-6)
    left = (DELTA - 1e-6) / (1 - 1e-6)
    assert epsilon([leaky], DELTA, "pld") == pytest.approx(epsilon([PureCost(0.5)], left, "pld"), rel=1e-9)
    rule = Filter(2.0, DELTA, "rdp")
    assert rule.fits([leaky, PureCost(0.1)]) and not rule.fits([PureCost(0.1), leaky]) and not rule.fits([leaky] * 2)


# the registry


def test_costs_survive_writing() -> None:
    for cost in (*NOISY, DeltaCost(0.1)):
        assert from_plain(json.loads(json.dumps(to_plain(cost)))) == cost
        assert "package" not in to_plain(cost)
    for bad in ({"type": "FreeCost"}, {"type": "GaussianCost"}, {"type": "GaussianCost", "mu": -1}, {}, {"type": [1]}):
        with pytest.raises(DataError):
            from_plain(bad)


def test_what_a_ledger_could_not_read_again_is_refused() -> None:
    @dataclass(frozen=True)
    class Stranger(PureCost):
        pass

    with pytest.raises(SettingsError, match=r"put @register_cost on .*Stranger"):
        to_plain(Stranger(0.1))
    with pytest.raises(SettingsError, match="mu = array"):
        to_plain(GaussianCost(np.array(0.5)))  # type: ignore[arg-type]


def test_a_class_that_is_no_cost_of_a_ledger_is_not_registered() -> None:
    @dataclass(frozen=True)
    class GaussianCost(PureCost):  # the name of another
        pass

    @dataclass
    class Loose:
        x: float

    @dataclass(frozen=True)
    class Silent(Cost):
        def times(self, count: int) -> Cost:
            return self

    @dataclass(frozen=True)
    class Typed(PureCost):
        type: str = ""

    @dataclass(frozen=True)
    class Boundless(Cost):
        def times(self, count: int) -> Cost:
            return self

        def words(self) -> str:
            return ""

    for kind, words in (
        (GaussianCost, "costs.gaussian.GaussianCost has this name already"),
        (Loose, "frozen"),
        (Silent, "needs the methods words"),
        (Typed, "name the field otherwise"),
        (Boundless, "no accountant"),
    ):
        with pytest.raises(SettingsError, match=words):
            register_cost(kind)  # type: ignore[type-var]
    assert accounting.to_plain(accounting.GaussianCost(0.1))["type"] == "GaussianCost"


# somebody else's cost


def test_a_cost_of_another_package_is_added_up_by_all_who_have_a_bound(winner: Any) -> None:
    one, many = winner(20.0), [winner(20.0)] * 50
    assert [one.supports(name) for name in ("exact", "pld", "rdp")] == [False, True, True]
    assert epsilon([one], DELTA, "pld") <= 0.1
    by_losses, by_renyi = (epsilon(many, DELTA, name) for name in ("pld", "rdp"))
    assert by_losses <= by_renyi < epsilon([PureCost(0.1)] * 50, DELTA, "rdp") < 5.0
    assert epsilon([*many, GaussianCost(0.1)], DELTA, "rdp") > by_renyi
    with pytest.raises(SettingsError, match='"exact" has no bound for WinnerCost: choose "pld" or "rdp"'):
        epsilon([GaussianCost(0.1), one], DELTA)


@pytest.mark.parametrize("order", [1.5, 2.0, 7.0, 40.0])
def test_the_bound_of_that_package_holds(winner: Any, order: float) -> None:
    rng = np.random.default_rng(3)
    scores = rng.uniform(0, 4, size=(200, 4))
    moved = scores + rng.uniform(-1, 1, size=scores.shape)
    one, other = (x / 2.0 - np.logaddexp.reduce(x / 2.0, axis=1, keepdims=True) for x in (scores, moved))
    exact = np.logaddexp.reduce(order * one + (1 - order) * other, axis=1) / (order - 1)
    assert exact.max() <= winner(2.0).rdp(np.array([order]))[0]


def test_a_cost_of_another_package_goes_through_a_ledger(winner: Any, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, Account("a", "people", "record", "replace-one", 0.5, DELTA, "rdp"))
    ledger.release("round 1", {"x": winner(20.0)}, draw, digest="asked")
    assert ledger.spent() == epsilon([winner(20.0)], DELTA, "pld")  # alone: the tightest
    count = 1
    with pytest.raises(BudgetError):
        for count in range(2, 1000):
            ledger.release(f"round {count}", {"x": winner(20.0)}, draw, digest="asked")
    again = Ledger(tmp_path)
    assert again.costs() == [winner(20.0)] * (count - 1) and again.verify() == 1 + 2 * (count - 1)
    assert again.spent() == Filter(0.5, DELTA, "rdp").spent(again.costs()) <= 0.5
    shown = view(again)
    assert shown.again == 0 and shown.last == f"round {count - 1}"
    assert shown.entries[1].cost == "1 winners of noisy scores: ε = 0.1 by itself"
    assert {line["costs"]["x"]["package"] for line in again.lines() if line["kind"] == "charge"} == {"winner_costs"}


READS = "import sys; from pathlib import Path; from fedballot.privacy.ledger import Ledger\n"
READS += "print(Ledger(Path(sys.argv[1])).costs())"


def read_elsewhere(folder: Path, *paths: Path) -> subprocess.CompletedProcess[str]:
    """Read a ledger's costs in a process that has imported nothing but fedballot."""
    path = os.pathsep.join(map(str, (Path(accounting.__file__).parents[3], *paths)))
    code = [sys.executable, "-c", READS, str(folder)]
    return subprocess.run(code, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=60)


def test_a_ledger_is_read_where_the_package_is_installed_and_names_it_where_not(winner: Any, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, Account("a", "people", "record", "replace-one", 1.0, DELTA, "rdp"))
    ledger.release("round 1", {"x": winner(20.0)}, draw, digest="asked")
    there = read_elsewhere(tmp_path, PLUGIN)
    assert there.stdout == "[WinnerCost(scale=20.0, count=1)]\n", there.stderr
    missing = read_elsewhere(tmp_path)
    assert missing.returncode == 1
    assert "DataError: cost 'WinnerCost': needs the package 'winner_costs' that defines it" in missing.stderr


def test_a_cost_of_the_same_name_from_another_package_is_not_taken_for_it(winner: Any) -> None:
    plain = to_plain(winner(20.0))
    assert plain == {"type": "WinnerCost", "package": "winner_costs", "scale": 20.0, "count": 1}
    for package in ("another", "os"):
        with pytest.raises(DataError, match=f"needs the package '{package}'"):
            from_plain({**plain, "package": package})
    with pytest.raises(DataError, match="not one of"):
        from_plain({name: value for name, value in plain.items() if name != "package"})


def test_the_examples_in_the_documentation() -> None:
    for found in pkgutil.walk_packages(accounting.__path__, f"{accounting.__name__}."):
        assert doctest.testmod(importlib.import_module(found.name)).failed == 0, found.name
    assert gaussian.epsilon(0.5, DELTA) == epsilon([GaussianCost(0.25, 4)], DELTA)
