"""How the class sums of clients become soft labels: certainty by a matched filter, one head, no score models.

All of it is post-processing of noisy class sums (`fedballot.privacy.mechanisms.class_sums`). Source: ours; it
takes the place of "FedAUXfdp: Differentially private one-shot federated distillation", equation 1, where score models
tell certainty.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression

Floats = npt.NDArray[np.float64]

BETWEEN = 0.02  # share of the variance of public embeddings that lies between classes, where only a guess is needed
FLOOR = 1e-3  # least eigenvalue of the public covariance that is divided by, over their mean
SHARPNESS = 3.0  # logits of one standard deviation of the evidence


def planned_dimension(records: float, clients: int, classes: int, multiplier: float) -> int:
    """Coordinates of the embedding: a power of two from 8 to 256, near sqrt(2)/s, from public numbers alone.

    s = 2 C multiplier/(sqrt(K) n) is the noise on a coordinate of a class mean where K clients hold n/C records of
    each class, and the noise is `multiplier` times the sensitivity. A rule of thumb: more coordinates tell classes
    apart, and each of them takes a share of the norm that all have together.
    """
    if multiplier <= 0:
        return 256
    wanted = math.sqrt(2 * clients) * records / (2 * multiplier * classes)
    return int(np.clip(2 ** round(math.log2(max(wanted, 1.0))), 8, 256))


def certainty(counts: Floats, variance: float) -> Floats:
    """How many records of each class each client holds, float64 (K, C): noisy counts, shrunk towards an even split.

    w = clip(n/C + r (N - n/C), 0, n) with r = (1 - variance / mean((N - n/C)^2))+: the best linear estimate where all
    counts deviate alike from an even split.

    Parameters
    ----------
    counts
        Noisy counts (K, C); those of a client add up to its public number of records n.
    variance
        Of the noise on a count.
    """
    sizes = counts.sum(axis=1, keepdims=True)
    even = sizes / counts.shape[1]
    spread = float(np.mean((counts - even) ** 2))
    share = max(0.0, 1 - variance / spread) if spread > 0 else 0.0
    return np.asarray(np.clip(even + share * (counts - even), 0, np.maximum(sizes, 0)))


def pooled(sums: Floats, weights: Floats, variance: float) -> tuple[Floats, Floats]:
    """Class means (C, d) from sums (K, C, d) and certainty (K, C), and the variance (C,) of a coordinate's noise.

    m_c = sum_i w_ic S_ic / sum_i w_ic^2, a matched filter: the least-squares estimate of a class mean that client i has
    summed w_ic times under equal noise, of the given variance. A client that holds none of a class weighs nothing
    there; of a class that nobody seems to hold nothing is known: mean 0, variance infinite.
    """
    power = np.sum(weights**2, axis=0)
    known = power > 0
    scale = np.where(known, power, 1.0)
    means = np.einsum("kc,kcj->cj", weights, sums) / scale[:, None]
    return np.where(known[:, None], means, 0.0), np.where(known, variance / scale, np.inf)


def heads(means: Floats, variances: Floats, covariance: Floats) -> Floats:
    """A linear head for each class (C, d): the discriminant of class means under noise, by empirical Bayes.

    With M_cj a class mean less the mean of all, along the j-th eigenvector of the public covariance, of eigenvalue
    l_j, and s_c^2 the variance of its noise, W_cj = M_cj t_j / ((t_j + s_c^2) l_j): the best linear (Wiener) estimate
    of a mean whose variance over the classes is t_j, then the discriminant. What lies between classes is estimated:
    t_j / l_j = (sum_c M_cj^2 / (C - 1) - mean_c s_c^2) / l_j, by least squares under the constraint that it does
    not grow from one eigenvector to the next and is not negative. A release of noise alone so gets heads near 0,
    and without noise this is the plain discriminant. Robbins (1956), "An empirical Bayes approach to statistics";
    isotonic regression: Barlow and Brunk (1972).

    Parameters
    ----------
    means, variances
        Of `pooled`; classes of infinite variance get the head 0.
    covariance
        Of public embeddings, (d, d).
    """
    known = np.isfinite(variances)
    out = np.zeros(means.shape)
    if known.sum() < 2:
        return out
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = np.maximum(values[::-1], 1e-9 * values[-1]), vectors[:, ::-1]
    noise = variances[known, None]
    centred = (means[known] - means[known].mean(axis=0)) @ vectors
    between = (centred**2).sum(axis=0) / (known.sum() - 1) - noise.mean()
    trust = (values / (BETWEEN * values + noise.mean())) ** 2  # 1 / variance of a ratio, as far as it can be told
    ratio = np.maximum(isotonic_regression(between / values, weights=trust, increasing=False).x, 0.0)
    signal = ratio * values
    total = signal + noise
    kept = np.divide(signal, total, out=np.ones_like(total), where=total > 0)
    out[known] = (centred * kept / np.maximum(values, FLOOR * values.mean())) @ vectors.T
    return out


def discriminants(embedded: npt.NDArray[np.floating], means: Floats, variances: Floats, covariance: Floats) -> Floats:
    """What pooled class sums say of public records (Q, d), float64 (Q, C): their heads on the centred records.

    A class that nobody seems to hold gets the lowest value of the record.
    """
    z = embedded.astype(np.float64)
    found = np.asarray((z - z.mean(axis=0)) @ heads(means, variances, covariance).T)
    known = np.isfinite(variances)
    if not known.any():
        return found
    return np.asarray(np.where(known, found, found[:, known].min(axis=1, keepdims=True)))


def soft_labels(discriminants: Floats) -> Floats:
    """softmax(3 F / std F), float64 (Q, C), of discriminants F: the noise sets their scale, which is taken out."""
    spread = float(discriminants.std())
    logits = discriminants * (SHARPNESS / spread) if spread > 0 else discriminants
    logits = logits - logits.max(axis=1, keepdims=True)
    exps = np.exp(logits)
    return np.asarray(exps / exps.sum(axis=1, keepdims=True))


def score(features: npt.NDArray[np.floating], head: npt.NDArray[np.floating]) -> Floats:
    """Certainty f(x) (Q,) of a score head (p,), the sigmoid of its logit: how alike x is to a client's records."""
    logits = features.astype(np.float64) @ head.astype(np.float64)
    return np.asarray(0.5 * (1 + np.tanh(logits / 2)))
