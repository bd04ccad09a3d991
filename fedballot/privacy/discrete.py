"""Exact accounting for integer noise: sums of discrete Gaussians, one share per honest contributor.

A share is N_Z(0, s^2); `shares` of them add up to a total parameter sigma^2 = shares * s^2. The sum is not a discrete
Gaussian, but its probabilities are within a factor exp(+-tau/2) of one (Kairouz, Liu and Steinke, "The distributed
discrete Gaussian mechanism for federated learning with secure aggregation", 2021, Theorem 9), and two worlds that differ
in d coordinates cost that correction d times in each world: (epsilon, delta) becomes (epsilon + d tau, e^(d tau/2) delta).
"""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from fedballot.errors import SettingsError
from fedballot.privacy import gaussian

SMALLEST_SHARE = 2.0  # below it the correction above is no longer negligible
_LONGEST_SUM = 2_000_000
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


def tau(share_sigma: float, shares: int) -> float:
    """Return tau of Kairouz, Liu and Steinke (2021): 10 sum_{k < shares} exp(-2 pi^2 s^2 k/(k+1)).

    Raises
    ------
    SettingsError
        If share_sigma is below 1/2, where the theorem does not apply, and there is more than one share.
    """
    if shares > 1 and not share_sigma >= 0.5:
        raise SettingsError(f"share_sigma = {share_sigma}: sums of discrete Gaussians need at least 0.5.")
    exponent = -2 * math.pi**2 * share_sigma**2
    head = math.fsum(math.exp(exponent * k / (k + 1)) for k in range(1, min(shares, 1000)))
    return 10 * (head + max(shares - 1000, 0) * math.exp(exponent * 1000 / 1001) * math.exp(0))


