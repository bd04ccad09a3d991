"""Settings of the private methods that share weights, and the noise that follows from them.

Papers: McMahan et al. 2018, "Learning differentially private recurrent language models", Algorithm 1; Abadi et al.
2016, "Deep learning with differential privacy", Algorithm 1, run by each client.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from fedballot.core.setting import again, setting, where
from fedballot.privacy.accounting import GaussianCost
from fedballot.privacy.guarantee import TRUSTED_AGGREGATOR, Adjacency
from fedballot.privacy.mechanism import Composition, Facts
from fedballot.privacy.mechanisms.parts import NoisySteps, ServerNoise
from fedballot.privacy.mechanisms.subsampled import SubsampledGaussian
from fedballot.settings.parts import (
    LocalTraining,
    PrivacyTarget,
)
from fedballot.settings.targets import solved
from fedballot.settings.weights import ClientOptimizer, DomainAdaptation, MomentumSettings, WeightsSettings


@dataclass(frozen=True)
class TargetOfRounds(PrivacyTarget):
    """Of methods that have a `noise_multiplier`, whose noise is solved for all rounds unless it is given."""

    epsilon: float = again(
        PrivacyTarget,
        "epsilon",
        4.3,
        help="privacy target of all rounds together",
        read_if=where("noise_multiplier", 0.0),
    )


@dataclass(frozen=True)
class DpFedavgSettings(TargetOfRounds, MomentumSettings, ClientOptimizer, DomainAdaptation):
    """Settings of DP-FedAvg."""

    momentum: float = again(MomentumSettings, "momentum", 0.0)
    delta: float = again(PrivacyTarget, "delta", 1e-3)
    clip: float = setting(
        0.3, "largest norm of a client's difference; longer ones are cut", above=0, site_limit=(1e-6, 1e6)
    )
    noise_multiplier: float = setting(
        0.0,
        "standard deviation of the noise on a round's sum, over clip; 0: solve it for epsilon",
        low=0,
        site_limit=(0.0, 1e6),
    )
    sampling: Literal["poisson", "fixed"] = setting(
        "poisson",
        "how participation draws a cohort: each client by itself, or exactly so many",
        site_limit=("poisson", "fixed"),
    )
    noise_seed: int | None = again(
        PrivacyTarget, "noise_seed", None, help="seed noise and cohorts, for tests; the guarantee is then: not private"
    )

    @property
    def rate(self) -> float | int:
        """Probability of taking part in a round, or the exact number that does."""
        return float(self.participation) if self.sampling == "poisson" else self.cohort_size

    @property
    def divisor(self) -> float:
        """Public number that a round's sum is divided by: the expected size of its cohort."""
        return self.clients * self.participation if self.sampling == "poisson" else float(self.cohort_size)

    @property
    def adjacency(self) -> Adjacency:
        """The two worlds: a client blanked out (Poisson), or replaced (a cohort of fixed size has no empty seats)."""
        return "zero-out" if self.sampling == "poisson" else "replace-one"

    def composition(self, facts: Facts) -> Composition:
        noisy = client_mechanism(self, facts.weights)
        whole = self.sampling == "poisson" and self.participation == 1
        who = "all clients" if whole else f"a secret {self.sampling} cohort of {self.divisor:g} clients"
        charged = Composition(
            {"difference": ServerNoise(noisy)},
            f"Gaussian noise of {noisy.multiplier:.4g} clips, by the server, on the sum of {who}",
            "client",
            self.adjacency,
            self.delta,
            releases=self.rounds,
            view="output only",
            trust=TRUSTED_AGGREGATOR,
            seeded=self.noise_seed is not None,
            amplified=True,
            n=self.clients,
            counted=f"{self.rounds} rounds, the model after each of them",
        )
        return stated_by(noisy, charged)


