"""What a run of any method would cost, answered from its composition alone: nothing is read, trained or released."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, cast

from fedballot.core.errors import SettingsError
from fedballot.privacy import accounting
from fedballot.privacy.guarantee import Adjacency, Unit
from fedballot.privacy.mechanism import Composition, Facts
from fedballot.settings.parts import CommonSettings

OF_A_RUN = ("arrived", "all_records", "largest_client", "client")  # known only in a run, and optional
MOST_RUNS = 1000


class GivenFacts:
    """Facts of which only some are given: to ask for another one is an error that names it."""

    def __init__(self, given: Mapping[str, int | None]) -> None:
        self._given = {name: value for name, value in given.items() if value is not None}

    def __getattr__(self, name: str) -> int | None:
        if name in OF_A_RUN:
            return None
        if name not in {field.name for field in fields(Facts)}:
            raise AttributeError(name)
        if name not in self._given:
            raise SettingsError(f"the noise depends on `{name}`, which no setting says: give --{name} N")
        return self._given[name]


@dataclass(frozen=True)
class Part:
    """One part of an answer: its mechanism, and its cost in words."""

    name: str
    mechanism: str
    cost: str


@dataclass(frozen=True)
class Charge:
    """What a whole run spends of a ledger of one unit, epsilon at the composition's delta."""

    unit: Unit
    adjacency: Adjacency
    epsilon: float


@dataclass(frozen=True)
class Spending:
    """What one run of a method costs a client.

    Parameters
    ----------
    parts
        Of an answer.
    releases
        Answers of a client in the run.
    delta, accountant
        Of the run's composition.
    charges
        A ledger of each unit that the mechanisms know a cost for.
    runs
        How many such runs a budget pays for; None: no budget was given.
    """

    parts: tuple[Part, ...]
    releases: int
    delta: float
    accountant: str
    charges: tuple[Charge, ...]
    runs: int | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def composition_of(settings: CommonSettings, given: Mapping[str, int | None]) -> Composition:
    """The composition of settings whose mechanism may depend on these facts.

    Raises
    ------
    SettingsError
        If it depends on one that is not given, or the method promises nothing.
    """
    composition = settings.composition(cast(Facts, GivenFacts(given)))
    if not composition.costs():
        raise SettingsError(f"nothing to plan: {composition.words}: no guarantee, so nothing is ever charged")
    return composition


def spending(composition: Composition, budget: float | None = None) -> Spending:
    """What a run costs, and how many such runs a ledger with this budget pays for.

    Parameters
    ----------
    composition
        Of the run.
    budget
        Epsilon of a ledger of the composition's own unit, at its delta.
    """
    costs = composition.costs()
    parts = tuple(
        Part(name, type(part).__name__, costs[name].words() if name in costs else "leaves without a guarantee")
        for name, part in composition.parts.items()
    )
    worlds = dict.fromkeys([(composition.unit, composition.adjacency), *composition.also])
    charges = tuple(
        Charge(unit, adjacency, _epsilon(composition, unit, 1)) for unit, adjacency in worlds if unit != "person"
    )
    runs = None
    if budget is not None:
        runs = accounting.largest_count(
            lambda count: _epsilon(composition, composition.unit, count) <= budget, limit=MOST_RUNS
        )
    return Spending(parts, composition.releases, composition.delta, composition.accountant, charges, runs)


def _epsilon(composition: Composition, unit: Unit, runs: int) -> float:
    costs = [*composition.costs(unit).values()] * (composition.releases * runs)
    return accounting.epsilon(costs, composition.delta, composition.accountant)
