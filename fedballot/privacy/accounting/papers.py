"""Formulas exactly as the papers print them, to reproduce their tables. None is used to protect anybody."""

import math

import numpy as np
from numpy.typing import NDArray

from fedballot.privacy.guarantee import Unit

# "Voting-based approaches for differentially private federated learning"


def votes_rho(unit: Unit, queries: int, sigma: float, k: int | None = None) -> float:
    """Return rho, Renyi DP being alpha * rho, of `queries` noisy votes: Theorem 3.

    Client Q/(2 sigma^2), record Q/sigma^2, with kNN Q/(k sigma^2). All hold; the last is loose by a factor k.
    """
    if unit == "client":
        return queries / (2 * sigma**2)
    return queries / ((k or 1) * sigma**2)


def votes_data_dependent(
    alpha: float, clients: int, margin: float, sigma: float, classes: int, s: float = 1.0
) -> float:
    """Return the data-dependent Renyi bound of Theorem 5, with sigma and s the right way up; it does NOT hold.

    Counterexample: votes 40:10 against 41:10, sigma 2, alpha 32 have divergence 1.92, the formula says 1.3e-4.
    """
    gap = clients**2 * margin**2 / sigma**2
    exponent = (2 * alpha - 1) * s**2 / (2 * sigma**2) - gap / 16 + math.log(classes)
    return classes * math.exp(-gap / 8) + math.log1p(math.exp(exponent)) / (alpha - 1)


def gnmax_data_dependent(votes: NDArray[np.floating], sigma: float, alpha: float) -> float:
    """Return the data-dependent Renyi bound of one noisy argmax, replacing a vote; internal use only.

    Source: Papernot et al., "Scalable private learning with PATE" (2018), Theorem 6 with Proposition 10. The value
    itself depends on the private votes, so it must not be published without smooth sensitivity.
    """
    from scipy.special import erfc, logsumexp

    votes = np.asarray(votes, dtype=np.float64)
    bound = alpha / sigma**2  # without looking at the data
    top = int(votes.argmax())
    gaps = np.delete(votes[top] - votes, top)
    with np.errstate(divide="ignore"):
        log_q = min(float(logsumexp(np.log(erfc(gaps / (2 * sigma)) / 2))), math.log1p(-1 / len(votes)))
    if not math.isfinite(log_q):
        return 0.0
    high = sigma * math.sqrt(-log_q)  # mu_2; mu_1 is one more
    if high <= 1 or alpha > high + 1:
        return bound
    eps1, eps2 = (high + 1) / sigma**2, high / sigma**2
    limit = (high - 1) * eps2 - high * (math.log1p(1 / high) + math.log1p(1 / (high - 1)))
    if log_q > limit or -log_q <= eps2:
        return bound
    log_keep = math.log1p(-math.exp(log_q))
    log_a = log_keep - math.log1p(-math.exp((log_q + eps2) * (1 - 1 / high)))
    log_b = eps1 - log_q / high
    total = np.logaddexp(log_keep + (alpha - 1) * log_a, log_q + (alpha - 1) * log_b)
    return min(bound, float(total) / (alpha - 1))


# "Federated model distillation with noise-free differential privacy" (FedMD-NFDP)


def nfdp_epsilon(n: int, k: int, replacement: bool) -> float:
    """Return epsilon of Theorem 2 (with replacement) or 1 (without): valid, but it buys no smaller delta."""
    return k * math.log1p(1 / n) if replacement else -math.log1p(-k / (n + 1))


def nfdp_table2_epsilon(n: int, k: int) -> float:
    """Return epsilon as Table 2 prints it: logarithms to base 10, and k = 18 in the rows that say 16."""
    return (18 if k == 16 else k) * math.log10((n + 1) / n)


def nfdp_table2_delta(n: int, k: int) -> float:
    """Return delta as Table 2 prints it: k = 18 in the rows that say 16."""
    return -math.expm1((18 if k == 16 else k) * math.log1p(-1 / n))


# "FedAUXfdp: Differentially private one-shot federated distillation"


def fedaux_sensitivity(classes: int, lam: float, records: int) -> float:
    """Return 2 sqrt(C)/(lambda n), Theorem 1: valid, loose by sqrt(C/2)."""
    return 2 * math.sqrt(classes) / (lam * records)


def fedaux_sigma(classes: int, lam: float, records: int, epsilon: float, delta: float) -> float:
    """Return sqrt(8 C ln(1.25/delta))/(epsilon lambda n), Algorithm 1; proved for epsilon < 1 only."""
    return math.sqrt(8 * classes * math.log(1.25 / delta)) / (epsilon * lam * records)


def fedaux_score_sigma(lam: float, records: int, epsilon: float, delta: float) -> float:
    """Return 2 sqrt(2 ln(1.25/delta))/(epsilon lambda N): one binary head, section 4.2; N counts the negatives too."""
    return 2 * math.sqrt(2 * math.log(1.25 / delta)) / (epsilon * lam * records)


# "Preserving privacy in federated learning with ensemble cross-domain knowledge distillation" (FedKD)


def fedkd_quantise_eq3(z: float, levels: int, largest: float) -> float:
    """Return equation 3: up to the next of `levels` points from -largest to largest."""
    step = 2 * largest / (levels - 1)
    return math.ceil((z + largest) / step) * step - largest


def fedkd_quantise_eq4(z: float, levels: int, largest: float) -> float:
    """Return equation 4, which leaves [-largest, largest] for odd `levels` and has one point too many for even ones."""
    return math.ceil(levels * z / (2 * largest)) * 2 * largest / levels


def fedkd_epsilon(largest: float, weight: float, gamma: float) -> float:
    """Return the pure epsilon of one released logit of equation 2, if weights and largest logit were public.

    The paper states none: replacing a client moves the logit by 2 z_max omega, the Laplace scale is 1/gamma.
    """
    return 2 * largest * weight * gamma
