"""Settings of methods that share weights and promise nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from fedballot.core.errors import SettingsError
from fedballot.core.setting import again, setting
from fedballot.datasets.own import SITES
from fedballot.learners.options import Optimizer
from fedballot.privacy.guarantee import TRUSTED_AGGREGATOR
from fedballot.privacy.mechanism import Composition, Facts, unprotected
from fedballot.settings.parts import (
    ClientEvaluation,
    CommonSettings,
    LocalTraining,
    ServerEpochs,
    ServerSteps,
)
from fedballot.settings.robust import RobustAggregation


@dataclass(frozen=True)
class WeightsSettings(LocalTraining, ClientEvaluation, CommonSettings):
    """Settings of every method that shares weights; the model that all train is the one name in ``client_models``."""

    rounds: int = setting(20, "rounds of training and averaging", low=1, site_limit=(1, 1000))
    epochs: int = again(LocalTraining, "epochs", 2, help="epochs of local training in each round", low=1)
    participation: float = setting(
        1.0, "share of the clients that are asked in each round", above=0, high=1, site_limit=(0.0, 1.0)
    )
    precision: Literal["float32", "float16"] = setting(
        "float32", "how the difference of the weights is sent", site_limit=("float32", "float16")
    )

    @property
    def by_size(self) -> bool:
        """Whether clients count by their numbers of records in the average."""
        return False

    @property
    def adaptation(self) -> float:
        """Strength of domain-adversarial local training."""
        return 0.0

    @property
    def client_optimizer(self) -> Optimizer:
        """Whose steps local training takes."""
        return "adamw"

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
class DomainAdaptation(WeightsSettings):
    """Of methods whose local training may have a domain-adversarial loss."""

    domain_adaptation: float = setting(
        0.0,
        "strength of domain-adversarial local training towards the public pool (`+DA`)",
        low=0,
        site_limit=(0.0, 10.0),
    )

    @property
    def adaptation(self) -> float:
        return self.domain_adaptation


@dataclass(frozen=True)
class ClientOptimizer(WeightsSettings):
    """Of methods whose clients may train by plain gradient descent."""

    optimizer: Literal["adamw", "sgd"] = setting(
        "adamw",
        "steps of local training; sgd: plain gradient descent, which wants a larger lr",
        site_limit=("adamw", "sgd"),
    )

    @property
    def client_optimizer(self) -> Optimizer:
        return self.optimizer


@dataclass(frozen=True)
class Weighting(WeightsSettings):
    """Of methods whose clients need not count alike."""

    weights: Literal["equal", "size"] = setting(
        "equal",
        "how clients count in the average; size: by their number of records, which must be public",
        reads="server",
    )

    def check(self) -> None:
        super().check()
        if self.weights == "size" and self.dataset == SITES:
            raise SettingsError("weights=size needs sizes that are public, but sites keep theirs: set weights=equal")

    @property
    def by_size(self) -> bool:
        return self.weights == "size"


@dataclass(frozen=True)
class FedavgSettings(RobustAggregation, ClientOptimizer, DomainAdaptation, Weighting):
    """Settings of FedAvg."""

    @property
    def answers_expected(self) -> int:
        return self.cohort_size


@dataclass(frozen=True)
class FeddfSettings(ServerEpochs, DomainAdaptation, Weighting):
    """Settings of FedDF, whose server trains the average on."""


@dataclass(frozen=True)
class MomentumSettings(WeightsSettings):
    """Of methods whose server steps have momentum."""

    momentum: float = setting(0.9, "share of the last step that the server keeps", low=0, below=1, reads="server")
    server_step: float = setting(1.0, "length of the server's step", above=0, reads="server")


@dataclass(frozen=True)
class ProxSettings(FedavgSettings):
    """Settings of FedProx."""

    mu: float = setting(
        0.1,
        "strength of the proximal term that keeps local training near the server's weights",
        above=0,
        site_limit=(0.0, 100.0),
    )


@dataclass(frozen=True)
class FedavgmSettings(MomentumSettings, FedavgSettings):
    """Settings of FedAvgM."""


@dataclass(frozen=True)
class FedgenSettings(ServerSteps, Weighting):
    """Settings of FedGen; the generator trains with ``server_batch_size`` and ``server_lr``."""

    generator_steps: int = setting(200, "steps of the generator's training after each round", low=0, reads="server")
    replay: float = setting(
        1.0, "how much generated features count in local training, beside own records", low=0, site_limit=(0.0, 10.0)
    )
    label_counts: bool = setting(
        True,
        "clients send their number of records of each class, which weighs them; false: all weigh the same",
        site_limit=(False, True),
    )

    def composition(self, facts: Facts) -> Composition:
        plain = super().composition(facts)
        return replace(plain, words="Weights and class counts without noise") if self.label_counts else plain
