"""What a run promises about privacy, as data: no bare epsilon anywhere."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from fedballot.errors import SettingsError

Unit = Literal["record", "person", "agent"]
Adjacency = Literal["add-remove", "replace-one", "zero-out"]
View = Literal["output only", "server's view", "network"]
Status = Literal["proved", "paper's claim", "seeded", "none"]
TrustKind = Literal["self", "trusted aggregator", "secure aggregation"]

STATUSES: tuple[Status, ...] = ("proved", "paper's claim", "seeded", "none")  # strongest first


@dataclass(frozen=True)
class Trust:
    """Whom a party has to trust for the guarantee to hold.

    Parameters
    ----------
    kind : {"self", "trusted aggregator", "secure aggregation"}
    m_min : int, optional
        Secure aggregation only: contributions below which the sum is not opened.
    t : int
        Secure aggregation only: contributors that may collude with the server.
    """

    kind: TrustKind
    m_min: int | None = None
    t: int = 0

    def __post_init__(self) -> None:
        if self.kind not in get_args(TrustKind):
            raise SettingsError(f"trust = {self.kind!r}: allowed are {', '.join(get_args(TrustKind))}.")
        if self.kind == "secure aggregation":
            if self.m_min is None or not 0 <= self.t < self.m_min:
                raise SettingsError(
                    f"trust: secure aggregation needs 0 <= t < m_min, got m_min = {self.m_min}, t = {self.t}."
                )
        elif self.m_min is not None or self.t:
            raise SettingsError(f"trust = {self.kind!r} takes no m_min and no t; leave them out.")

    def __str__(self) -> str:
        if self.kind == "secure aggregation":
            return f"secure aggregation (m_min={self.m_min}, t={self.t})"
        return self.kind


SELF = Trust("self")
TRUSTED_AGGREGATOR = Trust("trusted aggregator")


def secure_aggregation(m_min: int, t: int = 0) -> Trust:
    """Trust in secure aggregation with at least `m_min` contributors, at most `t` of them colluding."""
    return Trust("secure aggregation", m_min, t)


@dataclass(frozen=True)
class Guarantee:
    """A differential privacy statement with everything that it depends on.

    Parameters
    ----------
    mechanism : str
        What was released and how, in a few words.
    unit : {"record", "person", "agent"}
        Whose presence is hidden: one record, all records of one person at a site (at most a public number of them, see
        `all_records`), or everything that one agent holds.
    adjacency : {"add-remove", "replace-one", "zero-out"}
        Which two worlds cannot be told apart. Zero-out: the agent takes part, with its noise, but answers nothing.
    epsilon, delta : float
        epsilon >= 0, may be infinite (no protection); 0 <= delta <= 1.
    view : {"output only", "server's view", "network"}
        What the adversary sees.
    trust : Trust
    status : {"proved", "paper's claim", "seeded", "none"}
    accountant : str
        How epsilon was computed.
    n : int, optional
        Number of units, where that is public; needed to judge delta.
    composition : str
        How many releases are counted, in words.

    Raises
    ------
    SettingsError
        If a value is not among those allowed.
    """

    mechanism: str
    unit: Unit
    adjacency: Adjacency
    epsilon: float
    delta: float
    view: View
    trust: Trust
    status: Status
    accountant: str
    n: int | None = None
    composition: str = "one release"

    def __post_init__(self) -> None:
        for name, allowed in (("unit", Unit), ("adjacency", Adjacency), ("view", View), ("status", Status)):
            value = getattr(self, name)
            if value not in get_args(allowed):
                raise SettingsError(f"{name} = {value!r}: allowed are {', '.join(get_args(allowed))}.")
        if not self.epsilon >= 0:
            raise SettingsError(f"epsilon = {self.epsilon}: must be a number >= 0 or infinite.")
        if not 0 <= self.delta <= 1:
            raise SettingsError(f"delta = {self.delta}: must lie in [0, 1].")
        if self.n is not None and self.n < 1:
            raise SettingsError(f"n = {self.n}: must be at least 1, or left out where it is not public.")

    def __add__(self, other: "Guarantee") -> "Guarantee":
        """Basic composition, see `combine`."""
        return combine([self, other])

    def sentence(self) -> str:
        """Return the guarantee as prose that can be quoted to somebody who knows no differential privacy."""
        who = {
            "record": "one person's record",
            "person": "all records of one person",
            "agent": "one whole participant (all of its data)",
        }[self.unit]
        if self.status == "none" or math.isinf(self.epsilon):
            return f"{_capital(self.mechanism)}: no privacy guarantee is claimed for {who}."
        worlds = {
            "add-remove": f"whether {who} is in the data or not",
            "replace-one": f"whether {who} is the true one or any other",
            "zero-out": f"whether the answers of {who} were counted or left blank",
        }[self.adjacency]
        seen = {
            "output only": "somebody who sees what the aggregator publishes",
            "server's view": "the server, and anybody who sees what it receives",
            "network": "anybody who records all the traffic",
        }[self.view]
        trust = {
            "self": "nobody but the participant itself has to be trusted",
            "trusted aggregator": "the aggregator must be trusted to add up the answers and show only the sum",
            "secure aggregation": "the answers are added under encryption, with at least "
            f"{self.trust.m_min} arriving and at most {self.trust.t} of their senders colluding",
        }[self.trust.kind]
        odds = f"by more than a factor of {_factor(self.epsilon)} (epsilon = {self.epsilon:.4g})"
        slack = f", except with probability at most {self.delta:.3g} (delta)" if self.delta else ""
        lead = {
            "proved": "",
            "paper's claim": "In the paper's own accounting, ",
            "seeded": "NOT PRIVATE, the noise came from a known seed. With secret noise it would read: ",
        }[self.status]
        body = f"for {seen}, the odds of {worlds} do not change {odds}{slack}; {trust}. Counted: {self.composition}."
        return lead + (body if lead else _capital(body))

    def warnings(self) -> list[str]:
        """Return what a privacy officer should know before accepting this guarantee, one sentence each."""
        found = []
        if self.status == "none" or math.isinf(self.epsilon):
            found.append("There is no privacy guarantee.")
        elif self.epsilon > 10:
            found.append(f"epsilon = {self.epsilon:.4g} is above 10: the bound excludes next to nothing.")
        if self.status == "seeded":
            found.append("The noise came from a seed: whoever knows it can take the noise off again.")
        if self.status == "paper's claim":
            found.append("This figure is the paper's own, given for comparison.")
        if self.n is not None and self.delta >= 1 / self.n:
            found.append(
                f"delta = {self.delta:.3g} is at least 1/n = {1 / self.n:.3g}: publishing one {self.unit} in full, "
                "chosen at random, would satisfy it."
            )
        if self.unit == "record":
            found.append("Only single records are protected, not everything that a participant or a person holds.")
        return found

    def worded(self) -> dict[str, Any]:
        """Return `to_dict` with the sentence and the warnings, as results hold it."""
        return {**self.to_dict(), "sentence": self.sentence(), "warnings": self.warnings()}

    def to_dict(self) -> dict[str, str | float | int | None]:
        """Return plain JSON values; an infinite epsilon becomes None."""
        plain = asdict(self)
        plain["trust"] = str(self.trust)
        plain["epsilon"] = None if math.isinf(self.epsilon) else self.epsilon
        return plain


def all_records(records_per_person: int) -> str:
    """Return the words for the unit "person" in a guarantee's composition."""
    return f"all records of one person, at most {records_per_person} at a site"


def combine(guarantees: Sequence[Guarantee]) -> Guarantee:
    """Add up guarantees about the same data: epsilons and deltas are summed (basic composition).

    Raises
    ------
    SettingsError
        If the list is empty or the guarantees differ in unit, adjacency, view, trust or n.
    """
    if not guarantees:
        raise SettingsError("guarantees: nothing to combine.")
    first = guarantees[0]
    for other in guarantees[1:]:
        for name in ("unit", "adjacency", "view", "trust", "n"):
            left, right = getattr(first, name), getattr(other, name)
            if left != right:
                raise SettingsError(
                    f"{name}: cannot add a guarantee for {left} to one for {right}; "
                    "state both, or convert one of them first."
                )
    if len(guarantees) == 1:
        return first
    return replace(
        first,
        mechanism=" and ".join(dict.fromkeys(g.mechanism for g in guarantees)),
        epsilon=math.fsum(g.epsilon for g in guarantees),
        delta=min(1.0, math.fsum(g.delta for g in guarantees)),
        status=max((g.status for g in guarantees), key=STATUSES.index),
        accountant="sum of epsilons and deltas",
        composition=" and ".join(g.composition for g in guarantees),
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _factor(epsilon: float) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 700 else f"e^{epsilon:.4g}"
