"""What a run promises about privacy, as data: no bare epsilon anywhere."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_FLOOR
from typing import Any, Literal, get_args

from fedballot.core.errors import SettingsError
from fedballot.privacy.words import NOBODY, WEAK, capital, factor, rounded, up

Unit = Literal["record", "person", "client"]
Adjacency = Literal["add-remove", "replace-one", "zero-out"]
View = Literal["output only", "server's view", "network"]
Status = Literal["proved", "paper's claim", "seeded", "none"]
TrustKind = Literal["self", "trusted aggregator", "secure aggregation"]

# which worlds the costs of votes, and a site's ledger, compare for each unit
ADJACENCY: dict[Unit, Adjacency] = {"client": "zero-out", "record": "replace-one", "person": "replace-one"}
STATUSES: tuple[Status, ...] = ("proved", "paper's claim", "seeded", "none")  # strongest first

_WHO: dict[Unit, str] = {
    "record": "one record",
    "person": "all records of one person",
    "client": "one whole client (all of its data)",
}
_WORLDS: dict[Adjacency, str] = {
    "add-remove": "whether {who} {is_or_are} in the data or not",
    "replace-one": "whether {who} {is_or_are} the true {one} or any {other}",
    "zero-out": "whether the answers of {who} were counted or left blank",
}
_ADVERSARIES: dict[View, str] = {
    "output only": "somebody who sees what the aggregator publishes",
    "server's view": "the server, and anybody who sees what it receives",
    "network": "anybody who records all the traffic",
}


@dataclass(frozen=True)
class Trust:
    """Whom a client has to trust for the guarantee to hold.

    Parameters
    ----------
    kind : {"self", "trusted aggregator", "secure aggregation"}
    min_clients : int, optional
        Secure aggregation only: contributions below which the sum is not opened.
    colluders : int
        Secure aggregation only: clients that may collude with the server.
    """

    kind: TrustKind
    min_clients: int | None = None
    colluders: int = 0

    def __post_init__(self) -> None:
        if self.kind not in get_args(TrustKind):
            raise SettingsError(f"trust = {self.kind!r}: allowed are {', '.join(get_args(TrustKind))}.")
        if self.kind == "secure aggregation":
            if self.min_clients is None or not 0 <= self.colluders < self.min_clients:
                raise SettingsError(
                    f"trust: secure aggregation needs 0 <= colluders < min_clients, got colluders = {self.colluders}, "
                    f"min_clients = {self.min_clients}."
                )
        elif self.min_clients is not None or self.colluders:
            raise SettingsError(f"trust = {self.kind!r} takes no min_clients and no colluders; leave them out.")

    def __str__(self) -> str:
        if self.kind == "secure aggregation":
            return f"secure aggregation (min_clients={self.min_clients}, colluders={self.colluders})"
        return self.kind


SELF = Trust("self")
TRUSTED_AGGREGATOR = Trust("trusted aggregator")


def secure_aggregation(min_clients: int, colluders: int = 0) -> Trust:
    """Trust in secure aggregation in which at least `min_clients` answer, at most `colluders` of them colluding."""
    return Trust("secure aggregation", min_clients, colluders)


@dataclass(frozen=True)
class Guarantee:
    """A differential privacy statement with everything that it depends on.

    Parameters
    ----------
    mechanism : str
        What was released and how, in a few words.
    unit : {"record", "person", "client"}
        Whose presence is hidden: one record, all records of one person at a site (at most a public number of them, see
        `all_records`), or everything that one client holds.
    adjacency : {"add-remove", "replace-one", "zero-out"}
        Which two worlds cannot be told apart. Zero-out: the client takes part, with its noise, but answers nothing.
    epsilon, delta : float
        epsilon >= 0, may be infinite (no protection); 0 <= delta <= 1.
    view : {"output only", "server's view", "network"}
        What the adversary sees.
    trust : Trust
    status : {"proved", "paper's claim", "seeded", "none"}
    accountant : str
        How epsilon was computed.
    n : int, optional
        Number of units among which one is protected, where that is known; needed to judge delta. Of clients that
        answer each for themselves, the largest: a delta that suits it suits them all. Where records are sampled,
        the smallest, whose delta is the largest.
    composition : str
        How many releases are counted, in words.
    sampled : bool
        Whether delta is nothing but the probability that a record was drawn, and all else depends on those drawn
        (noise-free sampling): then the sentence says so, for a plain (0, delta) would say less.
    among : str
        The clients of which alone it speaks, in words; empty: of each.

    Raises
    ------
    SettingsError
        If a value is not among those allowed.

    Examples
    --------
    >>> noisy = Guarantee(
    ...     "noisy sum", "record", "replace-one", 1.0, 1e-6, "output only", TRUSTED_AGGREGATOR, "proved", "exact", 1000
    ... )
    >>> noisy.sentence()[:96]
    'For somebody who sees what the aggregator publishes, whether one record is the true one or any o'
    >>> noisy.warnings()
    ['Only single records are protected, not everything that a client or a person holds.']
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
    sampled: bool = False
    among: str = ""

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
            raise SettingsError(f"n = {self.n}: must be at least 1, or left out where it is not known.")
        if self.sampled and self.unit != "record":
            raise SettingsError(f"unit = {self.unit!r}: a sample is one of records.")

    def __add__(self, other: "Guarantee") -> "Guarantee":
        """Basic composition, see `combine`."""
        return combine([self, other])

    @property
    def claimed(self) -> bool:
        """Whether anything at all is promised, by us or by a paper, were its noise secret."""
        return self.status != "none" and not math.isinf(self.epsilon)

    def sentence(self) -> str:
        """Return the guarantee as prose that can be quoted to somebody who knows no differential privacy.

        It says what (epsilon, delta) means and no more: for every event E and both of the two worlds,
        P(E) <= exp(epsilon) P'(E) + delta. Figures are rounded up.
        """
        who = _WHO[self.unit] + (f" of {self.among}" if self.among else "")
        if not self.claimed:
            return f"{capital(self.mechanism)}: no privacy guarantee is claimed for {who}."
        trust = {
            "self": "nobody but the client itself has to be trusted",
            "trusted aggregator": "the aggregator must be trusted to add up the answers and show only the sum",
            "secure aggregation": "the answers are added under encryption, with at least "
            f"{self.trust.min_clients} arriving and at most {self.trust.colluders} of their senders colluding",
        }[self.trust.kind]
        many = self.unit == "person"
        worlds = _WORLDS[self.adjacency].format(
            who=who,
            is_or_are="are" if many else "is",
            one="ones" if many else "one",
            other="others" if many else "other",
        )
        noise = "the sample was drawn" if self.sampled else "the noise came"
        lead = {
            "proved": "",
            "paper's claim": "In the paper's own accounting, ",
            "seeded": f"NOT PRIVATE, {noise} from a known seed. With secret {'draws' if self.sampled else 'noise'} it "
            "would read: ",
        }[self.status]
        body = f"{self._promise(worlds)}; {trust}. Counted: {self.composition}."
        return lead + (body if lead else capital(body))

    def _promise(self, worlds: str) -> str:
        adversary = _ADVERSARIES[self.view]
        if self.sampled and self.epsilon == 0:
            return (
                f"with probability at least {rounded(1 - self.delta, 4, ROUND_FLOOR)} a given record was never used, "
                f"and with probability up to {up(self.delta)} (delta) it was drawn, and then nothing protects it: for "
                f"{adversary}, {worlds} changes the probability of any event by at most {up(self.delta)} (epsilon = 0)"
            )
        slack = f", plus {up(self.delta)} (delta)" if self.delta else ""
        return (
            f"for {adversary}, {worlds} changes the probability of any event (whatever may be seen, concluded or done) "
            f"by at most a factor of {factor(self.epsilon)} (epsilon = {up(self.epsilon, 4)}){slack}"
        )

    def warnings(self) -> list[str]:
        """Return what a privacy officer should know before accepting this guarantee, one sentence each."""
        if not self.claimed:
            return ["There is no privacy guarantee."]
        lines = []
        if self.epsilon > WEAK:
            lines.append(f"epsilon = {up(self.epsilon, 4)} is above {WEAK:g}: the bound excludes next to nothing.")
        if self.status == "seeded" and self.sampled:
            lines.append("The sample came from a seed: whoever knows it knows which records were drawn.")
        elif self.status == "seeded":
            lines.append("The noise came from a seed: whoever knows it can take the noise off again.")
        if self.status == "paper's claim":
            lines.append("This figure is the paper's own, given for comparison.")
        if self.n is None and self.delta > NOBODY:
            lines.append(
                f"How many {self.unit}s there are is not known here, and delta must lie below 1 over their number: "
                f"{up(self.delta)} says little about {math.ceil(1 / self.delta - 1e-6):,} {self.unit}s or more."
            )
        if self.n is not None and self.delta >= 1 / self.n:
            lines.append(
                f"delta = {up(self.delta)} is at least 1/n = {1 / self.n:.3g}: publishing one {self.unit} in full, "
                "chosen at random, would satisfy it."
            )
        if self.unit == "record":
            lines.append("Only single records are protected, not everything that a client or a person holds.")
        return lines

    def worded(self) -> dict[str, Any]:
        """Return `to_dict` with the sentence and the warnings, as results hold it."""
        return {**self.to_dict(), "sentence": self.sentence(), "warnings": self.warnings()}

    def to_dict(self) -> dict[str, str | float | int | None]:
        """Return plain JSON values; an infinite epsilon becomes None."""
        plain = asdict(self)
        plain["trust"] = str(self.trust)
        plain["epsilon"] = None if math.isinf(self.epsilon) else self.epsilon
        if not self.among:
            del plain["among"]
        return plain


def all_records(records_per_person: int) -> str:
    """Return the words for the unit "person" in a guarantee's composition."""
    return f"all records of one person, at most {records_per_person} at a site"


def for_some(guarantees: Sequence[Guarantee], own: Guarantee) -> list[Guarantee]:
    """What some clients are promised beyond what all are, of the same unit and view."""
    return [one for one in guarantees if one.among and (one.unit, one.view) == (own.unit, own.view)]


def combine(guarantees: Sequence[Guarantee]) -> Guarantee:
    """Add up guarantees about the same data: epsilons and deltas are summed (basic composition).

    Raises
    ------
    SettingsError
        If the list is empty or the guarantees differ in unit, adjacency, view, trust, n or among.
    """
    if not guarantees:
        raise SettingsError("guarantees: nothing to combine.")
    first = guarantees[0]
    for other in guarantees[1:]:
        for name in ("unit", "adjacency", "view", "trust", "n", "among"):
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
        sampled=all(g.sampled for g in guarantees),
    )