@dataclass(frozen=True)
class DpFedsgdSettings(TargetOfRounds, WeightsSettings):
    """Settings of DP-FedSGD; a client takes epochs / rate noisy steps in each round."""

    batch_size: int = again(
        LocalTraining,
        "batch_size",
        64,
        help="public number that a batch's sum is divided by; batches hold rate * records",
    )
    clip: float = setting(
        1.0, "largest norm of a record's gradient; longer ones are cut", above=0, site_limit=(1e-6, 1e6)
    )
    noise_multiplier: float = setting(
        0.0,
        "standard deviation of the noise on a batch's sum, over clip; 0: solve it for epsilon",
        low=0,
        site_limit=(0.0, 1e6),
    )
    rate: float = setting(
        0.1, "probability with which each record is in a batch", above=0, high=1, site_limit=(1e-3, 1.0)
    )
    lr: float = again(LocalTraining, "lr", 0.5, help="learning rate of the noisy steps (plain gradient descent)")
    noise_seed: int | None = again(
        PrivacyTarget, "noise_seed", None, help="seed noise and batches, for tests; the guarantee is then: not private"
    )

    @property
    def steps(self) -> int:
        """Noisy steps of a round."""
        return max(1, round(self.epochs / self.rate))

    def composition(self, facts: Facts) -> Composition:
        noisy = record_mechanism(self, facts.weights)
        part = NoisySteps(round_mechanism(self, facts.weights))
        charged = Composition(
            {"difference": part},
            f"Gaussian noise of {noisy.multiplier:.4g} clips on the gradients of each Poisson batch",
            "record",
            "add-remove",
            self.delta,
            releases=self.rounds,
            accountant="exact" if isinstance(part.cost(), GaussianCost) else "rdp",  # the one that knows sampling
            seeded=self.noise_seed is not None,
            n=facts.largest_client,
            counted=f"{self.rounds} rounds of {self.steps} noisy steps each",
        )
        return stated_by(noisy, charged)


def stated_by(noisy: SubsampledGaussian, composition: Composition) -> Composition:
    """The composition, whose guarantee counts all steps at once, sampling included, by the tightest accountant."""
    (guarantee,) = composition.guarantees()
    whole = replace(guarantee, epsilon=noisy.epsilon(composition.delta), accountant=noisy.accountant)
    return replace(composition, stated=lambda: [whole])


@lru_cache(maxsize=8)
def client_mechanism(settings: DpFedavgSettings, size: int) -> SubsampledGaussian:
    """The noisy sums of DP-FedAvg: one step per round, for weights (d,) of that size."""
    return _mechanism(settings, size, population=settings.clients, rate=settings.rate, steps=settings.rounds)


@lru_cache(maxsize=8)
def record_mechanism(settings: DpFedsgdSettings, size: int) -> SubsampledGaussian:
    """The noisy sums of DP-FedSGD over all rounds; what they cost does not depend on how many records there are."""
    steps = settings.rounds * settings.steps
    return _mechanism(settings, size, population=1, rate=float(settings.rate), steps=steps)


def round_mechanism(settings: DpFedsgdSettings, size: int) -> SubsampledGaussian:
    """The same in one round."""
    return replace(record_mechanism(settings, size), steps=settings.steps)


def _mechanism(
    settings: DpFedavgSettings | DpFedsgdSettings, size: int, *, population: int, rate: float | int, steps: int
) -> SubsampledGaussian:
    given: dict[str, Any] = {"population": population, "rate": rate, "clip": settings.clip, "steps": steps}

    def of_noise(multiplier: float) -> SubsampledGaussian:
        return SubsampledGaussian(**given, multiplier=multiplier, coordinates=size)

    def of_target(epsilon: float) -> SubsampledGaussian:
        return SubsampledGaussian.solve(epsilon, settings.delta, **given, coordinates=size)

    if settings.noise_multiplier:
        return solved("noise_multiplier", settings.noise_multiplier, of_noise)
    return solved("epsilon", settings.epsilon, of_target)
