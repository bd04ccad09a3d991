"""What was spent: charges, and what a ledger that is gone may have let out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fedballot.privacy.accounting import Cost, Filter, from_plain, gaussian
from fedballot.privacy.ledger.lines import Line


@dataclass(frozen=True)
class Lost:
    """What the releases of a ledger that is gone may have told: no more than its limit, at its delta."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        gaussian.check_epsilon(self.epsilon)
        gaussian.check_delta(self.delta)


@dataclass(frozen=True)
class Spending:
    """All that was spent, apart from what the present limit allows.

    Epsilons and deltas of both kinds add (basic composition): the statement holds at `delta`, which grows with each
    loss.

    Parameters
    ----------
    rule : Filter
        By which the costs add up; its delta is theirs.
    lost : tuple of Lost
    costs : tuple of Cost
        What was charged and is not within a loss.
    """

    rule: Filter
    lost: tuple[Lost, ...] = ()
    costs: tuple[Cost, ...] = ()

    def after(self, line: Line) -> Spending:
        """Return what was spent after a further line of the ledger."""
        if line["kind"] == "charge":
            return replace(self, costs=(*self.costs, *costs_of(line).values()))
        if line["kind"] != "restored":
            return self
        lost = Lost(line["epsilon"], line["delta"])
        if line["covers"]:  # the ledger that is gone held all lines up to here, so its limit covers them
            return Spending(self.rule, (lost,))
        return replace(self, lost=(*self.lost, lost))

    @property
    def delta(self) -> float:
        """Delta of the statement, at most 1."""
        return min(1.0, math.fsum([self.rule.delta, *(one.delta for one in self.lost)]))

    def epsilon(self, *further: Cost) -> float:
        """The least budget that takes it, also with further costs; the one place where a ledger adds up."""
        return math.fsum([self.rule.spent([*self.costs, *further]), *(one.epsilon for one in self.lost)])


def costs_of(charge: Line) -> dict[str, Cost]:
    """Return what a charge's line says that each part costs.

    Raises
    ------
    DataError
        If it is a cost that nothing installed here knows.
    """
    return {part: from_plain(plain) for part, plain in charge["costs"].items()}
