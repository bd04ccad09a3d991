"""What a release costs, as data apart from the accountants that add it up.

Every cost is already divided by the sensitivity of the declared adjacency. Costs of different units or adjacencies must
not be added; `guarantee.combine` and the ledger refuse that.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, get_args

from fedballot.core.errors import DataError, SettingsError
from fedballot.privacy.accounting import discrete, gaussian


def _check_count(name: str, value: int) -> None:
    if value < 1:
        raise SettingsError(f"{name} = {value}: must be at least 1.")


def check_records(records_per_person: int) -> None:
    """Raise SettingsError unless the bound on the records of one person is at least 1."""
    if records_per_person < 1:
        raise SettingsError(f"records_per_person = {records_per_person}: must be at least 1.")


def shares_that_came(arrived: int | None, contributors: int, colluders: int) -> int:
    """Return how many secret noise shares are in a sum of `arrived` clients (None: those agreed on).

    Raises
    ------
    SettingsError
        If fewer arrived than were agreed on.
    """
    if arrived is not None and arrived < contributors:
        raise SettingsError(f"arrived = {arrived}: a sum of fewer than {contributors} clients must not be opened.")
    return (arrived or contributors) - colluders


@dataclass(frozen=True)
class GaussianCost:
    """`count` releases with continuous Gaussian noise; mu = L2 sensitivity / sigma."""

    mu: float
    count: int = 1

    def __post_init__(self) -> None:
        gaussian.check_positive("mu", self.mu)
        _check_count("count", self.count)


@dataclass(frozen=True)
class IntegerCost:
    """A release with a sum of `shares` discrete Gaussians of parameter `share_sigma`^2.

    Parameters
    ----------
    sensitivity : float
        L2, in integer steps.
    coordinates : int
        How many integers can differ between the two worlds.
    unit_shifts : bool
        Whether each of them differs by at most 1, and sensitivity = sqrt(coordinates): then the accounting is exact.
    """

    sensitivity: float
    coordinates: int
    share_sigma: float
    shares: int = 1
    unit_shifts: bool = False

    def __post_init__(self) -> None:
        gaussian.check_positive("sensitivity", self.sensitivity)
        _check_count("coordinates", self.coordinates)
        discrete.check_share(self.share_sigma, self.shares)

    def dominating(self) -> tuple[float, float]:
        """Return (mu, off): no worse than a Gaussian of that mu whose probabilities are off by at most exp(+-off)."""
        return discrete.dominating(self.sensitivity, self.coordinates, self.share_sigma, self.shares)

    def concentrated(self) -> tuple[float, float]:
        """Return (mu, off): Renyi divergences of no more than a Gaussian of that mu, but for exp(+-off).

        Source: Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (2020), Theorem 4.
        """
        off = self.coordinates * discrete.tau(self.share_sigma, self.shares) / 2
        return self.sensitivity / (self.share_sigma * math.sqrt(self.shares)), off

    def epsilon(self, delta: float) -> float:
        """Return epsilon of this release alone."""
        if self.unit_shifts:
            return discrete.epsilon_unit_shifts(delta, self.coordinates, self.share_sigma, self.shares)
        return discrete.epsilon_integer_shifts(delta, self.sensitivity, self.coordinates, self.share_sigma, self.shares)


@dataclass(frozen=True)
class LaplaceCost:
    """`count` releases with continuous Laplace noise; ratio = L1 sensitivity / scale, which is the pure epsilon."""

    ratio: float
    count: int = 1

    def __post_init__(self) -> None:
        gaussian.check_positive("ratio", self.ratio)
        _check_count("count", self.count)


@dataclass(frozen=True)
class PureCost:
    """`count` releases of any kind that are each (epsilon, 0)-DP."""

    epsilon: float
    count: int = 1

    def __post_init__(self) -> None:
        gaussian.check_positive("epsilon", self.epsilon)
        _check_count("count", self.count)


@dataclass(frozen=True)
class PoissonCost:
    """`steps` Gaussian releases, each on a fresh Poisson sample of rate q; add-remove or zero-out.

    Parameters
    ----------
    q : float
        Probability, independent for each unit and step, of taking part; 0 < q <= 1. Shuffled batches do not qualify.
    multiplier : float
        sigma / clipping bound.
    """

    q: float
    multiplier: float
    steps: int

    def __post_init__(self) -> None:
        if not 0 < self.q <= 1:
            raise SettingsError(f"q = {self.q}: a sampling probability lies in (0, 1].")
        gaussian.check_positive("multiplier", self.multiplier)
        _check_count("steps", self.steps)


@dataclass(frozen=True)
class CohortCost:
    """`steps` Gaussian releases, each on a fresh cohort of exactly m of n units; replace-one.

    Parameters
    ----------
    multiplier : float
        sigma / (2 clipping bound): replacing a unit moves a clipped sum by twice the bound.
    """

    n: int
    m: int
    multiplier: float
    steps: int

    def __post_init__(self) -> None:
        if not 0 < self.m <= self.n:
            raise SettingsError(f"m = {self.m}: a cohort has between 1 and n = {self.n} members.")
        gaussian.check_positive("multiplier", self.multiplier)
        _check_count("steps", self.steps)


@dataclass(frozen=True)
class DeltaCost:
    """A release that is exactly (0, delta)-DP: with probability delta everything about one unit may come out."""

    delta: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.delta) and 0 <= self.delta <= 1):
            raise SettingsError(f"delta = {self.delta}: must lie in [0, 1].")


Cost: TypeAlias = GaussianCost | IntegerCost | LaplaceCost | PureCost | PoissonCost | CohortCost | DeltaCost
_BY_NAME = {kind.__name__: kind for kind in get_args(Cost)}


def to_plain(cost: Cost) -> dict[str, Any]:
    """Return JSON values from which `from_plain` restores the same cost, bit for bit."""
    return {"type": type(cost).__name__, **asdict(cost)}


def from_plain(plain: Mapping[str, Any]) -> Cost:
    """Restore a cost.

    Raises
    ------
    DataError
        If this is no cost that this version knows.
    """
    fields = dict(plain)
    name = fields.pop("type", None)
    try:
        cost: Cost = _BY_NAME[name](**fields)
    except (KeyError, TypeError, SettingsError) as error:
        raise DataError(f"cost {dict(plain)}: not one of {', '.join(_BY_NAME)} ({error}).") from error
    return cost
