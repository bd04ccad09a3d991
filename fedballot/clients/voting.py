"""The client's side of both voting methods: votes on public queries, a noise share, one release from the ledger.

Paper: "Voting-based approaches for differentially private federated learning", Algorithms 1 and 2, which differ only in
how a client comes by its votes.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from flwr.common import Scalar

from fedballot.clients.base import Arrays, Part, Release, Terms, query_rows
from fedballot.clients.summed import SummedClient, SummedSettings
from fedballot.core.errors import SettingsError
from fedballot.learners.extractors import split_steps
from fedballot.privacy.guarantee import ADJACENCY, Unit
from fedballot.privacy.mechanisms.votes import NoisyVotes
from fedballot.settings.parts import setting
from fedballot.wire.packing import pack_integers, pack_labels
from fedballot.wire.secagg import Form


@dataclass(frozen=True)
class VotingSettings(SummedSettings):
    """Settings of every method whose clients vote; each piece of the server's recipe can be switched off on its own."""

    queries: int = setting(
        0, "public records that clients vote on; 0: the whole pool", low=0, site_limit=(0, 1_000_000)
    )
    epsilon: float = setting(
        4.3,
        "privacy target; `inf`: votes without noise, no guarantee",
        above=0,
        infinite=True,
        site_limit=(1e-3, 1000.0),
    )
    delta: float = setting(
        1e-3, "added to e^epsilon times any probability; below 1/n", above=0, below=1, site_limit=(1e-15, 0.1)
    )
    unit: Literal["client", "record"] = setting("client", "whom the target protects", site_limit=("client", "record"))
    sigma: float = setting(
        0.0,
        "standard deviation of the noise on each sum, in full votes of a client; 0: solve it",
        low=0,
        site_limit=(0.0, 1e6),
    )
    noise_seed: int | None = setting(
        None, "seed the noise, for tests; the guarantee is then stamped: not private", site_limit=()
    )
    student: Literal["argmax", "propagated", "self-train"] = setting(
        "self-train",
        "how the server learns: the paper's argmax labels, propagated labels, or those and self-training",
        reads="server",
    )
    passes: int = setting(
        1, "2: propagate once more on the student's features, retrain, average both", low=1, high=2, reads="server"
    )
    neighbours: int = setting(5, "neighbours of a record in the propagation graph", low=1, reads="server")
    spread: float = setting(
        0.99, "share of a record's label that comes from its neighbours", low=0, below=1, reads="server"
    )
    graph_features: str = setting(
        "auto", "what the graph compares: an extractor such as deskew (upright digits)", reads="server"
    )
    components: int = setting(64, "principal components of the step pca of any extractor", low=1, site_limit=(1, 4096))
    server_features: str = setting(
        "", "extractor whose features the server's model learns from; empty: the records", reads="server"
    )

    def check(self) -> None:
        super().check()
        if self.queries > self.public_size:
            raise SettingsError(
                f"queries={self.queries} is more than public_size={self.public_size}: ask for at most the whole pool"
            )
        if self.sigma and math.isinf(self.epsilon):
            raise SettingsError(f"sigma={self.sigma:g} and epsilon=inf contradict each other: set one of them")
        for extractor in filter(None, (self.graph_features, self.server_features)):
            split_steps(extractor)
        if self.passes == 2 and self.student == "argmax":
            raise SettingsError("passes=2 propagates labels, which student=argmax does not: choose another student")

    @property
    def query_count(self) -> int:
        """Number of queries Q."""
        return self.queries or self.public_size

    @property
    def max_votes(self) -> int:
        """Most queries M that one client votes on."""
        return self.query_count

    @property
    def votes_per_query(self) -> int | None:
        """Neighbours k whose classes a client counts for a query; None: it casts one vote or none."""
        return None

    def turnout_warning(self, cast: float, off: float) -> str | None:
        """What to tell the user when clients cast this share of the votes that they could, if anything.

        ``off``: by how much the noise may have moved the share.
        """
        return None


@lru_cache(maxsize=4)
def mechanism(settings: VotingSettings) -> NoisyVotes | None:
    """The noisy-votes mechanism that the settings describe, or None for votes without noise."""
    if math.isinf(settings.epsilon):
        return None
    given = partial(
        NoisyVotes if settings.sigma else NoisyVotes.solve,
        queries=settings.query_count,
        max_votes=settings.max_votes,
        contributors=settings.required_clients,
        colluders=settings.colluders,
        k=settings.votes_per_query,
    )
    if settings.sigma:
        return given(sigma=settings.sigma)
    return given(epsilon=settings.epsilon, delta=settings.delta, unit=settings.unit)


def pack_ballots(votes: npt.NDArray[np.integer]) -> npt.NDArray[np.uint8]:
    """Labels of one-hot rows (Q, C); a blank row is a label of its own, C."""
    n_classes = votes.shape[1]
    return pack_labels(np.where(votes.any(axis=1), votes.argmax(axis=1), n_classes), n_classes + 1)


def ballot_form(settings: VotingSettings, n_classes: int) -> Form:
    """Shape (Q, C) of a ballot and the largest magnitude in it."""
    noisy = mechanism(settings)
    return Form((settings.query_count, n_classes), noisy.largest if noisy else settings.votes_per_query or 1)


V = TypeVar("V", bound=VotingSettings)


class VotingClient(SummedClient[V], Generic[V]):
    """One client of Algorithms 1 and 2; a method says how it comes by its votes."""

    @abstractmethod
    def votes(self, queries: npt.NDArray[np.int64]) -> npt.NDArray[np.integer]:
        """The client's votes (Q, C) before noise (line 5's first term)."""

    def form(self) -> Form:
        return ballot_form(self.workspace.settings, len(self.workspace.data.classes))

    def question(self, arrays: Arrays, config: dict[str, Scalar]) -> npt.NDArray[np.int64]:
        """The public rows that are voted on."""
        return query_rows(arrays, self.workspace.settings.query_count, self.workspace.settings.public_size)

    def terms(self, question: Any) -> Terms:
        settings, noisy = self.workspace.settings, mechanism(self.workspace.settings)
        return Terms(
            settings.unit,
            ADJACENCY[settings.unit],
            noisy.epsilon(settings.delta, settings.unit) if noisy else 0.0,  # what this run costs, and not a second one
            settings.delta,
            also=tuple(ADJACENCY.items()),
        )

    def parts(self, question: Any, unit: Unit) -> dict[str, Part]:
        noisy = mechanism(self.workspace.settings)
        if noisy is None:
            return {"votes": Part(None, lambda votes, _: votes)}
        return {"votes": Part(noisy.cost(unit, self.workspace.counted(unit)), noisy.release)}

    def exact(self, question: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.integer]]:
        return {"votes": self.votes(question)}

    def blank(self, question: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.integer]]:
        return {"votes": np.zeros((len(question), len(self.workspace.data.classes)), dtype=np.int8)}

    def pack(self, question: npt.NDArray[np.int64], release: Release) -> Arrays:
        """Single votes without noise as labels, all else as integers."""
        settings, votes = self.workspace.settings, self.ballot(release)
        labels = mechanism(settings) is None and not settings.votes_per_query
        return [pack_ballots(votes) if labels else pack_integers(votes)]
