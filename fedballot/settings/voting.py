"""Settings of PATE-FL and Private-kNN-FL, and the noisy votes that follow from them.

Paper: "Voting-based approaches for differentially private federated learning", Algorithms 1 and 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal

from fedballot.core.errors import SettingsError
from fedballot.core.setting import Condition, again, setting, where
from fedballot.privacy.guarantee import ADJACENCY, Guarantee
from fedballot.privacy.mechanism import Composition, Exact, Facts
from fedballot.privacy.mechanisms.votes import NoisyVotes
from fedballot.privacy.mechanisms.weighted import WeightedVotes
from fedballot.settings.client_targets import ClientTargets, groups, of_client, weighted
from fedballot.settings.parts import (
    ClientEvaluation,
    ClientFeatures,
    LocalTraining,
    PrivacyTarget,
    Queries,
    ServerFeatures,
    ServerTraining,
)
from fedballot.settings.propagation import PROPAGATES, Propagation
from fedballot.settings.summed import SummedSettings
from fedballot.settings.targets import solved
from fedballot.wire.codec import Choices, Integers
from fedballot.wire.secagg import Form

NOISY = Condition("epsilon is finite", lambda settings: math.isfinite(settings.epsilon))


@dataclass(frozen=True)
class VotingSettings(
    Propagation, ServerFeatures, PrivacyTarget, Queries, ServerTraining, ClientEvaluation, SummedSettings
):
    """Settings of every method whose clients vote; each piece of the server's recipe can be switched off on its own."""

    queries: int = again(Queries, "queries", 0, help="public records that clients vote on; 0: the whole pool")
    epsilon: float = again(
        PrivacyTarget,
        "epsilon",
        4.3,
        help="privacy target; `inf`: votes without noise, no guarantee",
        infinite=True,
        read_if=where("sigma", 0.0),
    )
    delta: float = again(PrivacyTarget, "delta", 1e-3, read_if=NOISY)
    unit: Literal["client", "record"] = setting("client", "whom the target protects", site_limit=("client", "record"))
    sigma: float = setting(
        0.0,
        "standard deviation of the noise on each sum, in full votes of a client; 0: solve it",
        low=0,
        site_limit=(0.0, 1e6),
        headline=True,
    )
    student: Literal["argmax", "propagated", "self-train"] = setting(
        "self-train",
        "how the server learns: the paper's argmax labels, propagated labels, or those and self-training",
        reads="server",
        headline=True,
    )
    passes: int = setting(
        1,
        "2: propagate once more on the student's features, retrain, average both",
        low=1,
        high=2,
        reads="server",
        read_if=PROPAGATES,
    )

    def check(self) -> None:
        super().check()
        if self.sigma and math.isinf(self.epsilon):
            raise SettingsError(f"sigma={self.sigma:g} and epsilon=inf contradict each other: set one of them")
        if self.passes == 2 and self.student == "argmax":
            raise SettingsError("passes=2 propagates labels, which student=argmax does not: choose another student")

    @property
    def max_votes(self) -> int:
        """Most queries M that one client votes on."""
        return self.query_count

    def composition(self, facts: Facts) -> Composition:
        full = mechanism(self)
        shared: Any = {
            "unit": self.unit,
            "adjacency": ADJACENCY[self.unit],
            "delta": self.delta,
            "also": tuple(ADJACENCY.items()),
            "trust": self.trust,
            "seeded": self.noise_seed is not None,
        }
        if full is None:
            return Composition({"votes": Exact()}, "votes without noise", view="output only", n=self.clients, **shared)
        noisy = of_client(self, full, facts.client)
        return Composition(
            {"votes": noisy},
            "noisy vote counts",
            amplified=self.secure_aggregation,
            stated=lambda: self._guarantees(noisy, facts),
            **shared,
        )

    def _guarantees(self, noisy: NoisyVotes, facts: Facts) -> list[Guarantee]:
        """All that is to be said of the sum, the target's first: to all clients, then to those that allow less."""
        stated = self._of(noisy, facts, claimed=self.claimed)
        for who, one in groups(self, noisy) if facts.client is None else ():
            stated += [replace(guarantee, among=who) for guarantee in self._of(one, facts, claimed=False)]
        return stated

    def _of(self, noisy: NoisyVotes, facts: Facts, *, claimed: bool) -> list[Guarantee]:
        stated = noisy.guarantees(
            self.delta,
            **self.seen(facts),
            seeded=self.noise_seed is not None,
            clients=self.clients,
            records=facts.all_records,
            largest=facts.largest_client,
            claimed=claimed,
        )
        aimed = next(guarantee for guarantee in stated if guarantee.unit == self.unit)
        return [aimed, *(guarantee for guarantee in stated if guarantee is not aimed)]

    @property
    def claimed(self) -> bool:
        """Whether the accounting of the paper on top is the method's own."""
        return True

    @property
    def votes_per_query(self) -> int | None:
        """Neighbours k whose classes a client counts for a query; None: it casts one vote or none."""
        return None

    def turnout_warning(self, cast: float, off: float) -> str | None:
        """What to tell the user when clients cast this share of the votes that they could, if anything.

        ``off``: by how much the noise may have moved the share.
        """
        return None


