"""A method of somebody else's: PATE-FL's settings, and a mechanism that fedballot has never heard of."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from fedballot.clients.fedkd import FedkdDpClient
from fedballot.methods.registry import get_method
from fedballot.privacy.accounting import PureCost
from fedballot.privacy.guarantee import Unit
from fedballot.privacy.mechanism import Composition, Facts, Mechanism, WorstCase
from fedballot.privacy.noise.randomness import NoiseSource
from fedballot.privacy.noise.samplers import discrete_laplace
from fedballot.settings.fedkd import FedkdDpSettings
from fedballot.settings.voting import PateSettings

STEPS = 100  # grid steps in a vote


@dataclass(frozen=True)
class NoisyMax(Mechanism):
    """The largest of a client's vote counts (Q, C) after Laplace noise, query by query.

    Source: Dwork and Roth 2014, "The algorithmic foundations of differential privacy", Claim 3.9. A record moves one
    vote from one class to another.
    """

    queries: int
    epsilon: float

    def cost(self, unit: Unit = "record", records_per_person: int = 1) -> PureCost:
        return PureCost(2 * records_per_person * STEPS / self.scale, self.queries)

    @property
    def scale(self) -> int:
        """Of the noise, in grid steps."""
        return math.ceil(2 * STEPS / self.epsilon)

    def release(self, exact: npt.NDArray[np.integer], noise: NoiseSource) -> npt.NDArray[np.int64]:
        """Winners (Q,)."""
        drawn = discrete_laplace(self.scale, exact.size, noise).reshape(exact.shape)
        return np.asarray((STEPS * exact + drawn).argmax(axis=1), dtype=np.int64)

    def worst_case(self) -> WorstCase:
        """A record that turns a vote of 1 : 0 into 0 : 1, on every query."""
        one, other = np.tile([1, 0], (self.queries, 1)), np.tile([0, 1], (self.queries, 1))
        return WorstCase(one, other, lambda winners: float(np.sum(winners == 0)), self.cost().epsilon, 0.0)


@dataclass(frozen=True)
class UnknownMechanism(Mechanism):
    """The same, of which nobody says what its worst case is."""

    noisy: NoisyMax

    def cost(self, unit: Unit = "record", records_per_person: int = 1) -> PureCost:
        return self.noisy.cost(unit, records_per_person)

    def release(self, exact: npt.NDArray[np.integer], noise: NoiseSource) -> npt.NDArray[np.int64]:
        return self.noisy.release(exact, noise)


@dataclass(frozen=True)
class NoisyMaxSettings(PateSettings):
    def composition(self, facts: Facts) -> Composition:
        winners = NoisyMax(self.query_count, self.epsilon / self.query_count)
        return Composition({"winners": winners}, "noisy winners", "record", "replace-one", self.delta)


@dataclass(frozen=True)
class UnknownSettings(NoisyMaxSettings):
    def composition(self, facts: Facts) -> Composition:
        composition = super().composition(facts)
        (noisy,) = composition.parts.values()
        assert isinstance(noisy, NoisyMax)
        return replace(composition, parts={"winners": UnknownMechanism(noisy)})


@dataclass(frozen=True)
class VariantSettings(PateSettings):
    """Of a variant that keeps our noisy votes."""


@dataclass(frozen=True)
class SoftSettings(FedkdDpSettings):
    """Of a variant whose clients send what the bound need not cut."""


class SoftClient(FedkdDpClient):
    """Sends probabilities, whose norm is 1 at most and whose sum is not 0."""

    def exact(self, question: npt.NDArray[np.integer]) -> dict[str, npt.NDArray[np.floating]]:
        return {"logits": softmax(self.logits(question), axis=1)}


METHOD = replace(get_method("pate-fl"), name="noisy-max", settings=NoisyMaxSettings)
UNKNOWN = replace(METHOD, name="noisy-max-unknown", settings=UnknownSettings)
VARIANT = replace(METHOD, name="pate-variant", settings=VariantSettings)
SOFT = replace(get_method("fedkd-dp"), name="soft-votes", settings=SoftSettings, client=SoftClient)
