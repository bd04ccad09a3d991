"""Settings of methods that share weights, and the noise of the two private ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from fedballot.core.errors import SettingsError
from fedballot.core.setting import setting
from fedballot.datasets.own import SITES
from fedballot.privacy.accounting import Cost, GaussianCost
from fedballot.privacy.guarantee import TRUSTED_AGGREGATOR, Adjacency, Unit
from fedballot.privacy.mechanism import Composition, Facts, Mechanism, unprotected
from fedballot.privacy.mechanisms.subsampled import SubsampledGaussian
from fedballot.privacy.noise.randomness import NoiseSource
from fedballot.settings.parts import CommonSettings


@dataclass(frozen=True)
class WeightsSettings(CommonSettings):
    """Settings of every method that shares weights; the model that all train is the one name in ``client_models``."""

    rounds: int = setting(20, "rounds of training and averaging", low=1, site_limit=(1, 1000))
    epochs: int = setting(2, "epochs of local training in each round", low=1, site_limit=(1, 500), headline=True)
    participation: float = setting(
        1.0, "share of the clients that are asked in each round", above=0, high=1, site_limit=(0.0, 1.0)
    )
    precision: Literal["float32", "float16"] = setting(
        "float32", "how the difference of the weights is sent", site_limit=("float32", "float16")
    )
    weights: Literal["equal", "size"] = setting(
        "equal",
        "how clients count in the average; size: by their number of records, which must be public",
        reads="server",
    )
    domain_adaptation: float = setting(
        0.0,
        "strength of domain-adversarial local training towards the public pool (`+DA`)",
        low=0,
        site_limit=(0.0, 10.0),
    )

    def check(self) -> None:
        super().check()
        if self.weights == "size" and self.dataset == SITES:
            raise SettingsError("weights=size needs sizes that are public, but sites keep theirs: set weights=equal")

    @property
    def model(self) -> str:
        """Name of the learner whose weights are shared."""
        return self.client_models[0]

    @property
    def cohort_size(self) -> int:
        """Clients asked in a round, at least one."""
        return max(1, round(self.participation * self.clients))

    def composition(self, facts: Facts) -> Composition:
        return unprotected(
            "Weights without noise",
            unit="client",
            adjacency="zero-out",
            view="output only",
            trust=TRUSTED_AGGREGATOR,
            n=self.clients,
        )


@dataclass(frozen=True)
class ProxSettings(WeightsSettings):
    """Settings of FedProx."""

    mu: float = setting(
        0.1, "strength of the pull of local training towards the server's weights", above=0, site_limit=(0.0, 100.0)
    )


@dataclass(frozen=True)
class MomentumSettings(WeightsSettings):
    """Settings of FedAvgM."""

    momentum: float = setting(0.9, "share of the last step that the server keeps", low=0, below=1, reads="server")
    server_step: float = setting(1.0, "length of the server's step", above=0, reads="server")


@dataclass(frozen=True)
class FedgenSettings(WeightsSettings):
    """Settings of FedGen; the generator trains with ``server_batch_size`` and ``server_lr``."""

    generator_steps: int = setting(200, "steps of the generator's training after each round", low=0, reads="server")
    replay: float = setting(
        1.0, "how much generated features count in local training, beside own records", low=0, site_limit=(0.0, 10.0)
    )
    label_counts: bool = setting(
        True,
        "clients tell how many records of each class they have, which weighs them; false: all weigh the same",
        site_limit=(False, True),
    )

    def check(self) -> None:
        super().check()
        if self.domain_adaptation:
            raise SettingsError(
                f"domain_adaptation={self.domain_adaptation:g} needs a public pool, which fedgen does without: "
                "leave it out, or run feddf"
            )

    def composition(self, facts: Facts) -> Composition:
        plain = super().composition(facts)
        return replace(plain, words="Weights and class counts without noise") if self.label_counts else plain


@dataclass(frozen=True)
class DpFedavgSettings(MomentumSettings):
    """Settings of DP-FedAvg."""

    momentum: float = setting(0.0, "share of the last step that the server keeps", low=0, below=1, reads="server")
    epsilon: float = setting(
        4.3, "privacy target of all rounds together", above=0, site_limit=(1e-3, 1000.0), headline=True
    )
    delta: float = setting(
        1e-3,
        "added to e^epsilon times any probability; below 1/n",
        above=0,
        below=1,
        site_limit=(1e-15, 0.1),
        headline=True,
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
class DpFedsgdSettings(WeightsSettings):
    """Settings of DP-FedSGD; a client takes epochs / rate noisy steps in each round."""

    batch_size: int = setting(
        64, "public number that a batch's sum is divided by; batches hold rate * records", low=1, site_limit=(1, 4096)
    )
    epsilon: float = setting(
        4.3, "privacy target of all rounds together", above=0, site_limit=(1e-3, 1000.0), headline=True
    )
    delta: float = setting(
        1e-5,
        "added to e^epsilon times any probability; below 1/n",
        above=0,
        below=1,
        site_limit=(1e-15, 0.1),
        headline=True,
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


@dataclass(frozen=True)
class ServerNoise(Mechanism):
    """The difference as it is: the server adds the noise that is charged.

    A client that is drawn knows it, and so pays for it without amplification.
    """

    noisy: SubsampledGaussian
    central = True

    def cost(self, unit: Unit = "client", records_per_person: int = 1) -> Cost:
        """What one round costs a client that is drawn."""
        return self.noisy.cost_if_drawn()

    def release(self, exact: npt.NDArray[np.floating], noise: NoiseSource) -> npt.NDArray[np.float64]:
        """The noisy sum (d,) of clipped differences (n, d), at the server."""
        return self.noisy.release(exact, noise)


@dataclass(frozen=True)
class NoisySteps(Mechanism):
    """A difference of weights whose noise is in every step that led to it."""

    noisy: SubsampledGaussian

    def cost(self, unit: Unit = "record", records_per_person: int = 1) -> Cost:
        """What the steps of one round cost a record."""
        return self.noisy.cost(unit, records_per_person)

    def release(self, exact: npt.NDArray[np.floating], noise: NoiseSource) -> npt.NDArray[np.floating]:
        """The difference."""
        return exact


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
