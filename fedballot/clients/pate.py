"""The party's side of PATE-FL (Algorithm 1, lines 1-6): train, vote on the queries, add a noise share, release.

Paper: "Voting-based approaches for differentially private federated learning".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal

import numpy as np
import numpy.typing as npt
from flwr.common import Scalar

from fedballot.clients.base import EVALUATED, Arrays, PartyClient, Refusal
from fedballot.errors import SettingsError
from fedballot.learners.base import Learner
from fedballot.learners.extractors import split_steps
from fedballot.privacy.guarantee import Adjacency
from fedballot.privacy.ledger import Ledger
from fedballot.privacy.randomness import NoiseSource, os_noise, seeded_noise
from fedballot.privacy.votes import NoisyVotes, limit_votes
from fedballot.settings import CommonSettings, setting
from fedballot.wire import pack_integers, pack_labels


@dataclass(frozen=True)
class PateSettings(CommonSettings):
    """Settings of PATE-FL; each piece of the default recipe can be switched off on its own."""

    queries: int = setting(0, "public records that agents vote on; 0: the whole pool", low=0)
    epsilon: float = setting(4.3, "privacy target; `inf`: votes without noise, no guarantee", above=0, infinite=True)
    delta: float = setting(1e-3, "probability that the epsilon does not hold", above=0, below=1)
    unit: Literal["agent", "record"] = setting("agent", "whom the target protects")
    sigma: float = setting(0.0, "standard deviation of the noise on each sum; 0: solve it for epsilon", low=0)
    colluders: int = setting(0, "agents that may tell others their noise; the rest must add up to sigma", low=0)
    noise_seed: int | None = setting(None, "seed the noise, for tests; the guarantee is then stamped: not private")
    abstain: bool = setting(True, "teachers also learn a class `unknown` from the public pool, and then do not vote")
    vote_fraction: float = setting(
        0.55, "most queries an agent may vote on, as a share; the surest ones", above=0, high=1
    )
    student: Literal["argmax", "propagated", "self-train"] = setting(
        "self-train", "how the server learns: the paper's argmax labels, propagated labels, or those and self-training"
    )
    passes: int = setting(1, "2: propagate once more on the student's features, retrain, average both", low=1, high=2)
    neighbours: int = setting(5, "neighbours of a record in the propagation graph", low=1)
    spread: float = setting(0.99, "share of a record's label that comes from its neighbours", low=0, below=1)
    graph_features: str = setting("auto", "what the graph compares: an extractor such as deskew (upright digits)")

    def check(self) -> None:
        super().check()
        if self.queries > self.public_size:
            raise SettingsError(
                f"queries={self.queries} is more than public_size={self.public_size}: ask for at most the whole pool"
            )
        if self.colluders >= self.required_agents:
            raise SettingsError(
                f"colluders={self.colluders} leaves no honest agent among the {self.required_agents} that must answer"
            )
        if self.sigma and math.isinf(self.epsilon):
            raise SettingsError(f"sigma={self.sigma:g} and epsilon=inf contradict each other: set one of them")
        split_steps(self.graph_features)
        if self.passes == 2 and self.student == "argmax":
            raise SettingsError("passes=2 propagates labels, which student=argmax does not: choose another student")

    @property
    def query_count(self) -> int:
        """Number of queries Q."""
        return self.queries or self.public_size

    @property
    def max_votes(self) -> int:
        """Most votes of one agent, M: its share of the queries, at least one."""
        return max(1, math.floor(self.vote_fraction * self.query_count + 1e-9))


@lru_cache(maxsize=4)
def mechanism(settings: PateSettings) -> NoisyVotes | None:
    """The noisy-votes mechanism that the settings describe, or None for votes without noise."""
    if math.isinf(settings.epsilon):
        return None
    given = partial(
        NoisyVotes if settings.sigma else NoisyVotes.solve,
        queries=settings.query_count,
        max_votes=settings.max_votes,
        contributors=settings.required_agents,
        colluders=settings.colluders,
    )
    if settings.sigma:
        return given(sigma=settings.sigma)
    return given(epsilon=settings.epsilon, delta=settings.delta, unit=settings.unit)


def noise_source(settings: PateSettings, agent: int) -> NoiseSource:
    """Noise from the operating system, unless the settings seed it."""
    if settings.noise_seed is None:
        return os_noise()
    return seeded_noise(int(np.random.SeedSequence([settings.noise_seed, agent]).generate_state(1)[0]))


class PateClient(PartyClient[PateSettings]):
    """One agent of Algorithm 1."""

    _teacher: Learner | None = None

    def answer(self, arrays: Arrays, config: dict[str, Scalar]) -> Arrays:
        """This agent's votes plus its noise share, shape (Q, C); the same request always gets the same answer."""
        queries, settings = self._queries(arrays), self.party.settings
        noisy = mechanism(settings)
        if noisy is None:
            n_classes = len(self.party.data.classes)
            votes = self.votes(queries)
            return [pack_labels(np.where(votes.any(axis=1), votes.argmax(axis=1), n_classes), n_classes + 1)]
        request, ledger = str(config["request"]), self._ledger(noisy)
        if ledger.stored(request) is None:
            self.teacher()  # before the charge: a training that fails costs nothing
        noise = noise_source(settings, self.party.agent)
        cost = noisy.cost(ledger.account.unit)
        kept = ledger.release(request, cost, lambda: {"release": noisy.release(self.votes(queries), noise)})
        return [pack_integers(kept["release"])]

    def _ledger(self, noisy: NoisyVotes) -> Ledger:
        settings = self.party.settings
        budget = noisy.epsilon(settings.delta, settings.unit)  # what this run costs, and not a second one
        adjacency: Adjacency = "zero-out" if settings.unit == "agent" else "replace-one"
        return self.party.open_ledger(settings.unit, adjacency, budget, settings.delta)

    def _queries(self, arrays: Arrays) -> npt.NDArray[np.int64]:
        settings = self.party.settings
        if len(arrays) != 1 or arrays[0].ndim != 1 or not np.issubdtype(arrays[0].dtype, np.integer):
            raise Refusal("request", "a request must hold one vector of query indices")
        queries = arrays[0].astype(np.int64)
        if queries.size != settings.query_count:
            raise Refusal("request", f"{queries.size} queries asked, {settings.query_count} agreed")
        if np.unique(queries).size != queries.size or queries.min() < 0 or queries.max() >= settings.public_size:
            raise Refusal("request", "query indices must be different rows of the public pool")
        return queries

    def teacher(self) -> Learner:
        """The trained teacher (line 2), trained once and taken from the agent's folder after that."""
        party, settings = self.party, self.party.settings
        if self._teacher is not None:
            return self._teacher
        self._teacher = learner = party.own_learner()
        if party.folder.model.exists():
            return learner.load(party.folder.model)
        private = party.private()
        unknown = np.asarray(party.data.public_x) if settings.abstain else None
        learner.fit(private.x, private.y, unknown=unknown)
        learner.save(party.folder.model)
        if settings.evaluate_agents:
            party.folder.note({"confusion": party.confusion(learner, EVALUATED).tolist()})
        return learner

    def votes(self, queries: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
        """The teacher's votes (Q, C) within the cap, before noise (line 5's first term)."""
        logits = self.teacher().predict_logits(self.party.data.public_x[queries])
        return limit_votes(logits, self.party.settings.max_votes, n_classes=len(self.party.data.classes))
