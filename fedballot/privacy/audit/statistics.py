"""Statistics of privacy audits: what released data alone say about epsilon. Pure functions.

Layers, from the most sensitive to the most general: the variance of the noise (catches half the noise), two worlds on
a near-worst pair of data sets (catches a fifth of it), and one run with many canaries (catches its absence). Beside
them, what the noise is worth: the reach of one record (catches what couples records), how batches are drawn, and how
often a record is in a sample.
An audit gives a lower bound: it can refute a claim, never prove it, and has power for small epsilon only.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedballot.core.errors import DataError, SettingsError
from fedballot.privacy.mechanisms.heads import Head, fit_head


def variance_p_value(residuals: NDArray[np.number], variance: float) -> float:
    """Return the two-sided chi-square p-value of noise residuals (any shape) against their declared variance."""
    residuals = np.asarray(residuals, dtype=np.float64).ravel()
    if len(residuals) < 2 or not variance > 0:
        raise DataError(f"residuals: need at least 2 of positive variance, got {len(residuals)}, {variance}.")
    statistic = float(residuals @ residuals) / variance
    law = stats.chi2(len(residuals))
    return float(min(1.0, 2 * min(law.cdf(statistic), law.sf(statistic))))


def two_worlds_bound(
    one: NDArray[np.number], other: NDArray[np.number], delta: float, confidence: float = 0.95
) -> float:
    """Return a lower confidence bound on epsilon from a score of many runs in each of two adjacent worlds.

    Half of the runs choose the threshold, the side and which world is the positive one; the other half bounds the true
    and false positive rates with Clopper and Pearson's intervals: epsilon >= ln((TPR - delta)/FPR).

    Parameters
    ----------
    one, other : ndarray, shape (runs,)
        Scores that should differ between the worlds.
    delta : float
    confidence : float
        Of the bound.
    """
    a, b = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if min(len(a), len(b)) < 10:
        raise DataError(f"scores: need at least 10 runs of each world, got {len(a)} and {len(b)}.")
    _check_confidence(confidence)
    bound, best = 0.0, -math.inf
    for hits, alarms in ((a, b), (b, a), (-a, -b), (-b, -a)):
        thresholds = np.unique(np.quantile(np.concatenate([hits[::2], alarms[::2]]), np.linspace(0, 1, 1001)))
        bounds = _epsilon_from_rates(hits[::2], alarms[::2], thresholds, delta, confidence)
        if bounds.max() > best:
            best = float(bounds.max())
            threshold = thresholds[[int(bounds.argmax())]]
            bound = float(_epsilon_from_rates(hits[1::2], alarms[1::2], threshold, delta, confidence)[0])
    return max(0.0, bound)


def _epsilon_from_rates(
    hits: NDArray[np.float64],
    alarms: NDArray[np.float64],
    thresholds: NDArray[np.float64],
    delta: float,
    confidence: float,
) -> NDArray[np.float64]:
    """Lower bound on epsilon for each threshold; a score at or above it is a positive."""
    tail = (1 - confidence) / 2  # two rates share the error
    n, m = len(hits), len(alarms)
    k = n - np.searchsorted(np.sort(hits), thresholds)
    j = m - np.searchsorted(np.sort(alarms), thresholds)
    low = np.where(k > 0, stats.beta.ppf(tail, np.maximum(k, 1), n - k + 1), 0.0)
    high = np.where(j < m, stats.beta.ppf(1 - tail, j + 1, np.maximum(m - j, 1)), 1.0)
    return np.log(np.maximum(low - delta, 1e-300) / high)


def one_run_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Return the probability that an (epsilon, delta)-DP mechanism allows so many correct guesses.

    Source: Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run" (2023), Theorem 5.2: each canary
    is in or out by a fair coin, the auditor guesses `guesses` of the coins and gets `correct` right.
    """
    if not 0 <= correct <= guesses <= canaries or canaries < 1:
        raise SettingsError(
            f"correct = {correct}, guesses = {guesses}, canaries = {canaries}: "
            "needs 0 <= correct <= guesses <= canaries, and a canary."
        )
    law = (guesses, 1 / (1 + math.exp(-epsilon)))  # a frozen distribution takes longer to make than to ask
    by_chance = float(stats.binom.sf(correct - 1, *law))
    just_below = np.cumsum(stats.binom.pmf(np.arange(correct - 1, -1, -1), *law))
    worst = float(np.max(just_below / np.arange(1, correct + 1), initial=0.0))
    return min(1.0, by_chance + 2 * canaries * delta * worst)


