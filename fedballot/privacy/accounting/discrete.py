"""Accounting for integer noise: sums of discrete Gaussians, one share per honest contributor.

A share is N_Z(0, s^2); `shares` of them have the total parameter sigma^2 = shares * s^2. Their sum is not a discrete
Gaussian, but its probabilities are within a factor exp(+-tau/2) of one (Kairouz, Liu and Steinke, "The distributed
discrete Gaussian mechanism for federated learning with secure aggregation", 2021). Worlds that differ in d coordinates
pay that d times each: an (epsilon, delta) of the discrete Gaussian becomes (epsilon + d tau, exp(d tau/2) delta).
"""

import math

import numpy as np

from fedballot.core.errors import SettingsError
from fedballot.privacy.accounting import gaussian

SMALLEST_SHARE = 2.0  # below it the correction above is no longer negligible
_DIRECT = 1e6  # variance up to which tails are summed term by term
_TERMS = 1_000_000  # of tau that are summed; all others are bounded by the last of them
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


def tau(share_sigma: float, shares: int) -> float:
    """Return tau = 10 sum_{0 < k < shares} exp(-2 pi^2 s^2 k/(k+1)) of Kairouz, Liu and Steinke (2021).

    Raises
    ------
    SettingsError
        If there is more than one share and share_sigma is below 1/2, where the theorem does not apply.
    """
    if shares > 1 and not share_sigma >= 0.5:
        raise SettingsError(f"share_sigma = {share_sigma}: a sum of discrete Gaussians needs at least 0.5.")
    k = np.arange(1.0, min(shares, _TERMS))
    terms = np.exp(-2 * (math.pi * share_sigma) ** 2 * k / (k + 1))
    rest = (shares - _TERMS) * float(terms[-1]) if shares > _TERMS else 0.0  # terms fall with k
    return 10 * (float(np.sum(terms)) + rest)


def check_share(share_sigma: float, shares: int) -> None:
    """Raise SettingsError unless the shares are large enough (2) for their sum to be as good as one draw."""
    gaussian.check_positive("share_sigma", share_sigma)
    if shares < 1:
        raise SettingsError(f"shares = {shares}: must be at least 1.")
    if shares > 1 and share_sigma < SMALLEST_SHARE * (1 - 1e-9):
        raise SettingsError(
            f"noise share of each contributor: sigma = {share_sigma:.4g} is below {SMALLEST_SHARE:g}, where integer "
            "noise no longer adds up to the noise that is accounted for; use more noise or fewer clients."
        )


def shares_that_came(arrived: int | None, min_clients: int, colluders: int) -> int:
    """Return how many secret noise shares are in a sum of `arrived` clients (None: those agreed on).

    Raises
    ------
    SettingsError
        If fewer arrived than were agreed on.
    """
    if arrived is not None and arrived < min_clients:
        raise SettingsError(f"arrived = {arrived}: a sum of fewer than {min_clients} clients must not be opened.")
    return (arrived or min_clients) - colluders


def epsilon_unit_shifts(delta: float, coordinates: int, share_sigma: float, shares: int = 1) -> float:
    """Return epsilon(delta) when the two worlds differ by +1 or -1 in each of `coordinates` integers.

    The log-likelihood ratio depends only on the sum of `coordinates` discrete Gaussians, which is one discrete
    Gaussian of parameter d sigma^2 up to exp(tau(sigma, d)/2); its tail is summed exactly, or bounded within about
    5/(d sigma^2) in epsilon. Never less than the value for continuous Gaussian noise.

    Raises
    ------
    SettingsError
        If delta is not in (0, 1) or the share is too small, see `check_share`.
    """
    check_share(share_sigma, shares)
    gaussian.check_delta(delta)
    sigma = share_sigma * math.sqrt(shares)
    if sigma < 1:  # coarse noise: the concentrated bound holds for any sigma
        return gaussian.epsilon_rdp(coordinates / (2 * sigma * sigma), delta)
    from scipy.optimize import brentq

    correction = coordinates * tau(share_sigma, shares)
    target = math.log(delta) - correction / 2
    exact = gaussian.epsilon(math.sqrt(coordinates) / sigma, delta)
    inflation = tau(sigma, coordinates) / 2

    def excess(epsilon: float) -> float:
        return _log_delta_unit_shifts(epsilon, coordinates, sigma) + inflation - target

    if excess(0.0) <= 0:
        return exact + correction
    high = max(exact, 1e-9)
    while excess(high) > 0:
        high *= 1.01
    root = float(brentq(excess, 0.0, high, xtol=1e-12, rtol=1e-12)) + 2e-12 * (1 + high)
    return max(exact, root) + correction


