"""What a method releases of a client, as all see it who ask about privacy.

A method makes one :class:`Composition` from its settings and public facts. Client, ledger, site rules, budget, audit,
recorder and report ask that object and nothing else: what is stated, charged and drawn cannot differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedballot.privacy import accounting
from fedballot.privacy.accounting import Accountant, Cost
from fedballot.privacy.guarantee import SELF, Adjacency, Guarantee, Status, Trust, Unit, View
from fedballot.privacy.noise.randomness import NoiseSource


@runtime_checkable
class Mechanism(Protocol):
    """One release: an exact value becomes what leaves a client, at a cost. A frozen dataclass of public numbers.

    Attributes
    ----------
    central : bool
        Whether clients send the exact value and the server, which they trust, adds the noise to their sum.
    """

    central: ClassVar[bool] = False

    def cost(self, unit: Unit, records_per_person: int = 1) -> Cost | None:
        """What the release costs one unit; None: it leaves without a guarantee.

        Parameters
        ----------
        unit : {"client", "record", "person"}
        records_per_person : int
            Of the unit "person": a public bound on the records of one person at a site.
        """
        ...

    def release(self, exact: Any, noise: NoiseSource) -> NDArray[Any]:
        """What leaves of an exact value.

        Raises
        ------
        DataError
            If the value does not fit the cost.
        """
        ...


@dataclass(frozen=True)
class WorstCase:
    """Two neighbouring exact values that a mechanism tells apart best, for audits.

    Parameters
    ----------
    inside, outside
        What :meth:`Mechanism.release` takes, with the unit and without it.
    score
        A number of a release that leans to ``inside`` where it is large.
    epsilon
        That the mechanism claims for this pair, at ``delta``.
    shares
        Releases that are added up before anybody sees them; all but the first are of ``outside``.
    """

    inside: Any
    outside: Any
    score: Callable[[NDArray[Any]], float]
    epsilon: float
    delta: float
    shares: int = 1


@runtime_checkable
class Auditable(Mechanism, Protocol):
    """A mechanism that knows the worst that can happen to it, which ``fedballot audit`` then puts to the test."""

    def worst_case(self) -> WorstCase:
        """Two values that it tells apart best."""
        ...


@dataclass(frozen=True)
class Exact(Mechanism):
    """No mechanism: the value leaves as it is, without a guarantee, which no site allows."""

    def cost(self, unit: Unit, records_per_person: int = 1) -> None:
        """Nothing can be charged."""
        return None

    def release(self, exact: Any, noise: NoiseSource) -> NDArray[Any]:
        """The value itself."""
        return np.asarray(exact)


@dataclass(frozen=True)
class Facts:
    """Public numbers that a mechanism may depend on, beside the settings.

    Parameters
    ----------
    classes
        Size of the global label set, C.
    records
        Of the client; public where records are what is protected (replace-one).
    features
        Width of frozen features, or dimension of an embedding of them; the constant is not counted.
    negatives
        Public records that score heads are trained against.
    weights
        Numbers in the model that is shared.
    arrived
        Ballots that are in the sum; None: before anything has come.
    all_records, largest_client
        How many records all clients hold, and the largest of them; None: nobody knows.
    client
        Number of the client; None: what is stated of all.
    """

    classes: int
    records: int = 1
    features: int = 0
    negatives: int = 0
    weights: int = 0
    arrived: int | None = None
    all_records: int | None = None
    largest_client: int | None = None
    client: int | None = None


@dataclass(frozen=True)
class Composition:
    """All that one run of a method releases of a client.

    Parameters
    ----------
    parts
        The mechanism of each part of an answer, by name.
    words
        What is released and how, in a few words.
    unit, adjacency
        Whom the target protects, and which two worlds cannot be told apart.
    delta
        At which epsilon is stated, of all releases together.
    releases
        Answers of one client in a whole run.
    accountant
        That adds them up.
    also
        Other units and adjacencies that the mechanisms know a cost for.
    view, trust
        What the adversary sees, and whom a client has to trust. No view: the output only where the server is trusted,
        since it sees each answer, else all that the server sees.
    seeded
        Whether noise comes from a known seed, and so protects nobody.
    amplified
        Whether the guarantees may rightly state a smaller epsilon than clients are charged: more shares of noise came
        than were agreed on, or who was drawn is a secret of the server's.
    n
        Units among which one is protected, if known.
    counted
        How many releases are counted, in words.
    recorded
        Whether answers go through the client's ledger; not those of a method that never promises anything.
    stated
        Makes the guarantees, the target's first; None: one, of all that stands here.

    Raises
    ------
    ValueError
        If clients send an exact value, a mechanism being central, and do not trust the server.
    TypeError
        If a part is no mechanism.
    """

    parts: Mapping[str, Mechanism]
    words: str
    unit: Unit
    adjacency: Adjacency
    delta: float
    releases: int = 1
    accountant: Accountant = "exact"
    also: Collection[tuple[Unit, Adjacency]] = ()
    view: View | None = None
    trust: Trust = SELF
    seeded: bool = False
    amplified: bool = False
    n: int | None = None
    counted: str = "one release"
    recorded: bool = True
    stated: Callable[[], Sequence[Guarantee]] | None = None

    def __post_init__(self) -> None:
        for name, part in self.parts.items():
            if not hasattr(part, "central"):
                raise TypeError(f"part {name!r}: {type(part).__name__} is no mechanism: extend fedballot.Mechanism")
            if part.central and self.trust.kind != "trusted aggregator":
                raise ValueError(
                    f"part {name!r} leaves clients without noise, which the server adds: state trust=TRUSTED_AGGREGATOR"
                )

    def costs(self, unit: Unit | None = None, records_per_person: int = 1) -> dict[str, Cost]:
        """What one answer costs, by part, as far as it can be charged; of the target's unit where none is given."""
        known = {name: part.cost(unit or self.unit, records_per_person) for name, part in self.parts.items()}
        return {name: cost for name, cost in known.items() if cost is not None}

    @property
    def uncharged(self) -> list[str]:
        """Parts that leave without a guarantee."""
        charged = self.costs()
        return [name for name in self.parts if name not in charged]

    @property
    def private(self) -> bool:
        """Whether every part has a cost."""
        return not self.uncharged

    def protects(self, unit: Unit, adjacency: Adjacency) -> bool:
        """Whether the mechanisms know the cost of these worlds, so that a ledger of them can be charged."""
        return (unit, adjacency) in ((self.unit, self.adjacency), *self.also)

    @property
    def budget(self) -> float:
        """Epsilon of a ledger that is opened for one run alone: just enough for it."""
        costs = self._all_costs()
        return accounting.least_budget(costs, self.delta, self.accountant) if costs else 0.0

    @property
    def epsilon(self) -> float:
        """Epsilon of a whole run, by its accountant; infinite where a part leaves without a guarantee."""
        return accounting.epsilon(self._all_costs(), self.delta, self.accountant) if self.private else math.inf

    def guarantees(self) -> list[Guarantee]:
        """What the run promises; the target's comes first."""
        if self.stated is not None:
            return list(self.stated())
        status: Status = "none" if not self.private else "seeded" if self.seeded else "proved"
        return [
            Guarantee(
                mechanism=self.words,
                unit=self.unit,
                adjacency=self.adjacency,
                epsilon=self.epsilon,
                delta=self.delta,
                view=self.view or ("output only" if self.trust.kind == "trusted aggregator" else "server's view"),
                trust=self.trust,
                status=status,
                accountant=self.accountant if self.private else "none",
                n=self.n,
                composition=self.counted,
            )
        ]

    def _all_costs(self) -> list[Cost]:
        return [*self.costs().values()] * self.releases


def unprotected(
    words: str,
    part: str = "answer",
    unit: Unit = "record",
    adjacency: Adjacency = "replace-one",
    view: View = "server's view",
    trust: Trust = SELF,
    n: int | None = None,
) -> Composition:
    """The composition of a method that promises nothing."""
    parts = {part: Exact()}
    return Composition(parts, words, unit, adjacency, 0.0, view=view, trust=trust, n=n, recorded=False)
