"""The private methods that share weights: noise on the cohort's sum (DP-FedAvg), or in every local step (DP-FedSGD).

Papers: McMahan et al. 2018, "Learning differentially private recurrent language models", Algorithm 1; Abadi et al.
2016, "Deep learning with differential privacy", Algorithm 1, run by each client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedballot.clients.base import Arrays, Part, Release, Terms
from fedballot.clients.weights import MomentumSettings, Start, WeightsClient, WeightsSettings, pack_difference
from fedballot.core.errors import DataError, SettingsError
from fedballot.learners.base import Learner
from fedballot.privacy.accounting import accountants as accounting
from fedballot.privacy.accounting.accountants import Accountant
from fedballot.privacy.accounting.costs import GaussianCost
from fedballot.privacy.guarantee import Adjacency, Unit
from fedballot.privacy.mechanisms.subsampled import SubsampledGaussian
from fedballot.privacy.noise.randomness import NoiseSource, secret_noise
from fedballot.settings.parts import setting


@dataclass(frozen=True)
class DpFedavgSettings(MomentumSettings):
    """Settings of DP-FedAvg."""

    momentum: float = setting(0.0, "share of the last step that the server keeps", low=0, below=1, reads="server")
    epsilon: float = setting(4.3, "privacy target of all rounds together", above=0, site_limit=(1e-3, 1000.0))
    delta: float = setting(
        1e-3, "added to e^epsilon times any probability; below 1/n", above=0, below=1, site_limit=(1e-15, 0.1)
    )
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
    noise_seed: int | None = setting(
        None, "seed noise and cohorts, for tests; the guarantee is then: not private", site_limit=()
    )

    def check(self) -> None:
        super().check()
        if self.weights != "equal":
            raise SettingsError(
                f"weights={self.weights} lets one client count for more than clip, on which the noise rests: set "
                "weights=equal"
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


@dataclass(frozen=True)
class DpFedsgdSettings(WeightsSettings):
    """Settings of DP-FedSGD; a client takes epochs / rate noisy steps in each round."""

    batch_size: int = setting(
        64, "public number that a batch's sum is divided by; batches hold rate * records", low=1, site_limit=(1, 4096)
    )
    epsilon: float = setting(4.3, "privacy target of all rounds together", above=0, site_limit=(1e-3, 1000.0))
    delta: float = setting(
        1e-5, "added to e^epsilon times any probability; below 1/n", above=0, below=1, site_limit=(1e-15, 0.1)
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
    lr: float = setting(
        0.5, "learning rate of the noisy steps (plain gradient descent)", above=0, site_limit=(1e-6, 10.0)
    )
    noise_seed: int | None = setting(
        None, "seed noise and batches, for tests; the guarantee is then: not private", site_limit=()
    )

    def check(self) -> None:
        super().check()
        if self.weights != "equal":
            raise SettingsError(f"weights={self.weights} tells the clients' numbers of records: set weights=equal")
        if self.domain_adaptation:
            raise SettingsError(
                f"domain_adaptation={self.domain_adaptation:g}: its loss has no gradient of a single record, which "
                "dp-fedsgd clips: set 0, or run dp-fedavg"
            )

    @property
    def steps(self) -> int:
        """Noisy steps of a round."""
        return max(1, round(self.epochs / self.rate))


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
    if settings.noise_multiplier:
        return SubsampledGaussian(population, rate, settings.clip, settings.noise_multiplier, steps, size)
    return SubsampledGaussian.solve(
        settings.epsilon,
        settings.delta,
        population=population,
        rate=rate,
        clip=settings.clip,
        steps=steps,
        coordinates=size,
    )


class DpFedavgClient(WeightsClient[DpFedavgSettings]):
    """A client of DP-FedAvg: it trusts the server to clip, to add the noise, and to show nothing but the result.

    It is charged for each round in which it is drawn, without amplification: it, and whoever knows that it was drawn,
    cannot count on the draw being secret. A client that is not drawn pays nothing, for nothing of it is in that sum.
    """

    trusts_server = True
    _difference: npt.NDArray[Any] | None = None

    def mechanism(self, question: Start) -> SubsampledGaussian:
        """The server's noise."""
        return client_mechanism(self.workspace.settings, question.weights.size)

    def terms(self, question: Start) -> Terms:
        settings, mechanism = self.workspace.settings, self.mechanism(question)
        costs = [mechanism.cost_if_drawn()] * settings.rounds
        budget = accounting.least_budget(costs, settings.delta, "exact")
        return Terms("client", settings.adjacency, budget, settings.delta)

    def parts(self, question: Start, unit: Unit) -> dict[str, Part]:
        """The difference as it is; the server adds the noise that is charged."""
        return {"difference": Part(self.mechanism(question).cost_if_drawn(), lambda told, _: told)}

    def noisy(self, question: Start, parts: Mapping[str, Part], exact: Mapping[str, Any]) -> Release:
        """Whether there is one: it may be large, and the same request makes the same one again."""
        self._difference = exact["difference"]
        if not np.isfinite(self._difference).all():
            raise DataError("the difference of the weights is not finite")
        return {"difference": np.array([self._difference.any()], dtype=np.int8)}

    def blank(self, question: Start) -> dict[str, Any]:
        return {"difference": np.zeros(question.weights.size, np.float32)}

    def pack(self, question: Start, release: Release) -> Arrays:
        if self._difference is None and release["difference"][0]:
            self.drawn(question, self.parts(question, "client"))  # made again; blank if that fails now
        difference = self.blank(question)["difference"] if self._difference is None else self._difference
        return pack_difference(difference, self.workspace.settings)


