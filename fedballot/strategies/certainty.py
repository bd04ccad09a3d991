"""How the class sums of parties become soft labels: certainty by a matched filter, one head, no score models.

All of it is post-processing of noisy class sums (`fedballot.privacy.class_sums`). Source: ours; it takes the place of
"FedAUXfdp: Differentially private one-shot federated distillation", equation 1, where certainty comes from score models.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SHARPNESS = 3.0  # standard deviations of the head's outputs that one unit of a logit spans


def certainty(counts: Floats, sizes: Floats, variance: float) -> Floats:
    """How many records of each class each party holds, float64 (K, C): noisy counts, shrunk towards an even split.

    Parameters
    ----------
    counts
        Noisy counts (K, C).
    sizes
        Records of each party (K,), public.
    variance
        Of the noise on a count.

    Notes
    -----
    w = clip(n/C + r (N - n/C), 0, n) with r = (1 - variance / mean((N - n/C)^2))+, the best linear estimate (James and
    Stein) where all counts deviate alike from an even split.
    """
    even = np.broadcast_to(sizes[:, None] / counts.shape[1], counts.shape)
    spread = float(np.mean((counts - even) ** 2))
    share = max(0.0, 1 - variance / spread) if spread > 0 else 0.0
    return np.asarray(np.clip(even + share * (counts - even), 0, sizes[:, None]))


def matched_filter(sums: Floats, weights: Floats, variance: float) -> tuple[Floats, Floats]:
    """Class means (C, d) from noisy class sums (K, C, d), and the variance of the noise on each (C,).

    m_c = sum_i w_ic S_ic / sum_i w_ic^2: the least-squares estimate of a mean that party i has summed w_ic times, under
    equal noise. A party that holds none of a class tells nothing about it and weighs nothing; a class that nobody
    seems to hold gets the mean 0 and infinite variance.
    """
    power = np.sum(weights**2, axis=0)
    known = power > 0
    safe = np.where(known, power, 1.0)
    means = np.einsum("kc,kcd->cd", weights, sums) / safe[:, None]
    return np.asarray(means * known[:, None]), np.where(known, variance / safe, np.inf)


def between_share(means: Floats, variances: Floats, covariance: Floats) -> float:
    """Which share of the public variance lies between classes, estimated from noisy class means, in [0.005, 0.5]."""
    known = np.isfinite(variances)
    centred = means[known] - means[known].mean(axis=0)
    classes = int(known.sum())
    if classes < 2:
        return 0.005
    noise = float(np.mean(variances[known])) * centred.shape[1]
    spread = float(np.sum(centred**2)) / (classes - 1)
    return float(np.clip((spread - noise) / np.trace(covariance), 0.005, 0.5))


def class_head(means: Floats, variances: Floats, covariance: Floats, share: float) -> Floats:
    """Linear discriminants (C, d): (Cov + (s^2/share) I)^-1 (m_c - mean of m), s^2 the mean variance of the noise.

    `share` is the part of the public covariance that lies between classes; with it the ridge is the best linear
    (Wiener) estimate of class means that are spread like the public records.
    """
    known = np.isfinite(variances)
    if not known.any():
        return np.zeros_like(means)
    centred = np.where(known[:, None], means - means[known].mean(axis=0), 0.0)
    ridge = float(np.mean(variances[known])) / share
    return np.linalg.solve(covariance + ridge * np.eye(len(covariance)), centred.T).T


def soft_labels(scores: Floats) -> Floats:
    """softmax(3 F / std F), float64 (n, C), of discriminants F: the noise sets their scale, which is taken out."""
    spread = float(scores.std())
    logits = scores * (SHARPNESS / spread) if spread > 0 else scores
    logits = logits - logits.max(axis=1, keepdims=True)
    exps = np.exp(logits)
    return np.asarray(exps / exps.sum(axis=1, keepdims=True))
