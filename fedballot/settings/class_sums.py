"""Settings of methods whose clients tell class sums of frozen features, and the noise that follows from them.

Source: ours, after "FedAUXfdp: Differentially private one-shot federated distillation".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fedballot.core.errors import SettingsError
from fedballot.core.setting import again, setting
from fedballot.datasets.federation import FederatedData
from fedballot.datasets.own import SITES
from fedballot.privacy.accounting.costs import Cost
from fedballot.privacy.guarantee import Unit
from fedballot.privacy.mechanism import Composition, Facts, Mechanism
from fedballot.privacy.mechanisms.class_sums import ClassSums, class_sums
from fedballot.privacy.noise.randomness import NoiseSource
from fedballot.settings.heads import FrozenSettings
from fedballot.settings.parts import PrivacyTarget, ServerTraining
from fedballot.settings.summed import SummedSettings
from fedballot.wire.secagg.protocol import Form

LANDMARKS = 512  # of class sums, where the public pool is large enough
PER_LANDMARK = 10  # least public records for a landmark
EmbeddedRecords = tuple[npt.NDArray[np.floating], npt.NDArray[np.integer]]


@dataclass(frozen=True)
class ClassSumSettings(ServerTraining, FrozenSettings, PrivacyTarget):
    """Of methods whose clients tell class counts and sums of embedded features."""

    server_model: str = again(
        ServerTraining,
        "server_model",
        "logistic-regression",
        help="learner that the server trains on the frozen features",
    )
    dimension: int = setting(
        0, "coordinates of the space of class sums; 0: 512 landmarks, or fewer", low=0, site_limit=(0, 4096)
    )
    records: int = setting(
        0,
        "about how many records a client holds, public; 0: the mean of the partition",
        low=0,
        site_limit=(0, 1_000_000),
    )

    @property
    def logistic(self) -> bool:
        """Whether clients tell logistic heads instead."""
        return False

    @property
    def with_landmarks(self) -> bool:
        """Whether the server sends landmarks, in which class sums are told."""
        return True

    @property
    def landmarks(self) -> int:
        """How many."""
        return self.dimension or min(LANDMARKS, max(2, self.public_size // PER_LANDMARK))


@dataclass(frozen=True)
class FedauxfdpSumSettings(ClassSumSettings, SummedSettings):
    """Settings of FedAUXfdp with one noise for all clients."""

    epsilon: float = again(PrivacyTarget, "epsilon", 0.5, help="privacy target of the sum over clients")
    records: int = again(
        ClassSumSettings,
        "records",
        0,
        help="most records that a client holds, public; 0: the largest of the partition",
    )

    def check(self) -> None:
        super().check()
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
def sums_mechanism(settings: ClassSumSettings, classes: int, dimension: int) -> ClassSums | None:
    """Noise of the class sums; None: no noise."""
    if math.isinf(settings.epsilon):
        return None
    signed = not settings.with_landmarks
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