def one_run_bound(canaries: int, guesses: int, correct: int, delta: float, confidence: float = 0.95) -> float:
    """Return the largest epsilon that the guesses refute at this confidence, 0 if none."""
    _check_confidence(confidence)
    miss = 1 - confidence
    if one_run_p_value(canaries, guesses, correct, 0.0, delta) >= miss:
        return 0.0
    low, high = 0.0, 1.0
    while one_run_p_value(canaries, guesses, correct, high, delta) < miss:
        low, high = high, 2 * high
        if high > 1e4:
            return low
    while high - low > 1e-9:
        middle = (low + high) / 2
        refuted = one_run_p_value(canaries, guesses, correct, middle, delta) < miss
        low, high = (middle, high) if refuted else (low, middle)
    return low


def reach_p_value(difference: NDArray[np.number], reach: float, variance: float) -> float:
    """Return the probability of so large a difference of two noisy releases if their worlds lie within `reach`.

    Parameters
    ----------
    difference : ndarray, shape (d,)
    reach : float
        L2 sensitivity that is claimed.
    variance : float
        Of Gaussian noise on each coordinate of the difference.
    """
    difference = np.asarray(difference, dtype=np.float64).ravel()
    if not variance > 0 or not reach >= 0:
        raise DataError(f"variance = {variance}, reach = {reach}: must be above 0 and at least 0.")
    law = stats.ncx2(len(difference), max(reach**2 / variance, 1e-12))
    return float(law.sf(difference @ difference / variance))


def poisson_p_value(counts: NDArray[np.integer], steps: int, rate: float) -> float:
    """Return the p-value of how often records were drawn, if each is in each batch by itself with probability `rate`.

    The smaller of two chi-square tests, twice: of the sizes of all batches of a run (fixed sizes vary too little), and
    of how often each record was drawn in all runs (fixed places vary too much, shuffled slices too little).

    Parameters
    ----------
    counts : ndarray of int, shape (runs, n)
        In how many of its `steps` batches a run had each of the n records.
    """
    counts = np.asarray(counts)
    if counts.ndim != 2 or min(counts.shape) < 2 or not 0 < rate < 1:
        raise DataError(f"counts: need at least 2 runs of 2 records and a rate in (0, 1), got {counts.shape}, {rate}.")
    once = steps * rate * (1 - rate)
    values = []
    for axis in (0, 1):
        number = counts.shape[axis]
        values.append(variance_p_value(counts.sum(axis=axis) - number * steps * rate, number * once))
    return min(1.0, 2 * min(values))


def inclusion_bound(seen: NDArray[np.bool_], confidence: float = 0.95) -> float:
    """Return a lower confidence bound on the largest of several probabilities, by Clopper and Pearson.

    Parameters
    ----------
    seen : ndarray of bool, shape (k, runs)
        Whether the unit at each of k places was seen in each run.
    """
    seen = np.asarray(seen)
    if seen.ndim != 2 or seen.size == 0:
        raise DataError(f"seen: expected shape (k, runs), got {seen.shape}.")
    _check_confidence(confidence)
    hits, runs = seen.sum(axis=1), seen.shape[1]
    tail = (1 - confidence) / len(seen)
    return float(np.max(np.where(hits > 0, stats.beta.ppf(tail, np.maximum(hits, 1), runs - hits + 1), 0.0)))


def near_worst_pair(records: int, classes: int, lam: float, constant: float = 0.5) -> tuple[Head, Head]:
    """Return the heads of two data sets that differ in one record and lie almost as far apart as any two can.

    All records are (c, 0) of label 0 but one, which is (c, +sqrt(1 - c^2)) or (c, -sqrt(1 - c^2)) of label 1.
    """
    other = math.sqrt(1 - constant**2)
    labels = np.array([0, 1])
    counts = np.array([records - 1, 1])

    def solved(sign: int) -> Head:
        return fit_head(np.array([[constant, 0.0], [constant, sign * other]]), labels, classes, lam, counts)

    return solved(1), solved(-1)


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise SettingsError(f"confidence = {confidence}: must lie strictly between 0 and 1, for example 0.95.")