FEW_VOTES = 0.1


@dataclass(frozen=True)
class PateSettings(LocalTraining, ClientTargets, VotingSettings):
    """Settings of PATE-FL."""

    batch_size: int = again(
        LocalTraining,
        "batch_size",
        64,
        help="largest batch of local training; with few records a ninth of them, but 10 at least",
    )
    abstain: bool = setting(
        True,
        "teachers also learn a class `unknown` from the public pool, and then do not vote",
        site_limit=(False, True),
    )
    domain_adaptation: float = setting(
        0.0,
        "strength of domain-adversarial training of teachers towards the public pool (`+DA`); needs abstain=false",
        low=0,
        site_limit=(0.0, 10.0),
    )
    vote_fraction: float = setting(
        0.55, "most queries a client may vote on, as a share; the surest ones", above=0, high=1, site_limit=(0.0, 1.0)
    )

    def check(self) -> None:
        super().check()
        if self.domain_adaptation and self.abstain:
            raise SettingsError(
                f"domain_adaptation={self.domain_adaptation:g} hides from teachers which records are public, and "
                "abstain=true has them learn just that: set abstain=false"
            )

    @property
    def max_votes(self) -> int:
        """Most votes of one client, M: its share of the queries, at least one."""
        return max(1, math.floor(self.vote_fraction * self.query_count + 1e-9))

    def turnout_warning(self, cast: float, off: float) -> str | None:
        """See :meth:`VotingSettings.turnout_warning`."""
        if cast + off > FEW_VOTES:
            return None
        return (
            f"clients voted on only about {100 * max(0.0, cast):.0f} % of the queries they were asked: their teachers "
            "are trained too little (raise `epochs` or lower `batch_size`), or set abstain=false"
        )


@dataclass(frozen=True)
class FedktSettings(ClientFeatures, LocalTraining, VotingSettings):
    """Settings of FedKT; s and t in the paper are `partitions` and `subsets`."""

    epsilon: float = again(
        VotingSettings, "epsilon", math.inf, help="privacy target; `inf`: votes without noise, no guarantee (FedKT-L0)"
    )
    student: Literal["argmax", "propagated", "self-train"] = again(VotingSettings, "student", "argmax")
    partitions: int = setting(
        2, "times that a client cuts its records up, each with a student of its own, s", low=1, site_limit=(1, 100)
    )
    subsets: int = setting(5, "teachers of each student, each on a part of the records, t", low=1, site_limit=(1, 1000))

    @property
    def claimed(self) -> bool:
        """FedKT's paper claims nothing of this noise."""
        return False


FULL_VOTES = 0.95


@dataclass(frozen=True)
class KnnSettings(VotingSettings):
    """Settings of Private-kNN-FL."""

    delta: float = again(VotingSettings, "delta", 1e-5)
    unit: Literal["client", "record"] = again(VotingSettings, "unit", "record")
    k: int = setting(
        10,
        "nearest private records of each client that vote on a query; public, the same for all",
        low=1,
        site_limit=(1, 10_000),
    )
    extractor: str = setting(
        "auto", "public features in which records are compared: steps such as hog+pca+l2", kind="extractor"
    )

    @property
    def votes_per_query(self) -> int:
        """Neighbours that vote on a query."""
        return self.k

    def turnout_warning(self, cast: float, off: float) -> str | None:
        """See :meth:`VotingSettings.turnout_warning`."""
        if cast + off > FULL_VOTES:
            return None
        return (
            f"clients had only about {100 * max(0.0, cast):.0f} % of k={self.k} neighbours each: some hold fewer "
            "records, and all of those vote on every query alike, which teaches the server nothing; lower k"
        )


@lru_cache(maxsize=4)
def mechanism(settings: VotingSettings) -> NoisyVotes | None:
    """The noisy-votes mechanism that the settings describe, or None for votes without noise."""
    if math.isinf(settings.epsilon):
        return None
    kind = WeightedVotes if weighted(settings) else NoisyVotes
    given = partial(
        kind if settings.sigma else kind.solve,
        queries=settings.query_count,
        max_votes=settings.max_votes,
        min_clients=settings.min_clients,
        colluders=settings.colluders,
        k=settings.votes_per_query,
    )
    if settings.sigma:
        return solved("sigma", settings.sigma, lambda sigma: given(sigma=sigma))
    aimed = partial(given, delta=settings.delta, unit=settings.unit)
    return solved("epsilon", settings.epsilon, lambda epsilon: aimed(epsilon=epsilon))


def ballot_form(settings: VotingSettings, n_classes: int) -> Form:
    """Shape (Q, C) of a ballot and the largest magnitude in it."""
    noisy = mechanism(settings)
    return Form((settings.query_count, n_classes), noisy.largest if noisy else settings.votes_per_query or 1)


def ballot_codec(settings: VotingSettings, n_classes: int) -> Choices | Integers:
    """How a ballot is sent in the clear: single votes without noise as labels, all else as integers."""
    form = ballot_form(settings, n_classes)
    shape, single = (settings.query_count, n_classes), mechanism(settings) is None and settings.votes_per_query is None
    return Choices(shape, blank=True) if single else Integers(shape, form.largest)
