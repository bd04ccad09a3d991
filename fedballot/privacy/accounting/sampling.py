"""Renyi divergences of Gaussian noise on random cohorts."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


@lru_cache(maxsize=4096)
def poisson(q: float, multiplier: float, order: float) -> float:
    """Return that of one step on a Poisson sample: of whole orders, between them as the logarithm is convex.

    Source: Mironov, Talwar and Zhang, "Renyi differential privacy of the sampled Gaussian mechanism" (2019).

    Parameters
    ----------
    q : float
        Rate of sampling, in (0, 1].
    multiplier : float
        sigma / clipping bound.
    order : float
        Above 1.
    """
    whole = order / (2 * multiplier**2)  # everybody takes part
    if q == 1:
        return whole
    below = math.floor(order)
    at, above = (poisson_moment(q, multiplier, a) for a in (below, below + 1))
    bound = (at + (order - below) * (above - at)) / (order - 1)
    if order > below:
        bound = min(bound, _poisson_between(q, multiplier, order))
    return min(bound, whole)


def poisson_moment(q: float, multiplier: float, order: int) -> float:
    """Return ln E (ratio of densities)^order; what exceeds 1 is added up by itself, for it may be below 1e-16."""
    if order < 2:
        return 0.0
    from scipy.special import gammaln, logsumexp

    k = np.arange(2.0, order + 1)
    exponent = k * (k - 1) / (2 * multiplier**2)
    grows = exponent + np.log(-np.expm1(-exponent))
    ways = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    return float(np.logaddexp(0.0, logsumexp(ways + k * math.log(q) + (order - k) * math.log1p(-q) + grows)))


def _poisson_between(q: float, multiplier: float, order: float) -> float:
    import dp_accounting as dpa
    from dp_accounting.rdp import RdpAccountant

    library = RdpAccountant([order])
    library.compose(dpa.PoissonSampledDpEvent(q, dpa.GaussianDpEvent(multiplier)))
    return max(0.0, float(library.rdp[0])) + 1e-12 / (order - 1)  # a difference of numbers of order one


@lru_cache(maxsize=64)
def cohort(n: int, m: int, multiplier: float, orders: tuple[float, ...]) -> NDArray[np.float64]:
    """Return that of one step on exactly m of n units, replace-one, at each of the orders.

    Parameters
    ----------
    multiplier : float
        sigma / (2 clipping bound).
    orders : tuple of float
        Above 1.
    """
    import dp_accounting as dpa
    from dp_accounting.rdp import RdpAccountant

    library = RdpAccountant(orders, dpa.NeighboringRelation.REPLACE_ONE)
    library.compose(dpa.SampledWithoutReplacementDpEvent(n, m, dpa.GaussianDpEvent(multiplier)))
    return np.asarray(np.maximum(library.rdp, 0.0) + 1e-15)
