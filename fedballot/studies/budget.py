"""The planner's question, answered without running anything: how much noise, what it protects, how many votes it buys.

Every figure stands three times: with the exact accounting that fedballot uses, and with the accounting of "Voting-based
approaches for differentially private federated learning", Theorem 3, under two conversions from Renyi DP.
"""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import SettingsError
from fedballot.privacy import accounting
from fedballot.privacy.accounting import discrete, gaussian
from fedballot.privacy.accounting.papers import votes_rho
from fedballot.privacy.guarantee import Unit
from fedballot.privacy.mechanisms.votes import NoisyVotes

Route = Literal["exact", "renyi", "mironov"]
LEVELS: tuple[Unit, ...] = ("client", "record")
ROUTES: dict[Route, str] = {
    "exact": "exact (ours)",
    "renyi": "Rényi, best conversion",
    "mironov": "Rényi, Mironov's conversion (cited in PATE-FL's paper)",
}
MOST = 1_000_000  # votes are counted up to here
LEAST = 1e-9  # target: below it the Renyi routes leave the range of doubles
COUNTED: dict[accounting.Accountant, int] = {"exact": 1000, "rdp": 1000, "pld": 50}  # "pld" takes seconds each
_POINTS = 49
_SPAN = 5.0  # curves reach from a fifth of the plan's value to five times it


@dataclass(frozen=True)
class Row:
    """What one accountant says about one level of protection.

    Parameters
    ----------
    unit : {"client", "record"}
    route : {"exact", "renyi", "mironov"}
    epsilon : float
        Of the plan, at its noise.
    sigma : float
        Least noise on each sum that keeps the plan's votes within the target.
    saved : float
        Share of that noise that exact accounting does without, 0 to 1.
    votes : int
        Most votes of one client within the target at the plan's noise, counted up to a million.
    queries : int
        The same in queries, while a client answers the plan's share of them.
    """

    unit: Unit
    route: Route
    epsilon: float
    sigma: float
    saved: float
    votes: int
    queries: int


@dataclass(frozen=True)
class Plan:
    """A release of noisy votes and what every accountant says about it.

    Parameters
    ----------
    noisy : NoisyVotes
    delta : float
    unit : {"client", "record"}
        Whom the target protects.
    target : float
        The epsilon that is allowed; without one, what the noise gives.
    rows : tuple of Row
        Both levels, by all routes.
    server_epsilon : float
        Of a client's or a record's replacement, towards a server that sees every answer with that client's share only.
    """

    noisy: NoisyVotes
    delta: float
    unit: Unit
    target: float
    rows: tuple[Row, ...]
    server_epsilon: float

    @property
    def fits(self) -> bool:
        """Whether the plan keeps to its target."""
        return self.row(self.unit, "exact").epsilon <= self.target

    @property
    def at_smallest_noise(self) -> bool:
        """Whether the noise cannot be made smaller, for integer shares below 2 do not add up as accounted."""
        return self.noisy.honest > 1 and self.noisy.share_sigma < discrete.SMALLEST_SHARE * (1 + 1e-6)

    def row(self, unit: Unit, route: Route) -> Row:
        """Return the row of that level and accountant."""
        return next(row for row in self.rows if (row.unit, row.route) == (unit, route))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        noisy = self.noisy
        return {
            "queries": noisy.queries,
            "max_votes": noisy.max_votes,
            "min_clients": noisy.min_clients,
            "colluders": noisy.colluders,
            "delta": self.delta,
            "unit": self.unit,
            "target_epsilon": self.target,
            "fits": self.fits,
            "sigma": noisy.sigma,
            "share_sigma": noisy.share_sigma,
            "at_smallest_noise": self.at_smallest_noise,
            "server_epsilon_without_secure_aggregation": self.server_epsilon,
            "rows": [asdict(row) for row in self.rows],
        }


def make_plan(noisy: NoisyVotes, delta: float, unit: Unit, target: float | None = None) -> Plan:
    """Work out a plan.

    Parameters
    ----------
    noisy : NoisyVotes
        With the noise that is to be used.
    delta : float
    unit : {"client", "record"}
    target : float, optional
        Epsilon that is allowed at that level; None takes what the noise gives.

    Raises
    ------
    SettingsError
        If the target or delta is out of range.
    """
    aim = noisy.epsilon(delta, unit) if target is None else target
    if not aim >= LEAST:
        raise SettingsError(
            f"epsilon = {aim:.3g} is below {LEAST:g}, where plans start: give a larger one, or less noise."
        )
    rows = tuple(_row(noisy, delta, level, route, aim) for level in LEVELS for route in ROUTES)
    return Plan(noisy, delta, unit, aim, rows, noisy.cost_alone().epsilon(delta))


def epsilon(noisy: NoisyVotes, delta: float, unit: Unit, route: Route) -> float:
    """Return epsilon of a release by any of the accountants."""
    if route == "exact":
        return noisy.epsilon(delta, unit)
    rho = votes_rho(unit, noisy.max_votes, noisy.sigma, noisy.k)
    return (gaussian.epsilon_rdp if route == "renyi" else gaussian.epsilon_rdp_classic)(rho, delta)


