"""A noisy histogram of where records lie: each in one of some public cells or far from all, and near or far by class.

Two lists are told of each client. The first counts its records in each of B cells, and those that are far from all of
them; the second counts the near ones of each of C classes, then the far ones. A record stands in one place of either
list. So replacing one, the number of records being public, moves at most four counts by one: L2 norm 2.

For ledgers about clients a histogram is scaled so that either list adds up to a public number of steps, whatever the
client holds. Without the client (zero-out) the sum loses steps * (p, q), where p and q are shares that add up to 1
each: L2 norm at most steps sqrt(2), which is reached where all records lie in one place. Another client in its place,
or another record of a client that holds one only, moves it by 2 steps at most.

Source: ours; noise and accounting as in `votes`.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError, SettingsError
from fedballot.privacy.accounting import IntegerCost, check_records, discrete, gaussian, shares_that_came
from fedballot.privacy.accounting.search import smallest_from
from fedballot.privacy.guarantee import SELF, TRUSTED_AGGREGATOR, Guarantee, Unit, all_records, secure_aggregation
from fedballot.privacy.mechanism import Mechanism, WorstCase
from fedballot.privacy.noise.randomness import NoiseSource
from fedballot.privacy.noise.samplers import discrete_gaussian, largest_draw, representable_variance

LISTS = 2  # in each of which a record stands in one place
AUDIT_DELTA = 1e-5  # at which an audit asks what the worst case costs


@dataclass(frozen=True)
class NoisyHistogram(Mechanism):
    """One release of the histograms, added up over clients.

    Parameters
    ----------
    cells, classes : int
        B and C, public.
    sigma : float
        Standard deviation of the noise on each count of the sum, in records, or in steps.
    min_clients, colluders : int
        As in `NoisyVotes`: min_clients - colluders shares of the noise are sure to be in the sum and secret.
    steps : int
        To which either list of a client adds up; 0: lists count records.

    Raises
    ------
    SettingsError
        For values out of range, and for noise shares below 2, where integer noise does not add up as accounted.
    """

    cells: int
    classes: int
    sigma: float
    min_clients: int
    colluders: int = 0
    steps: int = 0

    def __post_init__(self) -> None:
        if self.cells < 1 or self.classes < 1 or self.steps < 0:
            raise SettingsError(
                f"cells = {self.cells}, classes = {self.classes}, steps = {self.steps}: must be at least 1, 1 and 0."
            )
        if not 0 <= self.colluders < self.min_clients:
            raise SettingsError(
                f"colluders = {self.colluders}: must be at least 0 and below min_clients, {self.min_clients}."
            )
        gaussian.check_positive("sigma", self.sigma)
        discrete.check_share(self.share_sigma, self.honest)

    @property
    def entries(self) -> int:
        """Counts that are released: B + 1 of the first list, 2 C of the second."""
        return self.cells + 1 + 2 * self.classes

    @property
    def honest(self) -> int:
        """Number of noise shares that are sure to be in the sum and unknown to the adversary."""
        return self.min_clients - self.colluders

    @property
    def share_variance(self) -> Fraction:
        """Parameter s^2 of each client's discrete Gaussian share: sigma^2 / honest, rounded up."""
        return representable_variance(self.sigma / math.sqrt(self.honest))

    @property
    def share_sigma(self) -> float:
        """Square root of `share_variance`."""
        return math.sqrt(self.share_variance)

    def largest(self, records: int) -> int:
        """Largest magnitude of a client's integers, if it counts at most this many records; see `largest_draw`."""
        return (self.steps or records) + largest_draw(self.share_variance)

    def cost(self, unit: Unit = "record", records_per_person: int = 1) -> IntegerCost | None:
        """Return what the release costs towards whoever sees the sum.

        Where records are counted, nothing bounds what a client adds: None. Of a person's b records each moves the
        counts by 2 at most.
        """
        check_records(records_per_person)
        if self.steps:
            reach = self.steps * (math.sqrt(LISTS) if unit == "client" else 2.0)
            return IntegerCost(reach, self.entries, self.share_sigma, self.honest)
        if unit == "client":
            return None
        moved = records_per_person if unit == "person" else 1
        places = min(2 * LISTS * moved, self.entries)
        return IntegerCost(2.0 * moved, places, self.share_sigma, self.honest, unit_shifts=moved == 1)

    def epsilon(self, delta: float, unit: Unit, records_per_person: int = 1) -> float:
        """Return epsilon for whoever sees the sum; infinite where nothing is protected."""
        cost = self.cost(unit, records_per_person)
        return math.inf if cost is None else cost.epsilon(delta)

    @classmethod
    def solve(
        cls,
        epsilon: float,
        delta: float,
        *,
        cells: int,
        classes: int,
        min_clients: int,
        colluders: int = 0,
        steps: int = 0,
    ) -> "NoisyHistogram":
        """Return the mechanism with the smallest sigma whose epsilon is at most the target.

        The target is about clients where histograms are scaled to `steps`, else about records. Where it needs less
        noise than integer shares allow, the smallest allowed sigma is taken.
        """
        gaussian.check_positive("epsilon", epsilon)
        unit: Unit = "client" if steps else "record"
        start = cls(cells, classes, 1e6 * math.sqrt(min_clients), min_clients, colluders, steps)
        low = gaussian.sigma(steps * math.sqrt(LISTS) if steps else 2.0, epsilon, delta)
        if start.honest > 1:
            low = max(low, discrete.SMALLEST_SHARE * math.sqrt(start.honest))

        def fits(sigma: float) -> bool:
            return replace(start, sigma=sigma).epsilon(delta, unit) <= epsilon

        return replace(start, sigma=smallest_from(fits, low))

    def release(self, counts: NDArray[np.integer], noise: NoiseSource) -> NDArray[np.int64]:
        """Add one client's noise share to its histogram, int (entries,).

        Raises
        ------
        DataError
            If the lists do not add up to the same, hold fewer than nothing, or are scaled to something else than
            `steps`; all zero is a blank answer.
        """
        counts = np.asarray(counts)
        if counts.shape != (self.entries,) or not np.issubdtype(counts.dtype, np.integer):
            raise DataError(f"counts: expected {self.entries} integers, got {counts.dtype} {counts.shape}.")
        first, second = int(counts[: self.cells + 1].sum()), int(counts[self.cells + 1 :].sum())
        if counts.min() < 0 or first != second or (self.steps and first not in (0, self.steps)):
            wanted = f"0 or {self.steps}" if self.steps else "the same number of records"
            raise DataError(f"counts: lists add up to {first} and {second}; expected counts >= 0 and {wanted} in both.")
        return counts + discrete_gaussian(self.share_variance, counts.size, noise)

    def worst_case(self) -> WorstCase:
        """A client with all its records in one place, or none; or one record near in one world, far in the other."""
        inside, outside = np.zeros((2, self.entries), dtype=np.int64)
        inside[[0, self.cells + 1]] = self.steps or 1
        if not self.steps:
            outside[[self.cells, self.entries - 1]] = 1
        apart = inside - outside
        cost = self.cost("client" if self.steps else "record")
        assert cost is not None
        claim = cost.epsilon(AUDIT_DELTA)
        return WorstCase(inside, outside, lambda seen: float(seen @ apart), claim, AUDIT_DELTA, self.honest)

    def guarantees(
        self,
        delta: float,
        *,
        secure: bool = False,
        arrived: int | None = None,
        seeded: bool = False,
        clients: int | None = None,
        records: int | None = None,
        largest: int | None = None,
        records_per_person: int | None = None,
    ) -> list[Guarantee]:
        """Return every statement that a report has to make about this release; parameters as `NoisyVotes.guarantees`.

        Returns
        -------
        list of Guarantee
            Of the sum, client level (where histograms are scaled) and record level; without secure aggregation also of
            what the server sees of one client, which has that client's noise only.
        """
        came = shares_that_came(arrived, self.min_clients, self.colluders)
        units: list[Unit] = ["client", "record"] if self.steps else ["record"]
        if records_per_person is not None:
            units.append("person")
        rows = []
        for unit in units:
            rows.append(
                Guarantee(
                    mechanism="noisy counts of records by public cell and by class"
                    + (f", each client's scaled to {self.steps} steps" if self.steps else ""),
                    unit=unit,
                    adjacency="zero-out" if unit == "client" else "replace-one",
                    epsilon=self._epsilon_of(came, delta, unit, records_per_person or 1),
                    delta=delta,
                    view="server's view" if secure else "output only",
                    trust=secure_aggregation(self.min_clients, self.colluders) if secure else TRUSTED_AGGREGATOR,
                    status="seeded" if seeded else "proved",
                    accountant="exact (sum of discrete Gaussians)",
                    n={"client": clients, "record": records}.get(unit),
                    composition="one release"
                    + (f", with the noise of {arrived} clients" if came > self.honest else "")
                    + (f"; {all_records(records_per_person or 1)}" if unit == "person" else ""),
                )
            )
            if not secure and (unit != "record" or not self.steps):
                # whoever sees a client's own answer sees a blank one, too: its worlds are two answers, not one and none
                alone = self._epsilon_of(1, delta, "record" if unit == "client" else unit, records_per_person or 1)
                own = replace(rows[-1], adjacency="replace-one", epsilon=alone, view="server's view", trust=SELF)
                rows.append(
                    replace(own, mechanism="one client's own noisy counts", n=largest if unit == "record" else own.n)
                )
        return rows

    def _epsilon_of(self, shares: int, delta: float, unit: Unit, records_per_person: int) -> float:
        """Epsilon with the noise of so many clients."""
        return replace(self, min_clients=shares, colluders=0, sigma=self.share_sigma * math.sqrt(shares)).epsilon(
            delta, unit, records_per_person
        )
