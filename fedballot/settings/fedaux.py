"""Settings of the FedAUX family, and the noise of class sums that follows from them.

Paper: "FedAUXfdp: Differentially private one-shot federated distillation"; the class sums are ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from fedballot.core.errors import SettingsError
from fedballot.core.setting import setting
from fedballot.datasets.federation import FederatedData
from fedballot.datasets.own import SITES
from fedballot.privacy.accounting import Cost
from fedballot.privacy.guarantee import Unit
from fedballot.privacy.mechanism import Composition, Exact, Facts, Mechanism, unprotected
from fedballot.privacy.mechanisms.class_sums import ClassSums, class_sums
from fedballot.privacy.noise.randomness import NoiseSource
from fedballot.settings.heads import FeddSettings, HeadSettings, head_mechanisms, record_level
from fedballot.settings.summed import SummedSettings
from fedballot.settings.weights import WeightsSettings
from fedballot.wire.secagg import Form

LANDMARKS = 512  # of class sums, where the public pool is large enough
EmbeddedRecords = tuple[npt.NDArray[np.floating], npt.NDArray[np.integer]]
PER_LANDMARK = 10  # least public records for a landmark


@dataclass(frozen=True)
class FedauxfdpSettings(FeddSettings):
    """Settings of FedAUXfdp."""

    head: Literal["class-sums", "logistic"] = setting(
        "class-sums",
        "what is released: class counts and sums at once, or the paper's score and class heads",
        site_limit=("class-sums", "logistic"),
    )
    score_epsilon: float = setting(
        0.1,
        "privacy target of the score head (head=logistic); `inf`: no noise",
        above=0,
        infinite=True,
        site_limit=(1e-3, 1000.0),
    )
    embedding: Literal["landmarks", "pca"] = setting(
        "landmarks", "space of the class sums, fitted on the public pool", site_limit=("landmarks", "pca")
    )
    dimension: int = setting(
        0,
        "coordinates of that space; 0: 512 landmarks, or components by the noise and the numbers of records",
        low=0,
        site_limit=(0, 4096),
    )
    records: int = setting(
        0,
        "about how many records a client holds (embedding=pca), public; 0: the mean of the partition",
        low=0,
        site_limit=(0, 1_000_000),
    )

    def check(self) -> None:
        super().check()
        if self.head == "class-sums" and self.mechanism == "paper":
            raise SettingsError("mechanism=paper is the noise of logistic heads: set head=logistic with it")
        if self.head == "class-sums" and self.share == "predictions":
            raise SettingsError(
                "share=predictions: the server adds class sums up before it can say what they tell of a record, and "
                "they are smaller: leave it out, or set head=logistic"
            )
        planned = self.head == "class-sums" and self.embedding == "pca" and not self.dimension
        if planned and self.dataset == SITES and not self.records:
            raise SettingsError(
                "records=0, but sites keep their numbers to themselves, and the dimension is planned for a number: "
                "set records to about what a site holds, or set dimension"
            )

    @property
    def logistic(self) -> bool:
        return self.head == "logistic"

    @property
    def with_scores(self) -> bool:
        return self.logistic

    @property
    def with_landmarks(self) -> bool:
        """Whether the server sends landmarks, in which class sums are told."""
        return not self.logistic and self.embedding == "landmarks"

    @property
    def landmarks(self) -> int:
        """How many."""
        return self.dimension or min(LANDMARKS, max(2, self.public_size // PER_LANDMARK))

    @property
    def score_target(self) -> float:
        return self.score_epsilon if self.logistic else math.inf

    def composition(self, facts: Facts) -> Composition:
        if self.logistic:
            return super().composition(facts)
        noisy = sums_mechanism(self, facts.classes, facts.features)
        noise = "with Gaussian noise, in one release" if noisy else "without noise"
        sums = OwnSums(noisy, facts.records, facts.classes)
        return record_level(self, {"sums": sums}, f"Class counts and sums of each client {noise}", facts)


@dataclass(frozen=True)
class FedauxFSettings(FeddSettings):
    """Settings of FedAUX with a frozen extractor: private scores, class heads without noise."""

    client_models: tuple[str, ...] = setting(
        ("linear-torch",), "learners of the clients' class heads, on frozen features", reads="site", headline=True
    )
    epochs: int = setting(40, "epochs of a class head", low=0, site_limit=(1, 500), headline=True)
    epsilon: float = setting(
        math.inf, "`inf`: the class head has no noise", above=0, infinite=True, site_limit=(1e-3, 1000.0), headline=True
    )
    share: Literal["heads", "predictions"] = setting(
        "predictions", "what a client tells: predictions", site_limit=("heads", "predictions")
    )
    weighting: Literal["probabilities", "logits"] = setting(
        "probabilities", "what of the heads is averaged", reads="server"
    )
    score_epsilon: float = setting(
        0.1, "privacy target of the score head; `inf`: no noise", above=0, infinite=True, site_limit=(1e-3, 1000.0)
    )

    def check(self) -> None:
        super().check()
        if not math.isinf(self.epsilon):
            raise SettingsError(
                f"epsilon={self.epsilon:g}, but fedaux-f adds no noise to class heads: leave it out, or run fedauxfdp"
            )
        if self.share != "predictions":
            raise SettingsError(
                "share=heads: a class head of fedaux-f may be any model, so it is not told: leave it out"
            )

    @property
    def with_scores(self) -> bool:
        return True

    @property
    def score_target(self) -> float:
        return self.score_epsilon

    def composition(self, facts: Facts) -> Composition:
        parts = {"predictions": Exact(), "scores": head_mechanisms(self, facts)["scores"]}
        return record_level(self, parts, "Predictions without noise, and the score head of each client", facts)


@dataclass(frozen=True)
class FedauxfdpSumSettings(FedauxfdpSettings, SummedSettings):
    """Settings of FedAUXfdp with one noise for all clients."""

    epsilon: float = setting(
        0.5, "privacy target of the sum over clients", above=0, site_limit=(1e-3, 1000.0), headline=True
    )
    records: int = setting(
        0, "most records that a client holds, public; 0: the largest of the partition", low=0, site_limit=(0, 1_000_000)
    )

    def check(self) -> None:
        super().check()
        for name, only in (("head", "class-sums"), ("embedding", "landmarks"), ("precision", "float16")):
            if getattr(self, name) != only:
                raise SettingsError(f"{name}={getattr(self, name)}: fedauxfdp-sum adds up class sums: leave it out")
        if self.dataset == SITES and not self.records:
            raise SettingsError(
                "records=0, but sites keep their numbers to themselves, and sums need a largest number: set records to "
                "the most that a site holds"
            )

    def composition(self, facts: Facts) -> Composition:
        noisy = shared_mechanism(self, facts.classes)
        return Composition(
            {"sums": SharedSums(noisy)},
            "class counts and sums of all clients",
            "record",
            "replace-one",
            self.delta,
            also=(("person", "replace-one"),),
            trust=self.trust,
            seeded=self.noise_seed is not None,
            amplified=self.secure_aggregation,
            stated=lambda: noisy.guarantees(
                self.delta,
                secure=self.secure_aggregation,
                arrived=facts.arrived if self.secure_aggregation else None,
                seeded=self.noise_seed is not None,
                records=facts.all_records,
                largest=facts.largest_client,
            ),
        )


@dataclass(frozen=True)
class FedauxSettings(WeightsSettings, HeadSettings):
    """Settings of FedAUX; with `extractor = "simclr-M"`, M the clients' model, all models begin as the extractor."""

    client_models: tuple[str, ...] = setting(
        ("resnet8-gn",), "the one learner that all train", reads="site", headline=True
    )
    server_model: str = setting(
        "logistic-regression", "not used: the server trains the clients' learner", reads="server", headline=True
    )
    extractor: str = setting(
        "simclr-resnet8-gn", "frozen features of the scores; simclr-M also starts the models M", kind="extractor"
    )
    rounds: int = setting(5, "rounds of training, averaging and distillation", low=1, site_limit=(1, 1000))
    precision: Literal["float32", "float16"] = setting(  # type: ignore[assignment]  # of weights; heads are float16
        "float32", "how the difference of the weights is sent", site_limit=("float32", "float16")
    )
    epsilon: float = setting(
        math.inf, "`inf`: models have no noise", above=0, infinite=True, site_limit=(1e-3, 1000.0), headline=True
    )
    score_epsilon: float = setting(
        0.1, "privacy target of the score head; `inf`: no noise", above=0, infinite=True, site_limit=(1e-3, 1000.0)
    )
    weighting: Literal["probabilities", "logits"] = setting(
        "probabilities", "what of the models is averaged", reads="server"
    )

    def check(self) -> None:
        super().check()
        if not math.isinf(self.epsilon):
            raise SettingsError(
                f"epsilon={self.epsilon:g}, but fedaux adds no noise to models: leave it out, or run fedauxfdp"
            )

    @property
    def with_scores(self) -> bool:
        return True

    @property
    def score_target(self) -> float:
        return self.score_epsilon

    def composition(self, facts: Facts) -> Composition:
        return unprotected("Models without noise, beside scores with noise")

    def scores(self, facts: Facts) -> Composition:
        """Of the score head alone, which is paid for once."""
        scores = head_mechanisms(self, facts)["scores"]
        return record_level(self, {"scores": scores}, "Score head of each client", facts)


