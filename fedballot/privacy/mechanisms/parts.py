"""Mechanisms as parts of an answer: where a release takes another form than the mechanism by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedballot.privacy.accounting import Cost
from fedballot.privacy.guarantee import Unit
from fedballot.privacy.mechanism import Mechanism
from fedballot.privacy.mechanisms.class_sums import ClassSums, class_sums
from fedballot.privacy.mechanisms.subsampled import SubsampledGaussian
from fedballot.privacy.noise.randomness import NoiseSource

EmbeddedRecords = tuple[npt.NDArray[np.floating], npt.NDArray[np.integer]]


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
