"""Noise-free differential privacy: everything is computed from one fixed random sample of the records.

Sampling k of n records is exactly (0, delta)-DP with delta = k/n without replacement and 1 - (1 - 1/n)^k with; no
epsilon makes that delta smaller when a record is removed. Source of the mechanism: "Federated model distillation with
noise-free differential privacy" (FedMD-NFDP), Theorems 1 and 2, whose epsilons hold but buy nothing.

The sample is free over rounds only while it stays the same: draw it once from the operating system's generator, keep it
(the ledger does), and let nothing else of the private data be touched.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError, SettingsError
from fedballot.privacy.accounting import DeltaCost, check_records, gaussian
from fedballot.privacy.guarantee import Unit
from fedballot.privacy.mechanism import Mechanism
from fedballot.privacy.noise.randomness import NoiseSource, uniform_below

Change = Literal["remove", "add", "replace"]


@dataclass(frozen=True)
class NfdpSample(Mechanism):
    """A sample of k of n records, n public.

    Parameters
    ----------
    n, k : int
        k <= n without replacement.
    replacement : bool
        With replacement is the more private: it uses fewer different records.
    """

    n: int
    k: int
    replacement: bool = True

    def __post_init__(self) -> None:
        if self.n < 1 or self.k < 1 or (self.k > self.n and not self.replacement):
            raise SettingsError(
                f"k = {self.k} of n = {self.n}: needs 1 <= k, 1 <= n, and k <= n when sampling without replacement."
            )

    @property
    def delta(self) -> float:
        """Probability that one given record is in the sample."""
        return self.hit()

    def hit(self, records_per_person: int = 1) -> float:
        """Return the probability that any of b given records is in the sample.

        With replacement 1 - (1 - b/n)^k, without 1 - C(n - b, k)/C(n, k); 1 if there is no sample without them.
        """
        check_records(records_per_person)
        b = min(records_per_person, self.n)
        if b == self.n or (not self.replacement and b + self.k > self.n):
            return 1.0
        if self.replacement:
            return -math.expm1(self.k * math.log1p(-b / self.n))
        few, many = sorted((b, self.k))  # the roles of the sample and of the person's records are alike
        if few == 1:
            return many / self.n
        return -math.expm1(math.fsum(math.log1p(-many / (self.n - i)) for i in range(few)))

    def profile(self, epsilon: float, change: Change) -> float:
        """Return the exact delta(epsilon) when going from a world to the other by this change; n is the larger one."""
        gaussian.check_epsilon(epsilon)
        if change == "add":
            return max(0.0, 1 - math.exp(epsilon) * (1 - self.delta))
        if change not in ("remove", "replace"):
            raise SettingsError(f'change = {change!r}: allowed are "remove", "add", "replace".')
        return self.delta

    def cost(self, unit: Unit = "record", records_per_person: int = 1) -> DeltaCost:
        """Return what the sample costs a record, or a person with so many of them; once, however often it is used."""
        return DeltaCost(self.hit(records_per_person))

    def release(self, exact: NDArray[Any], noise: NoiseSource) -> NDArray[Any]:
        """The drawn ones of n records."""
        return np.asarray(exact)[self.draw(noise)]

    def draw(self, noise: NoiseSource) -> NDArray[np.int64]:
        """Draw the indices, sorted, shape (k,); with replacement an index may occur more than once."""
        if self.replacement:
            return np.sort(uniform_below(np.full(self.k, self.n, dtype=np.int64), noise))
        order = np.arange(self.n)
        for place, jump in enumerate(uniform_below(self.n - np.arange(self.k), noise)):  # Fisher-Yates, k steps
            order[[place, place + jump]] = order[[place + jump, place]]
        return np.sort(order[: self.k])


def per_class_cost(samples: Sequence[NfdpSample], records_per_person: int = 1) -> DeltaCost:
    """Return the cost of one sample per class, class sizes public: a record is in one class, so the largest delta.

    A person's records may lie in several classes. The logarithm of the probability to miss them falls faster with each
    further record of a class, so all of them in one class, the worst, is worse than any mixture.
    """
    if not samples:
        raise SettingsError("samples: no class to sample from.")
    return DeltaCost(max(sample.hit(records_per_person) for sample in samples))


def draw_per_class(labels: NDArray[np.integer], samples: Sequence[NfdpSample], noise: NoiseSource) -> NDArray[np.int64]:
    """Draw the sample of each class c = 0, 1, ... among the records with that label; sorted indices into `labels`.

    Raises
    ------
    DataError
        If a class does not have the declared number of records.
    """
    labels = np.asarray(labels)
    drawn = []
    for c, sample in enumerate(samples):
        members = np.flatnonzero(labels == c)
        if len(members) != sample.n:
            raise DataError(f"labels: class {c} has {len(members)} records, {sample.n} were declared.")
        drawn.append(members[sample.draw(noise)])
    return np.sort(np.concatenate(drawn))
