"""Noisy class sums: everything a linear head needs from a client, in one release of counts and feature sums per class.

A record with class y and embedding z, |z| <= 1, adds the vector (b, sqrt(1 - b^2) z) to block y. Replacing a record,
the number of records being public, moves the sum by at most sqrt(2). Across classes, two blocks change by vectors of
norm at most 1 each. Within a class, the constants cancel and leave sqrt(1 - b^2) |z - z'|:

- any z: |z - z'| <= 2, so b^2 = 1/2 is needed, and the counts cost nothing;
- z without negative coordinates: z and z' are at a right angle at most, |z - z'| <= sqrt(2), and any b will do. A
  small b leaves nearly all of the norm to the sums: their noise is smaller by nearly sqrt(2).

All that follows from the release is post-processing; there is no solver, hence no certificate.

Source: ours. It takes the place of the score head and the class head of "FedAUXfdp: Differentially private one-shot
federated distillation", Algorithm 1.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError, SettingsError
from fedballot.privacy.accounting import IntegerCost, check_records, gaussian, shares_that_came
from fedballot.privacy.guarantee import SELF, TRUSTED_AGGREGATOR, Guarantee, Unit, all_records, secure_aggregation
from fedballot.privacy.mechanisms.vectors import NoisyVector
from fedballot.privacy.noise.randomness import NoiseSource
from fedballot.privacy.noise.samplers import round_to_grid

SENSITIVITY = math.sqrt(2)
SIGNED = 0.5  # b^2, the share of a record's squared norm that its count takes: the least for signed coordinates
NONNEGATIVE = 0.05  # for coordinates of which none is negative: any would do, and the sums need theirs

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]


@dataclass(frozen=True)
class ClassSums:
    """The mechanism: C classes, embeddings of d coordinates; record level, replace-one, number of records public.

    Parameters
    ----------
    classes, features : int
        C and d; `classes` is the global label set, also for a client that holds one class.
    sigma : float
        Noise on each coordinate of the release, in units of a record's vector.
    signed : bool
        Whether embeddings may have negative coordinates.
    min_clients, colluders : int
        As in `NoisyVector`, where only the sum over clients is opened: min_clients - colluders shares of the noise
        are sure to be in it and secret. With 1 and 0 a client's release has all its noise itself.
    """

    classes: int
    features: int
    sigma: float
    signed: bool = True
    min_clients: int = 1
    colluders: int = 0

    def __post_init__(self) -> None:
        if self.classes < 2 or self.features < 1:
            raise SettingsError(f"classes = {self.classes}, features = {self.features}: must be at least 2 and 1.")
        gaussian.check_positive("sigma", self.sigma)

    @classmethod
    def solve(
        cls,
        epsilon: float,
        delta: float,
        *,
        classes: int,
        features: int,
        signed: bool = True,
        min_clients: int = 1,
        colluders: int = 0,
    ) -> "ClassSums":
        """Return the mechanism with the smallest sigma whose epsilon is at most the target."""
        found = NoisyVector.solve(
            epsilon,
            delta,
            sensitivity=SENSITIVITY,
            coordinates=classes * (1 + features),
            min_clients=min_clients,
            colluders=colluders,
        )
        return cls(classes, features, found.sigma, signed, min_clients, colluders)

    @property
    def mechanism(self) -> NoisyVector:
        """The noisy release of all blocks."""
        coordinates = self.classes * (1 + self.features)
        return NoisyVector(SENSITIVITY, coordinates, self.sigma, self.min_clients, self.colluders)

    @property
    def share(self) -> float:
        """b^2, what of a record's squared norm its count takes."""
        return SIGNED if self.signed else NONNEGATIVE

    @property
    def count_variance(self) -> float:
        """Variance of the noise on each count, before its projection."""
        return self.sigma**2 / self.share

    @property
    def variance(self) -> float:
        """Variance of the noise on each coordinate of the sums."""
        return self.sigma**2 / (1 - self.share)

    def cost(self, unit: Unit = "record", records_per_person: int = 1) -> IntegerCost:
        """Return what the release costs a record, or all of a person's records, at most so many.

        Each record is rounded by itself, so b records move the grid steps by b times what one does. Blocks save
        nothing: b equal records that turn into b equal ones of another class move two blocks by b each, b sqrt(2).
        """
        check_records(records_per_person)
        one = self.mechanism.cost()
        return replace(one, sensitivity=records_per_person * one.sensitivity)

    @property
    def scale(self) -> Floats:
        """What counts and sums are multiplied by before noise of sigma is added, float64 (1 + d,)."""
        return np.asarray(np.sqrt(np.r_[self.share, np.full(self.features, 1 - self.share)]))

    def steps(self, embedded: NDArray[np.floating], labels: NDArray[np.integer], noise: NoiseSource) -> Steps:
        """A client's counts and sums with its share of the noise, in grid steps, int64 (C, 1 + d).

        Raises
        ------
        DataError
            See `class_sums`; if a coordinate is negative and the mechanism is not for signed ones.
        """
        if embedded.ndim != 2 or embedded.shape[1] != self.features:
            raise DataError(f"embedded: expected (n, {self.features}), got {embedded.shape}.")
        if not self.signed and (embedded < 0).any():
            raise DataError("embedded: a coordinate is negative, and the noise is for embeddings without such.")
        mechanism = self.mechanism
        total = np.zeros((self.classes, 1 + self.features), dtype=np.int64)
        for label, rows in _by_class(embedded, labels, self.classes):
            records = np.hstack([np.ones((len(rows), 1)), rows]) * self.scale
            total[label] = round_to_grid(records, mechanism.grid).sum(axis=0)  # exact, as sums of doubles are not
        return mechanism.noisy(total, noise)

    def read(self, steps: Steps) -> Floats:
        """Counts and sums, float64 (C, 1 + d), of one client's grid steps or of the sum of several."""
        return np.asarray(steps * self.mechanism.grid / self.scale, dtype=np.float64)

    def largest(self, records: int) -> int:
        """Largest magnitude of a grid step of a client with at most this many records; see `largest_draw`."""
        return math.ceil(records / self.mechanism.grid) + self.mechanism.largest

    def release(
        self,
        embedded: NDArray[np.floating],
        labels: NDArray[np.integer],
        noise: NoiseSource,
        records: int | None = None,
    ) -> Floats:
        """Counts and sums with noise, float64 (C, 1 + d); the counts add up to the public number of records.

        The noise of the counts is projected on the vectors that sum to zero: the public total lies outside of them.
        `records` is that total where others are given, as none for a blank answer.

        Raises
        ------
        DataError
            See `steps`.
        """
        noisy = self.read(self.steps(embedded, labels, noise))
        total = len(embedded) if records is None else records
        noisy[:, 0] += (total - noisy[:, 0].sum()) / self.classes
        return noisy

    def guarantees(
        self,
        delta: float,
        *,
        secure: bool,
        arrived: int | None = None,
        seeded: bool = False,
        records: int | None = None,
        largest: int | None = None,
        records_per_person: int | None = None,
    ) -> list[Guarantee]:
        """What a sum over clients promises; without secure aggregation, the server's own view of one client too.

        `arrived`: how many shares of noise are in the opened sum. `records`, `largest`: how many records all clients
        hold, and the largest of them. None where that is not known.
        """
        came = shares_that_came(arrived, self.min_clients, self.colluders)
        found = Guarantee(
            mechanism="class counts and sums of all clients, with Gaussian noise of which each adds a share",
            unit="record",
            adjacency="replace-one",
            epsilon=replace(self.cost(), shares=came).epsilon(delta),
            delta=delta,
            view="server's view" if secure else "output only",
            trust=secure_aggregation(self.min_clients, self.colluders) if secure else TRUSTED_AGGREGATOR,
            status="seeded" if seeded else "proved",
            accountant="exact (sum of discrete Gaussians)",
            n=records,
            composition="one release; landmarks, extractor and the largest number of records of a client are public",
        )
        rows = [found]
        if not secure:
            words = "one client's own class counts and sums, with its share of the noise"
            alone = replace(self.cost(), shares=1).epsilon(delta)
            rows.append(replace(found, mechanism=words, epsilon=alone, view="server's view", trust=SELF, n=largest))
        if records_per_person is not None:
            counted = f"{found.composition}; {all_records(records_per_person)}"
            cost = self.cost("person", records_per_person)
            rows += [
                replace(
                    row, unit="person", n=None, composition=counted, epsilon=replace(cost, shares=shares).epsilon(delta)
                )
                for row, shares in zip(rows, (came, 1), strict=False)
            ]
        return rows