@dataclass(frozen=True)
class OwnSums(Mechanism):
    """A client's own class sums; `records` is its public number.

    A blank answer's counts must add up to that number too, else a failure would be known for sure.
    """

    noisy: ClassSums | None
    records: int
    classes: int

    def cost(self, unit: Unit = "record", records_per_person: int = 1) -> Cost | None:
        """What the release costs a record, or a person's records; None without noise."""
        return self.noisy.cost(unit, records_per_person) if self.noisy else None

    def release(self, exact: EmbeddedRecords, noise: NoiseSource) -> npt.NDArray[np.float64]:
        """Counts and sums (C, 1 + d) of embedded records (n, d) and labels (n,)."""
        if self.noisy is None:
            return class_sums(*exact, self.classes)
        return self.noisy.release(*exact, noise, self.records)


@dataclass(frozen=True)
class SharedSums(Mechanism):
    """Class sums of which only the sum over clients is opened."""

    noisy: ClassSums

    def cost(self, unit: Unit = "record", records_per_person: int = 1) -> Cost:
        """What the sum costs a record, or a person's records."""
        return self.noisy.cost(unit, records_per_person)

    def release(self, exact: EmbeddedRecords, noise: NoiseSource) -> npt.NDArray[np.int64]:
        """A client's counts and sums (C, 1 + d) with its share of the noise, in grid steps."""
        return self.noisy.steps(*exact, noise)


