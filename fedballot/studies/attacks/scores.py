"""Membership scores: how surely each record was the target's in a run, by shadow runs in which that is known.

All functions are pure. ``shadow`` (S, P) and ``victim`` (V, P) are one score of each record in each run; ``member``
(S, M) says of the first M records, the seats', whether they were the target's in a shadow run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.special import expit

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

OWN_SPREAD = 32  # shadow runs from which on each record has a variance of its own
OFFLINE_A = 0.3  # RMIA's constant that makes a mean over models without a record one over all models
TINY = 1e-9


def moments(shadow: Floats, chosen: Bools) -> tuple[Floats, Floats]:
    """Mean and standard deviation (M,) of each record's score over the chosen (S, M) runs.

    With few runs all records share one deviation, as Carlini et al. 2022, section VI-A, advise.
    """
    count = chosen.sum(axis=0)
    mean = np.where(chosen, shadow, 0).sum(axis=0) / np.maximum(count, 1)
    squares = np.where(chosen, (shadow - mean) ** 2, 0).sum(axis=0)
    if len(shadow) >= OWN_SPREAD:
        spread = np.sqrt(squares / np.maximum(count - 1, 1))
    else:
        spread = np.full(len(mean), np.sqrt(squares.sum() / max(int((count - 1).clip(0).sum()), 1)))
    floor = np.median(spread) * 0.05 + TINY  # runs that all say the same are no proof of certainty
    return mean, np.maximum(spread, floor)


def lira(shadow: Floats, member: Bools, victim: Floats) -> Floats:
    """Online LiRA: log likelihood ratio (V, M) of normal laws with and without the record.

    Source: Carlini et al. 2022, "Membership inference attacks from first principles", Algorithm 1.
    """
    m = member.shape[1]
    inside, outside = moments(shadow[:, :m], member), moments(shadow[:, :m], ~member)
    return np.asarray(stats.norm.logpdf(victim[:, :m], *inside) - stats.norm.logpdf(victim[:, :m], *outside))


def lira_offline(shadow: Floats, member: Bools, victim: Floats) -> Floats:
    """Offline LiRA: by how many deviations (V, M) a score is above those of runs without the record (section VI-B)."""
    m = member.shape[1]
    mean, spread = moments(shadow[:, :m], ~member)
    return np.asarray((victim[:, :m] - mean) / spread)


def rmia(shadow: Floats, member: Bools, victim: Floats, *, log_odds: bool = True) -> Floats:
    """RMIA, offline: the share (V, M) of a population's records that a record outdoes in how likely a run makes it.

    Source: Zarifzadeh, Liu and Shokri 2024, "Low-cost high-power membership inference attacks", equations 2 to 4, with
    gamma = 1. Ties within the population, which is of few records, are broken by the ratio itself.

    Parameters
    ----------
    log_odds
        Whether scores are log-odds; others are first brought to a deviation of 1 around 0.
    """
    m = member.shape[1]
    centre, width = (0.0, 1.0) if log_odds else (float(np.median(shadow)), float(np.std(shadow)) + TINY)
    p, own = expit((shadow - centre) / width), expit((victim - centre) / width)
    outside = np.where(~member, p[:, :m], 0).sum(axis=0) / np.maximum((~member).sum(axis=0), 1)
    prior = ((1 + OFFLINE_A) * outside + (1 - OFFLINE_A)) / 2
    ratio = own[:, :m] / np.maximum(prior, TINY)
    others = np.sort(own[:, m:] / np.maximum(p[:, m:].mean(axis=0), TINY), axis=1)
    share = [np.searchsorted(row, values, side="right") for row, values in zip(others, ratio, strict=True)]
    return np.asarray(np.array(share) + ratio / (ratio.max() + TINY) / 2)


def learned(shadow: npt.NDArray[Any], member: Bools, victim: npt.NDArray[Any]) -> Floats:
    """Scores (V, M) by a logistic regression over several scores (S, P, f), one for all records and shadow runs.

    Each score counts as its distance from the record's mean in runs without it, in deviations, so that what a member
    adds is learned from all records together. With enough shadow runs, what comes out goes through :func:`lira`.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    m = member.shape[1]
    known, asked = [], []
    for place in range(shadow.shape[2]):
        mean, spread = moments(shadow[:, :m, place], ~member)
        known.append((shadow[:, :m, place] - mean) / spread)
        asked.append((victim[:, :m, place] - mean) / spread)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))

    def flat(scores: list[Floats]) -> Floats:
        return np.clip(np.stack(scores, axis=-1), -10, 10).reshape(-1, len(scores))

    model.fit(flat(known), member.ravel())
    out = np.asarray(model.decision_function(flat(asked)).reshape(-1, m))
    if len(shadow) < OWN_SPREAD:
        return out
    return lira(model.decision_function(flat(known)).reshape(-1, m), member, out)


ATTACKS = ("lira", "lira-offline", "rmia", "learned", "threshold", "label-only")
"""In the order of the pages: from the strongest in theory to the plainest."""


def attack(
    name: str,
    shadow: npt.NDArray[Any],
    member: Bools,
    victim: npt.NDArray[Any],
    right: npt.NDArray[Any],
    main: int,
    *,
    log_odds: bool = True,
) -> Floats:
    """The scores (V, M) of an attack by its name, from all scores (S, P, f) and (V, P, f), and labels (V, P)."""
    m = member.shape[1]
    if name == "learned":
        return learned(shadow, member, victim)
    if name == "label-only":
        return np.asarray(right[:, :m], dtype=np.float64)
    if name == "threshold":
        return np.asarray(victim[:, :m, main], dtype=np.float64)
    if name == "rmia":
        return rmia(shadow[:, :, main], member, victim[:, :, main], log_odds=log_odds)
    return (lira if name == "lira" else lira_offline)(shadow[:, :, main], member, victim[:, :, main])