def epsilon_integer_shifts(
    delta: float, sensitivity: float, coordinates: int, share_sigma: float, shares: int = 1
) -> float:
    """Return epsilon(delta) when the worlds differ by any integer vector of L2 norm <= sensitivity in `coordinates`.

    A continuous Gaussian of variance sigma^2 - 2, rounded at random to the integers (by a discrete Gaussian of
    parameter 2 around it), is a discrete Gaussian of parameter sigma^2 up to exp(+-8.4 exp(-4 pi^2)) in each
    probability, by Poisson summation. That rounding commutes with integer shifts, so the continuous bound at
    sigma^2 - 2 carries over.

    Raises
    ------
    SettingsError
        As `epsilon_unit_shifts`.
    """
    check_share(share_sigma, shares)
    gaussian.check_delta(delta)
    gaussian.check_positive("sensitivity", sensitivity)
    variance = share_sigma**2 * shares
    if variance <= 2.5:
        return gaussian.epsilon_rdp(sensitivity**2 / (2 * variance), delta)
    mu, off = dominating(sensitivity, coordinates, share_sigma, shares)
    return gaussian.epsilon(mu, delta * math.exp(-off)) + 2 * off


def dominating(sensitivity: float, coordinates: int, share_sigma: float, shares: int = 1) -> tuple[float, float]:
    """Return (mu, off) of a Gaussian mechanism that is no more private, as `epsilon_integer_shifts` explains.

    If the Gaussian is (epsilon, delta)-DP then the integers are (epsilon + 2 off, exp(off) delta)-DP.

    Raises
    ------
    SettingsError
        If sigma^2 is not above 2, or the coordinates are so many that `off` exceeds 1.
    """
    variance = share_sigma**2 * shares
    off = coordinates * (tau(share_sigma, shares) / 2 + 8.4 * math.exp(-4 * math.pi**2))
    if variance <= 2 or off > 1:
        raise SettingsError(
            f"integer noise of sigma {math.sqrt(variance):.4g} on {coordinates} coordinates is too coarse to be "
            "compared with continuous noise; use more noise or a finer grid."
        )
    return sensitivity / math.sqrt(variance - 2), off


def _log_delta_unit_shifts(epsilon: float, coordinates: int, sigma: float) -> float:
    """Return ln sum_{x > epsilon sigma^2 - d/2} pmf(x) (1 - exp(epsilon - (x + d/2)/sigma^2)), or a bound above it."""
    variance = coordinates * sigma * sigma
    start = math.floor(epsilon * sigma * sigma - coordinates / 2) + 1
    if variance <= _DIRECT:
        # the rest of the tail, below e^-80 of its largest term, cannot be seen in double precision
        stop = math.ceil(math.sqrt(max(start, 0) ** 2 + 160 * variance)) + 2
        x = np.arange(max(start, -stop), stop + 1, dtype=np.float64)
        gain = -np.expm1(np.minimum(epsilon - (x + coordinates / 2) / (sigma * sigma), 0.0))
        peak = max(start, 0) ** 2 / (2 * variance)
        total = float(np.sum(np.exp(peak - x * x / (2 * variance)) * gain))
        return -math.inf if total == 0 else math.log(total) - peak - _LOG_SQRT_2PI - 0.5 * math.log(variance)
    from scipy.special import log_ndtr

    # a sum over integers against the integral over unit cells around them, each cell within these factors
    root = math.sqrt(variance)
    upper = float(log_ndtr(-(start - 0.5) / root)) + 1 / (8 * variance)
    second = start + coordinates
    lower = float(log_ndtr(-(second - 0.5) / root)) - (max(second, 0) ** 2 / variance + 80) / (24 * variance) - 1e-13
    gap = epsilon + lower - upper
    return upper if gap == -math.inf else min(upper, upper + math.log(-math.expm1(min(gap, -1e-18))))