@lru_cache(maxsize=4)
def sums_mechanism(settings: FedauxfdpSettings, classes: int, dimension: int) -> ClassSums | None:
    """Noise of the class sums; None: no noise."""
    if math.isinf(settings.epsilon):
        return None
    signed = settings.embedding == "pca"
    return ClassSums.solve(settings.epsilon, settings.delta, classes=classes, features=dimension, signed=signed)


@lru_cache(maxsize=4)
def shared_mechanism(settings: FedauxfdpSumSettings, classes: int) -> ClassSums:
    """The noisy sum with the least noise that the settings allow."""
    return ClassSums.solve(
        settings.epsilon,
        settings.delta,
        classes=classes,
        features=settings.landmarks,
        signed=False,
        contributors=settings.min_clients,
        colluders=settings.colluders,
    )


def sums_form(settings: FedauxfdpSumSettings, data: FederatedData) -> Form:
    """Form of a client's integers (C, 1 + d), from public numbers."""
    classes = len(data.classes)
    noisy = shared_mechanism(settings, classes)
    return Form((classes, 1 + settings.landmarks), noisy.largest(most_records(settings, data)))


def most_records(settings: FedauxfdpSumSettings, data: FederatedData) -> int:
    """Most records that a client may hold."""
    return settings.records or max(part.size for part in data.parts)
