"""How the class sums of parties become soft labels: certainty by a matched filter, one head, no score models.

All of it is post-processing of noisy class sums (`fedballot.privacy.class_sums`). Source: ours; it takes the place of
"FedAUXfdp: Differentially private one-shot federated distillation", equation 1, where score models tell certainty.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

BETWEEN = 0.02  # share of the variance of public embeddings that is taken to lie between classes
SHARPNESS = 3.0  # logits of one standard deviation of the evidence


def planned_dimension(records: float, parties: int, classes: int, multiplier: float) -> int:
    """Coordinates of the embedding: a power of two from 8 to 256, near sqrt(2)/s, from public numbers alone.

    s = 2 C multiplier/(sqrt(K) n) is the noise on a coordinate of a class mean where K parties hold n/C records of
    each class, and the noise is `multiplier` times the sensitivity. A rule of thumb: more coordinates tell classes
    apart, and each of them takes a share of the norm that all have together.
    """
    if multiplier <= 0:
        return 256
    wanted = math.sqrt(2 * parties) * records / (2 * multiplier * classes)
    return int(np.clip(2 ** round(math.log2(max(wanted, 1.0))), 8, 256))


def planned_ridge(records: float, parties: int, classes: int, variance: float) -> float:
    """Variance of the noise on a class mean, from public numbers, over the share of variance between classes.

    Where class means are spread like the public records, only narrower (`BETWEEN` of their covariance), this ridge
    makes the discriminant of `evidence` the best linear (Wiener) estimate. K parties with n/C records of each class
    are assumed: of all ways to hold as many records, the one under which class means are noisiest.
    """
    return variance * classes**2 / (parties * records**2) / BETWEEN


def certainty(counts: Floats, variance: float) -> Floats:
    """How many records of each class each party holds, float64 (K, C): noisy counts, shrunk towards an even split.

    w = clip(n/C + r (N - n/C), 0, n) with r = (1 - variance / mean((N - n/C)^2))+: the best linear estimate where all
    counts deviate alike from an even split.

    Parameters
    ----------
    counts
        Noisy counts (K, C); those of a party add up to its public number of records n.
    variance
        Of the noise on a count.
    """
    sizes = counts.sum(axis=1, keepdims=True)
    even = sizes / counts.shape[1]
    spread = float(np.mean((counts - even) ** 2))
    share = max(0.0, 1 - variance / spread) if spread > 0 else 0.0
    return np.asarray(np.clip(even + share * (counts - even), 0, np.maximum(sizes, 0)))


def evidence(embedded: npt.NDArray[np.floating], sums: Floats, covariance: Floats, ridge: float) -> Floats:
    """What class sums (C, d) say of public records (Q, d), float64 (Q, C): z (Cov + ridge I)^-1 S_c.

    Linear in the sums, so evidence can be added up in place of them.
    """
    heads = np.linalg.solve(covariance + ridge * np.eye(len(covariance)), sums.T)
    return np.asarray(embedded.astype(np.float64) @ heads)


def weighted_evidence(parts: npt.NDArray[np.floating], weights: Floats) -> Floats:
    """Discriminants (Q, C) from evidence (K, Q, C) and certainty (K, C): a matched filter, class by class.

    F_c = sum_i w_ic E_ic / sum_i w_ic^2, less its mean over the classes: the least-squares estimate of a class mean
    that party i has summed w_ic times under equal noise. A party that holds none of a class weighs nothing there; a
    class that nobody seems to hold gets the lowest value of the record.
    """
    power = np.sum(weights**2, axis=0)
    known = power > 0
    if not known.any():
        return np.zeros(parts.shape[1:])
    total = np.einsum("kc,kqc->qc", weights, parts) / np.where(known, power, 1.0)
    centred = total - total[:, known].mean(axis=1, keepdims=True)
    return np.asarray(np.where(known, centred, centred[:, known].min(axis=1, keepdims=True)))


def soft_labels(discriminants: Floats) -> Floats:
    """softmax(3 F / std F), float64 (Q, C), of discriminants F: the noise sets their scale, which is taken out."""
    spread = float(discriminants.std())
    logits = discriminants * (SHARPNESS / spread) if spread > 0 else discriminants
    logits = logits - logits.max(axis=1, keepdims=True)
    exps = np.exp(logits)
    return np.asarray(exps / exps.sum(axis=1, keepdims=True))


def score(features: npt.NDArray[np.floating], head: npt.NDArray[np.floating]) -> Floats:
    """Certainty f(x) (Q,) of a score head (p,), the sigmoid of its logit: how alike x is to a party's records."""
    logits = features.astype(np.float64) @ head.astype(np.float64)
    return np.asarray(0.5 * (1 + np.tanh(logits / 2)))
