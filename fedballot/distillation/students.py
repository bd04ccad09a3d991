"""What the server learns from a noisy histogram. All of it is post-processing: it costs no privacy.

Paper: "Voting-based approaches for differentially private federated learning", Algorithm 1, line 9; propagation and
self-training are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedballot.distillation.evenness import (
    clearly_uneven,
    degree_of,
    shares,
    uneven_labels,
    unvoted,
    with_clear_votes,
)
from fedballot.distillation.field import even_labels, reads_better, votes_on_each
from fedballot.distillation.propagation import argmax_labels, neighbour_graph, pool_histogram, spread_labels
from fedballot.learners.base import Learner

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class PoolLabels:
    """Labels that the server gives to pool records.

    Attributes
    ----------
    rows, labels : (n,).
    confidence : (n,); None: all are believed.
    prior : share of each class (C,) for a student that labels on; None: classes are taken to be even.
    """

    rows: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    confidence: FloatArray | None
    prior: FloatArray | None = None


def label_pool(
    histogram: npt.NDArray[np.int64 | np.float64],
    queries: npt.NDArray[np.int64],
    features: FloatArray | None,
    *,
    pool_size: int,
    neighbours: int,
    spread: float,
    sigma: float = 0.0,
    complete: bool = False,
) -> PoolLabels:
    """Labels from the histogram: by argmax for the queries, or propagated over the pool where features are given.

    Classes are evened out as far as the histogram bears it out; a class without any vote is given to no record, and a
    region without any vote gets the class that has most. Where noise is as much as the votes or more, and nothing
    speaks against even classes, they are held even (`even_labels`) if that reads the tally better. Where clients did
    not abstain, which could have made a class lose, a vote that noise does not explain stands: neighbours know less
    than they do.

    Parameters
    ----------
    histogram
        Noisy sums of votes (Q, C).
    queries
        Pool rows asked about, (Q,).
    features
        Features of the whole pool (P, d), or None for the paper's argmax.
    sigma
        Standard deviation of the noise on each sum.
    complete
        Whether every client voted on every query.
    """
    classes = histogram.shape[1]
    if features is None:
        labels, _ = argmax_labels(histogram.astype(np.float64))
        return PoolLabels(queries, labels, None)
    voted = np.flatnonzero(histogram.any(axis=0))
    if not 2 <= len(voted) < classes:
        voted = np.arange(classes)
    tally = histogram[:, voted].astype(np.float64)
    rows = np.arange(pool_size)
    votes = pool_histogram(tally, queries, pool_size)
    if pool_size < 2:
        return PoolLabels(rows, voted[tally.argmax(axis=1)], None)
    graph = neighbour_graph(features, neighbours)
    labels, confidence = spread_labels(graph, votes, spread)
    degree = degree_of(graph, tally, queries, sigma=sigma, alpha=spread)
    if degree != 1:
        labels = uneven_labels(graph, tally, queries, degree, sigma=sigma, alpha=spread)
    clear = with_clear_votes(labels, tally, queries, sigma) if complete else labels
    corrected, labels = not np.array_equal(clear, labels), clear
    empty = unvoted(graph, tally, queries)
    labels[empty], confidence[empty] = tally.sum(axis=0).argmax(), 0
    if degree == 1 and not corrected and not clearly_uneven(tally, labels, sigma):
        if not empty.any() and reads_better(graph, tally, queries, sigma=sigma, alpha=spread):
            labels, confidence = even_labels(graph, votes, sigma=sigma, each=votes_on_each(tally))
        return PoolLabels(rows, voted[labels], confidence)
    return PoolLabels(rows, voted[labels], None, shares(voted[labels], classes).astype(np.float32))


def train_student(
    new_learner: Callable[[int], Learner],
    pool_x: npt.NDArray[np.generic],
    histogram: npt.NDArray[np.int64 | np.float64],
    queries: npt.NDArray[np.int64],
    *,
    graph: FloatArray | None,
    self_train: bool,
    passes: int,
    neighbours: int,
    spread: float,
    sigma: float,
    complete: bool,
    progress: Callable[[int, int], None],
) -> tuple[list[Learner], PoolLabels]:
    """Train the server's model; the result is the average of the learners returned, and the last labels used.

    Parameters
    ----------
    new_learner
        Makes the untrained learner of a pass, given the pass's number.
    graph
        Features of the pool (P, d) over which labels propagate; None for the paper's argmax.
    self_train
        Go on with the learner's own labels.
    sigma
        Standard deviation of the noise on each sum of the histogram.
    complete
        Whether every client voted on every query.
    passes
        2: propagate again on the first student's features and train a second one.
    """
    features = graph
    learners: list[Learner] = []
    for index in range(passes):
        if index:
            features = learners[-1].features(pool_x)
        known = label_pool(
            histogram,
            queries,
            features,
            pool_size=len(pool_x),
            neighbours=neighbours,
            spread=spread,
            sigma=sigma,
            complete=complete,
        )
        learner = new_learner(index)
        learner.semi_supervise(
            pool_x[known.rows],
            known.labels,
            known.confidence,
            self_train=self_train,
            prior=known.prior,
            progress=progress,
        )
        learners.append(learner)
    return learners, known


def probabilities(learners: Sequence[Learner], x: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
    """Probabilities of the classes (n, C), added up over the learners."""
    total: npt.NDArray[np.float64] | None = None
    for learner in learners:
        logits = learner.predict_logits(x).astype(np.float64)
        exps = np.exp(logits - logits.max(axis=1, keepdims=True))
        one = exps / exps.sum(axis=1, keepdims=True)
        total = one if total is None else total + one
    if total is None:
        raise ValueError("no learner to predict with")
    return total
