"""Labels where noise is many times the votes: neighbours agree, classes are even, and the noise is known.

Propagation (`spread_labels`) takes scores as they fall, and with so much noise two regions are often given one class
while another class gets none. Here each record has one class, and the label of all is the mean-field posterior of a
Potts model on the graph under the Gaussian noise of the tally, with a price on each class that keeps classes equally
common. The tally is released and its noise public, so this is post-processing. Source: ours; Wu 1982, "The Potts
model".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logsumexp

from fedballot.distillation.fission import added_noises, votes_held
from fedballot.distillation.propagation import argmax_labels, pool_histogram, solve, spread_labels

Floats = NDArray[np.floating[Any]]

NOISY = 2.5  # deviations of the noise over the votes on a record from which on this is taken
DOUBTFUL = 1.0  # the same from which on both are tried, and the tally decides
COUPLING = 1.3  # how much records heed their neighbours, over the transition below which all classes melt into one
ALPHA = 0.999  # how far votes travel for the first guess
STEPS = 50  # halfway steps to the fixed point
ROUNDS = 5  # of prices in each step


def transition(classes: int) -> float:
    """Coupling at which a mean-field Potts model of so many classes orders: 2 (C-1) ln(C-1) / (C-2), and 2 for two."""
    return 2.0 if classes == 2 else 2 * (classes - 1) * math.log(classes - 1) / (classes - 2)


def votes_on_each(tally: Floats) -> float:
    """Mean votes cast on a query of a noisy tally (Q, C), at least one."""
    return max(1.0, float(tally.sum()) / len(tally))


def reads_better(
    graph: sparse.csr_matrix, tally: Floats, queries: NDArray[np.int64], *, sigma: float, alpha: float
) -> bool:
    """Whether `even_labels` read a tally better than propagation does.

    With little noise they do not, with much they do. Between, labels are made of one half of the tally (`fission`) both
    ways, and those that hold more votes of the other are better. Each half has more noise than the whole, which favours
    even classes a little.

    Parameters
    ----------
    tally
        Noisy votes (Q, C) on the queries.
    sigma
        Standard deviation of the noise on each of them.
    alpha
        How far votes travel in propagation.
    """
    each = votes_on_each(tally)
    if not DOUBTFUL * each < sigma <= NOISY * each:
        return sigma > NOISY * each
    gain = 0.0
    for added in added_noises(tally, sigma):
        for sign in (1, -1):
            votes, other = pool_histogram(tally + sign * added, queries, graph.shape[0]), tally - sign * added
            even, _ = even_labels(graph, votes, sigma=math.sqrt(2) * sigma, each=each)
            spread, _ = spread_labels(graph, votes, alpha)
            gain += votes_held(other, even[queries]) - votes_held(other, spread[queries])
    return gain > 0


def even_labels(
    graph: sparse.csr_matrix, votes: Floats, *, sigma: float, each: float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Labels of a pool whose classes are about equally common, from votes under much noise.

    Parameters
    ----------
    graph
        Normalised adjacency (P, P), see `neighbour_graph`.
    votes
        Noisy votes (P, C), their columns centred; zeros where nobody was asked.
    sigma
        Standard deviation of the noise on each of them.
    each
        Votes cast on a record.

    Returns
    -------
    labels, confidence
        int64 (P,), and float32 (P,): log-odds of the best class against the second.
    """
    scores = solve(graph, votes, ALPHA)
    scores -= scores.mean(axis=0)
    scores *= 2 / max(float(scores.std()), 1e-12)
    belief = _softmax(scores + _prices(scores, np.zeros(votes.shape[1]), 10 * ROUNDS))
    evidence = each * votes / sigma**2
    coupling = COUPLING * transition(votes.shape[1])
    prices: Floats = np.zeros(votes.shape[1])
    for _ in range(STEPS):
        logits = coupling * (graph @ belief) + evidence
        prices = _prices(logits, prices, ROUNDS)
        belief = (belief + _softmax(logits + prices)) / 2
    return argmax_labels(logits + prices)


def _softmax(logits: Floats) -> NDArray[np.float64]:
    return np.asarray(np.exp(logits - logsumexp(logits, axis=1, keepdims=True)))


def _prices(logits: Floats, start: Floats, rounds: int) -> Floats:
    """What to add to each class (C,) for classes to be equally common (Sinkhorn's iteration)."""
    prices = start
    for _ in range(rounds):
        share = _softmax(logits + prices).mean(axis=0)
        prices = prices - np.log(np.maximum(share, 1e-12) * len(prices))
    return prices