def class_sums(embedded: NDArray[np.floating], labels: NDArray[np.integer], classes: int) -> Floats:
    """Counts and sums without noise, float64 (C, 1 + d): column 0 counts, the others add up the embeddings.

    Parameters
    ----------
    embedded : ndarray, shape (n, d)
        Rows of L2 norm at most 1.
    labels : ndarray of int, shape (n,)
        0 to classes - 1.

    Raises
    ------
    DataError
        If shapes or labels do not fit, or a row is longer than 1.
    """
    out = np.zeros((classes, 1 + np.atleast_2d(embedded).shape[1]))
    for label, rows in _by_class(embedded, labels, classes):
        out[label, 0], out[label, 1:] = len(rows), rows.sum(axis=0)
    return out


def _by_class(
    embedded: NDArray[np.floating], labels: NDArray[np.integer], classes: int
) -> Iterator[tuple[int, Floats]]:
    """Each label that occurs with its rows, float64, none longer than 1; errors as `class_sums`."""
    embedded, labels = np.asarray(embedded, dtype=np.float64), np.asarray(labels)
    if embedded.ndim != 2 or labels.shape != (len(embedded),):
        raise DataError(f"embedded {embedded.shape} and labels {labels.shape}: expected (n, d) and (n,).")
    if not np.issubdtype(labels.dtype, np.integer) or (labels < 0).any() or (labels >= classes).any():
        raise DataError(f"labels: must be integers from 0 to {classes - 1}.")
    norms = np.sqrt(np.einsum("ij,ij->i", embedded, embedded))
    long = ~(norms <= 1 + 1e-6)
    if long.any():
        raise DataError(f"embedded: row {int(long.argmax())} is longer than 1 or not finite.")
    embedded = embedded / np.maximum(norms, 1.0)[:, None]  # what float32 has rounded up would exceed the sensitivity
    for label in np.unique(labels):
        yield int(label), embedded[labels == label]
