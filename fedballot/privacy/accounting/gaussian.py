"""The Gaussian mechanism, exactly: delta, epsilon and sigma from each other.

Everything is in terms of mu = L2 sensitivity / sigma, the sensitivity being that of the declared adjacency. Releases
compose to one with mu = sqrt(sum of mu_i^2). Source: Balle and Wang, "Improving the Gaussian mechanism for differential
privacy" (2018), Theorem 8.
"""

import math

import numpy as np

from fedballot.core.errors import SettingsError

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)


def check_epsilon(epsilon: float) -> None:
    """Raise SettingsError unless epsilon is finite and >= 0."""
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise SettingsError(f"epsilon = {epsilon}: must be a finite number >= 0.")


def check_delta(delta: float) -> None:
    """Raise SettingsError unless 0 < delta < 1."""
    if not 0 < delta < 1:
        raise SettingsError(f"delta = {delta}: must lie strictly between 0 and 1, for example 1e-5.")


def check_positive(name: str, value: float) -> None:
    """Raise SettingsError unless `value` is finite and > 0."""
    if not (math.isfinite(value) and value > 0):
        raise SettingsError(f"{name} = {value}: must be a finite number > 0.")


def log_delta(mu: float, epsilon: float) -> float:
    """Return ln delta(epsilon) of a Gaussian mechanism with sensitivity / sigma = mu.

    Parameters
    ----------
    mu : float
        > 0.
    epsilon : float
        >= 0.

    Returns
    -------
    float
        Accurate relative to delta itself for mu from 1e-12 to 1e4 and delta down to 1e-300 and below.
    """
    check_positive("mu", mu)
    check_epsilon(epsilon)
    low, high = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if low < -1 and mu > 1:  # delta is of order one
        from scipy.special import ndtr

        lost = math.exp(-low * low / 2 - _LOG_SQRT_2PI) * _mills(high)
        return math.log(float(ndtr(-low)) - lost)
    if mu > 0.1:
        gap = _mills(low) - _mills(high)
    else:  # the two Mills ratios nearly cancel: integrate the derivative instead
        points = (low + high) / 2 + mu / 2 * _NODES
        gap = mu / 2 * sum(w * _mills_slope(t) for w, t in zip(_WEIGHTS, points, strict=True))
    if gap <= 0:  # beyond the range of doubles: the leading term of the tail
        gap = mu / (low * high)
    return min(0.0, -low * low / 2 - _LOG_SQRT_2PI + math.log(gap))


def delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta for which mu is (epsilon, delta)-DP (0 where it underflows)."""
    return math.exp(log_delta(mu, epsilon))


def epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 for which mu is (epsilon, delta)-DP."""
    from scipy.optimize import brentq

    check_positive("mu", mu)
    check_delta(delta)
    target = math.log(delta)
    if log_delta(mu, 0.0) <= target:
        return 0.0
    high = epsilon_rdp_classic(mu * mu / 2, delta)  # a valid bound, hence a bracket
    root = float(brentq(lambda e: log_delta(mu, e) - target, 0.0, high * 1.001, xtol=1e-300, rtol=1e-14))
    while log_delta(mu, root) > target:
        root *= 1 + 4e-15
    return root


def mu(epsilon: float, delta: float) -> float:
    """Return the largest sensitivity / sigma that is (epsilon, delta)-DP."""
    from scipy.optimize import brentq

    check_epsilon(epsilon)
    check_delta(delta)
    target, log_inv = math.log(delta), -math.log(delta)
    low = max(math.sqrt(2) * epsilon / (math.sqrt(epsilon + log_inv) + math.sqrt(log_inv)) * 0.999, delta)
    high = 2 * low
    while log_delta(high, epsilon) <= target:
        high *= 2
    root = math.exp(
        brentq(
            lambda x: log_delta(math.exp(x), epsilon) - target, math.log(low), math.log(high), xtol=1e-15, rtol=1e-14
        )
    )
    while log_delta(root, epsilon) > target:
        root *= 1 - 4e-15
    return root


def sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """Return the smallest sigma that makes an L2 sensitivity (epsilon, delta)-DP."""
    check_positive("sensitivity", sensitivity)
    return sensitivity / mu(epsilon, delta)


def classical_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """Return Delta sqrt(2 ln(1.25/delta)) / epsilon, only to reproduce papers: `sigma` is smaller and always valid.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy" (2014), Theorem A.1.

    Raises
    ------
    SettingsError
        Unless epsilon is below 1, where the theorem applies.
    """
    check_positive("epsilon", epsilon)
    check_delta(delta)
    if epsilon >= 1:
        raise SettingsError(f"epsilon = {epsilon}: the classical Gaussian is proved for epsilon below 1; use sigma().")
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def compose_mu(*mus: float) -> float:
    """Return the mu of releasing all: Gaussian mechanisms on the same data compose to one."""
    return math.sqrt(math.fsum(m * m for m in mus))


def epsilon_rdp(rho: float, delta: float) -> float:
    """Return epsilon from Renyi DP alpha * rho for every alpha > 1, improved conversion.

    epsilon = min over alpha of alpha rho + ln(1 - 1/alpha) - ln(alpha delta)/(alpha - 1). Source: Canonne, Kamath and
    Steinke, "The discrete Gaussian for differential privacy" (2020), Proposition 12. Valid for any rho-concentrated
    mechanism, not for the Gaussian alone.
    """
    check_positive("rho", rho)
    check_delta(delta)
    start = math.log(math.sqrt(-math.log(delta) / rho))
    grid = np.linspace(start - 12, start + 6, 181)
    values = [_improved(x, rho, delta) for x in grid]
    best = int(np.argmin(values))
    left, right = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    for _ in range(80):  # golden section; every alpha gives a valid bound
        a, b = left + 0.381966 * (right - left), left + 0.618034 * (right - left)
        left, right = (left, b) if _improved(a, rho, delta) < _improved(b, rho, delta) else (a, right)
    return max(0.0, min(values[best], _improved((left + right) / 2, rho, delta)))


def epsilon_rdp_classic(rho: float, delta: float) -> float:
    """Return epsilon from Renyi DP alpha * rho, Mironov's conversion: rho + 2 sqrt(rho ln(1/delta))."""
    check_positive("rho", rho)
    check_delta(delta)
    return rho + 2 * math.sqrt(-rho * math.log(delta))


def rho_rdp(epsilon: float, delta: float) -> float:
    """Return the largest rho whose `epsilon_rdp` is at most epsilon (> 0)."""
    from scipy.optimize import brentq

    check_positive("epsilon", epsilon)
    check_delta(delta)
    high = mu(epsilon, delta) ** 2  # the exact bound is rho = mu^2 / 2
    low = high
    while epsilon_rdp(low, delta) > epsilon:
        low /= 2
    return float(brentq(lambda r: epsilon_rdp(r, delta) - epsilon, low, high, rtol=1e-12))


def _improved(log_alpha_minus_1: float, rho: float, delta: float) -> float:
    gap = math.exp(log_alpha_minus_1)
    alpha = 1 + gap
    return alpha * rho + math.log(gap / alpha) - (math.log(alpha) + math.log(delta)) / gap


def _mills(t: float) -> float:
    """Return P(Z > t) / density(t) of a standard normal."""
    from scipy.special import erfcx

    return math.sqrt(math.pi / 2) * float(erfcx(t / math.sqrt(2)))


def _mills_slope(t: float) -> float:
    """Return -d/dt of the Mills ratio, 1 - t R(t), without cancellation."""
    if t < 3:
        return 1 - t * _mills(t)
    tail = t
    for k in range(80, 1, -1):  # Laplace's continued fraction
        tail = t + k / tail
    return (1 / tail) * _mills(t)
