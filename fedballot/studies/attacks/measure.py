"""How well an attack does: its ROC curve, and the least epsilon that it proves. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from fedballot.privacy.audit.statistics import one_run_bound
from fedballot.privacy.guarantee import Guarantee, View

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

LEVELS = (0.001, 0.01)  # false positive rates at which the true one is stated
CONFIDENCE = 0.95
SURE = 0.9999  # before a proof is said to be contradicted: somebody attacks often
SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)  # of the seats, the surest of which are guessed
POINTS = 200  # of a curve


@dataclass(frozen=True)
class Rate:
    """A true positive rate at a false positive rate, with Clopper and Pearson's interval at 95 % confidence."""

    at: float
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Score:
    """How well one attack tells members.

    Parameters
    ----------
    attack : str
    auc, auc_error : float
        Mean over runs of the area under the curve, and its standard error by the runs' spread.
    rates : tuple of Rate
    epsilon : float
        Least epsilon that the attack proves, at 95 % confidence of all attacks of a report together.
    sure_epsilon : float
        The same at 99.99 %.
    fpr, tpr : tuple of float
        The curve.
    """

    attack: str
    auc: float
    auc_error: float
    rates: tuple[Rate, ...]
    epsilon: float
    sure_epsilon: float
    fpr: tuple[float, ...]
    tpr: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def score_of(plain: Mapping[str, Any]) -> Score:
    """A score from its plain JSON values."""
    rates = tuple(Rate(**rate) for rate in plain["rates"])
    return Score(**{**plain, "rates": rates, "fpr": tuple(plain["fpr"]), "tpr": tuple(plain["tpr"])})


def clopper_pearson(hits: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact interval of a probability.

    Examples
    --------
    >>> low, high = clopper_pearson(0, 100)
    >>> low, round(high, 4)
    (0.0, 0.0362)
    """
    found = stats.binomtest(hits, trials).proportion_ci(confidence_level=confidence, method="exact")
    return float(found.low), float(found.high)


def measure(attack: str, scores: Floats, member: Bools, *, delta: float, proving: Bools, attacks: int) -> Score:
    """The curve of an attack, and what it proves.

    Parameters
    ----------
    scores, member : (V, M)
        Of each record in each run, and whether it was the target's; the first M / 2 and the others are pairs, of which
        one was.
    delta
        At which epsilon is proved.
    proving : (V,)
        Runs whose scores come from shadow runs alone that are none of them, so that their coins are independent of all
        that the guesses rest on.
    attacks
        How many a report holds, which share the chance of an error.
    """
    from sklearn.metrics import roc_auc_score, roc_curve

    fpr, tpr, _ = roc_curve(member.ravel(), scores.ravel(), drop_intermediate=False)
    trials = int(member.sum())
    rates = []
    for level in LEVELS:
        value = float(tpr[fpr <= level].max())
        rates.append(Rate(level, value, *clopper_pearson(round(value * trials), trials)))
    each = np.array([roc_auc_score(truth, row) for truth, row in zip(member, scores, strict=True) if truth.sum() > 0])
    error = float(each.std(ddof=1) / math.sqrt(len(each))) if len(each) > 1 else float("inf")
    places = thinned(fpr, len(fpr))
    shown, surely = (
        proved(scores[proving], member[proving], delta, 1 - (1 - level) / attacks) for level in (CONFIDENCE, SURE)
    )
    return Score(
        attack,
        float(each.mean()),
        error,
        tuple(rates),
        shown,
        surely,
        tuple(float(value) for value in fpr[places]),
        tuple(float(value) for value in tpr[places]),
    )


def thinned(fpr: Floats, count: int) -> npt.NDArray[np.int64]:
    """Places of a curve's points that are enough to draw it on a logarithmic axis."""
    grid = np.concatenate([np.geomspace(1e-5, 1, POINTS), np.linspace(0, 1, POINTS // 4)])
    return np.unique(np.concatenate([[0, count - 1], np.searchsorted(fpr, grid, side="right") - 1]).clip(0, count - 1))


def proved(scores: Floats, member: Bools, delta: float, confidence: float) -> float:
    """Least epsilon that guesses about the seats' coins prove at ``delta``, whatever the releases are.

    Each seat holds one of two records by a fair coin, which is guessed by the larger score; of the seats of all runs
    the surest are guessed, at each of a few shares fixed beforehand, which divide the error among them. The coins are
    independent, each run is one release about its own, so Theorem 5.2 of Steinke, Nasr and Jagielski 2023, "Privacy
    auditing with one (1) training run", holds of all of them together.
    """
    half = member.shape[1] // 2
    lean, coins = (scores[:, :half] - scores[:, half:]).ravel(), member[:, :half].ravel()
    order = np.argsort(-np.abs(lean), kind="stable")
    order = order[np.abs(lean[order]) > 0]
    best, each = 0.0, 1 - (1 - confidence) / len(SHARES)
    for share in SHARES:
        chosen = order[: math.ceil(share * len(lean))]
        correct = int(((lean[chosen] > 0) == coins[chosen]).sum())
        best = max(best, one_run_bound(len(lean), len(chosen), correct, delta, each))
    return best


@dataclass(frozen=True)
class Promise:
    """What a guarantee says about one record of a client that is another one.

    Parameters
    ----------
    epsilon, delta : float
    words : str
        Which guarantee, and how it follows.
    """

    epsilon: float
    delta: float
    words: str


VIEWS: dict[View, int] = {"output only": 0, "server's view": 1, "network": 2}


def promise(guarantees: Sequence[Guarantee], view: View) -> Promise | None:
    """The strongest proved promise about a replaced record against an adversary of this view; None: there is none.

    What is promised to some clients only says nothing of the others, and is passed over; a client that is one of them
    has it among its own guarantees.
    Where a guarantee compares a unit with its absence, a record is replaced in two steps, and epsilon doubles.
    """
    found = []
    for one in guarantees:
        if one.status != "proved" or one.among or not math.isfinite(one.epsilon) or VIEWS[one.view] < VIEWS[view]:
            continue
        stated = f"ε = {one.epsilon:.3g}, δ = {one.delta:.3g} for each {one.unit}, {one.adjacency}, {one.view}"
        if one.adjacency == "replace-one":
            found.append(Promise(one.epsilon, one.delta, stated))
        else:
            double = min(1.0, (1 + math.exp(min(one.epsilon, 700.0))) * one.delta)
            found.append(Promise(2 * one.epsilon, double, f"{stated}; twice, since a record is replaced"))
    return min(found, key=lambda one: (one.delta >= 1, one.epsilon, one.delta), default=None)