def largest_rho(target: float, delta: float, route: Route) -> float:
    """Return the largest rho, Renyi DP being alpha * rho, that a conversion lets through at the target epsilon."""
    if route == "renyi":
        return gaussian.rho_rdp(target, delta)
    log_inv = -math.log(delta)  # rho + 2 sqrt(rho ln(1/delta)) = epsilon, solved for sqrt(rho)
    return (target / (math.sqrt(log_inv + target) + math.sqrt(log_inv))) ** 2


def _row(noisy: NoisyVotes, delta: float, unit: Unit, route: Route, target: float) -> Row:
    shape = {"queries": noisy.queries, "max_votes": noisy.max_votes}
    least = (
        type(noisy)
        .solve(target, delta, **shape, min_clients=noisy.min_clients, colluders=noisy.colluders, k=noisy.k, unit=unit)
        .sigma
    )
    if route == "exact":
        sigma = least
        votes = accounting.largest_count(lambda m: _voting(noisy, m).epsilon(delta, unit) <= target, limit=MOST)
    else:
        rho = largest_rho(target, delta, route)
        # integer shares have a smallest size whatever the accountant
        sigma = max(math.sqrt(votes_rho(unit, noisy.max_votes, 1.0, noisy.k) / rho), smallest_sigma(noisy))
        votes = min(MOST, math.floor(rho / votes_rho(unit, 1, noisy.sigma, noisy.k) + 1e-9))
    queries = (votes + 1) * noisy.queries // noisy.max_votes  # most queries of whose share a client casts `votes`
    queries -= (votes + 1) * noisy.queries % noisy.max_votes == 0
    saved = max(0.0, 1 - least / sigma)
    return Row(unit, route, epsilon(noisy, delta, unit, route), sigma, saved, votes, queries if votes else 0)


def smallest_sigma(noisy: NoisyVotes) -> float:
    """Return the smallest noise on the sum that integer shares allow, 0 where there is one share only."""
    return discrete.SMALLEST_SHARE * math.sqrt(noisy.honest) / noisy.ballot if noisy.honest > 1 else 0.0


def _voting(noisy: NoisyVotes, votes: int) -> NoisyVotes:
    return replace(noisy, queries=votes, max_votes=votes)


@dataclass(frozen=True)
class Curve:
    """Epsilon against one quantity, all else as in the plan, at the plan's level.

    Parameters
    ----------
    at : float
        The plan's own value.
    x : ndarray of float64, shape (n,)
    lines : dict of route to ndarray of float64, shape (n,)
        Epsilon; NaN where the noise cannot be released.
    other : ndarray of float64, shape (n,)
        Exact epsilon of the other level.
    """

    at: float
    x: NDArray[np.float64]
    lines: dict[Route, NDArray[np.float64]]
    other: NDArray[np.float64]


def noise_curve(plan: Plan) -> Curve:
    """Return epsilon against the noise on each sum."""
    sigmas = plan.noisy.sigma * np.geomspace(1 / _SPAN, _SPAN, _POINTS)
    return _curve(plan, plan.noisy.sigma, sigmas, [_try(plan.noisy, sigma=float(sigma)) for sigma in sigmas])


def votes_curve(plan: Plan) -> Curve:
    """Return epsilon against the number of votes of each client."""
    most = plan.noisy.max_votes
    votes = np.unique(np.geomspace(max(1.0, most / _SPAN), max(most * _SPAN, 10.0), _POINTS).round().astype(int))
    return _curve(plan, most, votes, [_voting(plan.noisy, int(count)) for count in votes])


def clients_curve(plan: Plan) -> Curve:
    """Return epsilon against the number of clients, with noise in proportion to it: the tally is equally clear."""
    noisy = plan.noisy
    counts = np.unique(np.geomspace(max(1.0, noisy.min_clients / _SPAN), noisy.min_clients * _SPAN, _POINTS).round())
    many = [
        _try(
            noisy,
            sigma=noisy.sigma * float(count) / noisy.min_clients,
            min_clients=int(count),
            colluders=noisy.colluders * int(count) // noisy.min_clients,
        )
        for count in counts
    ]
    return _curve(plan, noisy.min_clients, counts, many)


def _try(noisy: NoisyVotes, **changes: Any) -> NoisyVotes | None:
    """Return the changed mechanism, or None where its shares would be too small."""
    try:
        return replace(noisy, **changes)
    except SettingsError:
        return None


def _curve(plan: Plan, at: float, x: NDArray[Any], many: list[NoisyVotes | None]) -> Curve:
    def line(unit: Unit, route: Route) -> NDArray[np.float64]:
        return np.array([math.nan if one is None else epsilon(one, plan.delta, unit, route) for one in many])

    other: Unit = "record" if plan.unit == "client" else "client"
    lines = {route: line(plan.unit, route) for route in ROUTES}
    return Curve(at, x.astype(np.float64), lines, line(other, "exact"))
