"""Settings of methods whose clients send class sums of frozen features, and the noise that follows from them.

Source: ours, after "FedAUXfdp: Differentially private one-shot federated distillation".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal

from fedballot.core.errors import SettingsError
from fedballot.core.setting import again, setting
from fedballot.datasets.own import SITES
from fedballot.privacy.mechanism import Composition, Facts
from fedballot.privacy.mechanisms.class_sums import ClassSums
from fedballot.privacy.mechanisms.parts import SharedSums
from fedballot.settings.heads import FrozenStudent
from fedballot.settings.parts import PrivacyTarget
from fedballot.settings.summed import SummedSettings
from fedballot.settings.targets import solved
from fedballot.wire.secagg import Form

if TYPE_CHECKING:
    from fedballot.datasets.federation import FederatedData

LANDMARKS = 512  # of class sums, where the public pool is large enough
PER_LANDMARK = 10  # least public records for a landmark


@dataclass(frozen=True)
class ClassSumSettings(FrozenStudent, PrivacyTarget):
    """Of methods whose clients send class counts and sums of embedded features."""

    embedding: Literal["landmarks", "pca"] = setting(
        "landmarks", "space of the class sums, fitted on the public pool", site_limit=("landmarks", "pca")
    )
    dimension: int = setting(
        0, "coordinates of that space; 0: 512 landmarks, or fewer, if any", low=0, site_limit=(0, 4096)
    )
    records: int = setting(
        0,
        "about how many records a client holds, public; 0: the mean of the partition",
        low=0,
        site_limit=(0, 1_000_000),
    )

    def check(self) -> None:
        super().check()
        most = self.public_size - 1
        if self.with_landmarks and not 2 <= self.coordinates <= most:
            mend = f"set dimension from 2 to {most}" if most >= 2 else "raise public_size"
            raise SettingsError(
                f"dimension={self.dimension}: there must be at least 2 landmarks, and fewer than the public records, "
                f"public_size={self.public_size}: {mend}"
            )
        if not self.logistic and not self.with_landmarks and self.dimension > most:
            raise SettingsError(
                f"dimension={self.dimension}: there must be fewer principal components than public records, "
                f"public_size={self.public_size}: set dimension to at most {most}"
            )

    @property
    def logistic(self) -> bool:
        """Whether clients send logistic heads instead."""
        return False

    @property
    def with_landmarks(self) -> bool:
        """Whether the server sends landmarks, for class sums."""
        return not self.logistic and self.embedding == "landmarks"

    @property
    def coordinates(self) -> int:
        """Landmarks, or the principal components that `dimension` names."""
        return self.dimension or min(LANDMARKS, max(2, self.public_size // PER_LANDMARK))


@dataclass(frozen=True)
class FedauxfdpSumSettings(ClassSumSettings, SummedSettings):
    """Settings of FedAUXfdp with one noise for all clients."""

    epsilon: float = again(PrivacyTarget, "epsilon", 0.5, help="privacy target of the sum over clients")
    dimension: int = again(
        ClassSumSettings,
        "dimension",
        0,
        help="coordinates of that space; 0: 512 landmarks, or fewer; principal components must be named",
    )
    records: int = again(
        ClassSumSettings,
        "records",
        0,
        help="most records that a client holds, public; 0: the largest of the partition",
    )

    def check(self) -> None:
        super().check()
        if not self.with_landmarks and not self.dimension:
            raise SettingsError(
                "dimension=0, but with embedding=pca it is the number of principal components: set it to less than the "
                "public records, and to at most the width of the frozen features"
            )
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
                **self.seen(facts),
                seeded=self.noise_seed is not None,
                records=facts.all_records,
                largest=facts.largest_client,
            ),
        )


@lru_cache(maxsize=4)
def sums_mechanism(settings: ClassSumSettings, classes: int, dimension: int) -> ClassSums | None:
    """Noise of the class sums; None: no noise."""
    if math.isinf(settings.epsilon):
        return None
    signed = not settings.with_landmarks
    solve = partial(ClassSums.solve, delta=settings.delta, classes=classes, features=dimension, signed=signed)
    return solved("epsilon", settings.epsilon, solve)


@lru_cache(maxsize=4)
def shared_mechanism(settings: FedauxfdpSumSettings, classes: int) -> ClassSums:
    """The noisy sum with the least noise that the settings allow."""
    solve = partial(
        ClassSums.solve,
        delta=settings.delta,
        classes=classes,
        features=settings.coordinates,
        signed=not settings.with_landmarks,
        min_clients=settings.min_clients,
        colluders=settings.colluders,
    )
    return solved("epsilon", settings.epsilon, solve)


def sums_form(settings: FedauxfdpSumSettings, data: FederatedData) -> Form:
    """Form of a client's integers (C, 1 + d), from public numbers."""
    classes = len(data.classes)
    noisy = shared_mechanism(settings, classes)
    return Form((classes, 1 + settings.coordinates), noisy.largest(most_records(settings, data)))


def most_records(settings: FedauxfdpSumSettings, data: FederatedData) -> int:
    """Most records that a client may hold."""
    return settings.records or data.largest or 0
