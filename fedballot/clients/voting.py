"""The party's side of both voting methods: votes on public queries, a noise share, one release from the ledger.

Paper: "Voting-based approaches for differentially private federated learning", Algorithms 1 and 2, which differ only in
how an agent comes by its votes.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from flwr.common import Scalar

from fedballot.clients.base import Arrays, query_rows
from fedballot.clients.summed import SummedClient, SummedSettings
from fedballot.errors import SettingsError
from fedballot.learners.extractors import split_steps
from fedballot.privacy.guarantee import Adjacency
from fedballot.privacy.ledger import Ledger
from fedballot.privacy.randomness import secret_noise
from fedballot.privacy.votes import NoisyVotes
from fedballot.secagg import Form
from fedballot.settings import setting
from fedballot.wire import pack_integers, pack_labels


@dataclass(frozen=True)
class VotingSettings(SummedSettings):
    """Settings of every method whose agents vote; each piece of the server's recipe can be switched off on its own."""

    queries: int = setting(0, "public records that agents vote on; 0: the whole pool", low=0)
    epsilon: float = setting(4.3, "privacy target; `inf`: votes without noise, no guarantee", above=0, infinite=True)
    delta: float = setting(1e-3, "added to e^epsilon times any probability; below 1/n", above=0, below=1)
    unit: Literal["agent", "record"] = setting("agent", "whom the target protects")
    sigma: float = setting(
        0.0, "standard deviation of the noise on each sum, in full votes of an agent; 0: solve it", low=0
    )
    noise_seed: int | None = setting(None, "seed the noise, for tests; the guarantee is then stamped: not private")
    student: Literal["argmax", "propagated", "self-train"] = setting(
        "self-train", "how the server learns: the paper's argmax labels, propagated labels, or those and self-training"
    )
    passes: int = setting(1, "2: propagate once more on the student's features, retrain, average both", low=1, high=2)
    neighbours: int = setting(5, "neighbours of a record in the propagation graph", low=1)
    spread: float = setting(0.99, "share of a record's label that comes from its neighbours", low=0, below=1)
    graph_features: str = setting("auto", "what the graph compares: an extractor such as deskew (upright digits)")
    components: int = setting(64, "principal components of the step pca of any extractor", low=1)
    server_features: str = setting("", "extractor whose features the server's model learns from; empty: the records")

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
        """Most queries M that one agent votes on."""
        return self.query_count

    @property
    def votes_per_query(self) -> int | None:
        """Neighbours k whose classes an agent counts for a query; None: it casts one vote or none."""
        return None

    def turnout_warning(self, cast: float, off: float) -> str | None:
        """What to tell the user when agents cast this share of the votes that they could, if anything.

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
        contributors=settings.required_agents,
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
    """One agent of Algorithms 1 and 2; a method says how it comes by its votes."""

    @abstractmethod
    def get_ready(self) -> None:
        """Do the work that may fail, before the charge: a failure then costs nothing."""

    @abstractmethod
    def votes(self, queries: npt.NDArray[np.int64]) -> npt.NDArray[np.integer]:
        """The agent's votes (Q, C) before noise (line 5's first term)."""

    def form(self) -> Form:
        return ballot_form(self.party.settings, len(self.party.data.classes))

    def prepare(self, arrays: Arrays, config: dict[str, Scalar]) -> None:
        query_rows(arrays, self.party.settings.query_count, self.party.settings.public_size)
        self.get_ready()

    def plain(self, ballot: npt.NDArray[np.integer]) -> Arrays:
        """Single votes without noise as labels, all else as integers."""
        settings = self.party.settings
        labels = mechanism(settings) is None and not settings.votes_per_query
        return [pack_ballots(ballot) if labels else pack_integers(ballot)]

    def integers(self, arrays: Arrays, config: dict[str, Scalar]) -> npt.NDArray[np.integer]:
        """This agent's votes plus its noise share, shape (Q, C); the same request always gets the same answer."""
        settings = self.party.settings
        queries = query_rows(arrays, settings.query_count, settings.public_size)
        noisy = mechanism(settings)
        if noisy is None:
            return self.votes(queries)
        request, ledger = str(config["request"]), self._ledger(noisy)
        if ledger.stored(request) is None:
            self.get_ready()
        noise = secret_noise(settings.noise_seed, self.party.agent)
        cost = noisy.cost(ledger.account.unit)

        def draw() -> dict[str, npt.NDArray[np.int32]]:
            return {"release": noisy.release(self.votes(queries), noise)}

        return ledger.release(request, cost, draw, seeded=not noise.private)["release"]

    def _ledger(self, noisy: NoisyVotes) -> Ledger:
        settings = self.party.settings
        budget = noisy.epsilon(settings.delta, settings.unit)  # what this run costs, and not a second one
        adjacency: Adjacency = "zero-out" if settings.unit == "agent" else "replace-one"
        # the charge is made for the unit that the ledger is about
        return self.party.open_ledger(
            settings.unit,
            adjacency,
            budget,
            settings.delta,
            also=[("agent", "zero-out"), ("record", "replace-one")],
        )