class DpFedsgdClient(WeightsClient[DpFedsgdSettings]):
    """A client of DP-FedSGD: what it tells is private already, whoever reads it."""

    def mechanism(self, question: Start) -> SubsampledGaussian:
        """The noise of all rounds."""
        return record_mechanism(self.workspace.settings, question.weights.size)

    def terms(self, question: Start) -> Terms:
        settings = self.workspace.settings
        cost = round_mechanism(settings, question.weights.size).cost()
        accountant: Accountant = "exact" if isinstance(cost, GaussianCost) else "rdp"  # the one that knows sampling
        budget = accounting.least_budget([cost] * settings.rounds, settings.delta, accountant)
        return Terms("record", "add-remove", budget, settings.delta, accountant)

    def parts(self, question: Start, unit: Unit) -> dict[str, Part]:
        """The difference, whose noise is in every step that led to it."""
        cost = round_mechanism(self.workspace.settings, question.weights.size).cost()
        return {"difference": Part(cost, lambda told, _: pack_difference(told, self.workspace.settings)[0])}

    def blank(self, question: Start) -> dict[str, Any]:
        """The same steps without a record in any of their batches."""
        mechanism, settings = self.mechanism(question), self.workspace.settings
        noise, nobody = self.noise("difference", question), np.zeros((0, question.weights.size))
        steps = sum(mechanism.release(nobody, noise) for _ in range(settings.steps))
        return {"difference": np.asarray(-settings.lr / settings.batch_size * steps, dtype=np.float32)}

    def pack(self, question: Start, release: Release) -> Arrays:
        return [release["difference"]]

    def noise(self, part: str, question: Start) -> NoiseSource:
        """Each round has a stream of its own."""
        return secret_noise(self.workspace.settings.noise_seed, self.workspace.client_id, question.round)

    def train(self, learner: Learner, number: int) -> None:
        """Noisy steps on Poisson batches of the client's own records."""
        own, settings = self.workspace.private(), self.workspace.settings
        size = sum(w.size for w in learner.get_weights())
        mechanism = replace(record_mechanism(settings, size), population=len(own.y))
        noise = secret_noise(settings.noise_seed, self.workspace.client_id, number)
        learner.sgd_steps(
            own.x,
            own.y,
            _poisson_batches(mechanism, settings.steps, noise),
            lambda found: mechanism.release(found, noise) / settings.batch_size,
        )


def _poisson_batches(mechanism: SubsampledGaussian, steps: int, noise: NoiseSource) -> Iterator[npt.NDArray[np.int64]]:
    return (mechanism.cohort(noise) for _ in range(steps))
