"""How far classes may be evened out when labels are propagated: as far as the noisy tally itself bears it out.

Evening (`spread_labels`) helps classes that clients vote on seldom because they
abstain there; where a class is seldom because it is rare, it would be spread over records of other classes. The tally
tells which: labels that it contradicts hold fewer of its votes. It is released and noisy, so this is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedballot.distillation.fission import SPLITS, added_noises, votes_held
from fedballot.distillation.propagation import argmax_labels, even_scales, solve

Floats = NDArray[np.floating[Any]]
DEGREES = (1.0, 0.75, 0.5, 0.25, 0.0)  # how far classes are evened out
LOSS = 0.05  # share of the votes that evened labels may lose
DEVIATIONS = 1.5  # of one reading's noise that the mean loss must exceed
CERTAIN = 2.5  # deviations of their noise that votes must be off even classes
UNEVEN = 0.2  # share of the records that would have to change for classes to be even
CLEAR = 3.0  # deviations of the noise by which a vote that is not up for debate is won


@dataclass(frozen=True)
class Smoothed:
    """Votes (P, C) spread over the graph, and the same (P,) of one vote on each query."""

    votes: Floats
    flat: Floats

    def scores(self, mean: Floats, degree: float) -> Floats:
        """Scores (P, C) with the classes evened out to a degree, 1: as in ``propagate``; ``mean``: of the tally."""
        scores = self.votes - degree * self.flat[:, None] * mean
        scores = scores - degree * scores.mean(axis=0)
        return np.asarray(scores * even_scales(scores.std(axis=0)) ** degree)


def smoothed(graph: sparse.csr_matrix, tally: Floats, queries: NDArray[np.int64], alpha: float) -> Smoothed:
    """Spread a tally (Q, C) of some records over the graph of all."""
    votes = np.zeros((graph.shape[0], tally.shape[1] + 1))
    votes[queries] = np.column_stack([tally, np.ones(len(tally))])
    spread = solve(graph, votes, alpha)
    return Smoothed(spread[:, :-1], spread[:, -1])


def degree_of(
    graph: sparse.csr_matrix, tally: Floats, queries: NDArray[np.int64], *, sigma: float, alpha: float
) -> float | None:
    """The degree to which the tally lets classes be evened out: 1 unless it says otherwise; None: not to propagate.

    Labels made from one half of the tally (`fission`) are judged by the votes that they hold in the other. One reading
    may err by chance, and in a pool of some dozen records it did, so several splits are read both ways round, and what
    labels hold is the mean. Labels with evened classes are right unless others hold more votes, by a share of ``LOSS``
    and by ``DEVIATIONS`` standard deviations of a single reading; then the most even ones that are within one deviation
    of the best.

    Parameters
    ----------
    tally
        Noisy votes (Q, C) on the queries.
    sigma
        Standard deviation of the noise on each of them.
    """
    choices: list[float | None] = [*DEGREES, None]
    whole, mean = smoothed(graph, tally, queries, alpha), tally.mean(axis=0)
    held, noise = np.zeros(len(choices)), np.zeros((len(choices), len(choices)))
    for added in added_noises(tally, sigma):
        laid = np.zeros_like(whole.votes)
        laid[queries] = added
        spread = solve(graph, laid, alpha)
        for sign in (1, -1):
            first, second = Smoothed(whole.votes + sign * spread, whole.flat), tally - sign * added
            labels = [
                first.scores(mean + sign * added.mean(axis=0), degree)[queries].argmax(axis=1) for degree in DEGREES
            ]
            labels.append((tally + sign * added).argmax(axis=1))
            held += [votes_held(second, each) for each in labels]
            # either tally has variance 2 sigma^2, and a record whose label differs counts two of its votes
            noise += [[2 * sigma * float((one != other).sum()) ** 0.5 for other in labels] for one in labels]
    held, noise = held / (2 * SPLITS), noise / (2 * SPLITS)
    best = int(np.argmax(held))

    def allowed(choice: int, deviations: float, share: float) -> bool:
        return bool(held[best] - held[choice] <= max(share * held[best], deviations * noise[best, choice]))

    if allowed(0, DEVIATIONS, LOSS):
        return DEGREES[0]
    return next(degree for choice, degree in enumerate(choices) if choice and allowed(choice, 1.0, 0.0))


def uneven_labels(
    graph: sparse.csr_matrix,
    tally: Floats,
    queries: NDArray[np.int64],
    degree: float | None,
    *,
    sigma: float,
    alpha: float,
) -> NDArray[np.int64]:
    """Labels (P,) of the pool with classes evened out to a degree; a vote that noise does not explain stands.

    With ``degree`` None every vote stands; records that nobody was asked about are labelled by their neighbours.
    """
    labels = smoothed(graph, tally, queries, alpha).scores(tally.mean(axis=0), degree or 0.0).argmax(axis=1)
    if degree is None:
        labels[queries] = tally.argmax(axis=1)
        return np.asarray(labels, dtype=np.int64)
    return with_clear_votes(np.asarray(labels, dtype=np.int64), tally, queries, sigma)


def with_clear_votes(
    labels: NDArray[np.int64], tally: Floats, queries: NDArray[np.int64], sigma: float
) -> NDArray[np.int64]:
    """The labels (P,), with the winner of each vote that noise does not explain in place of what neighbours say."""
    winners, leads = argmax_labels(tally)
    stand = leads > CLEAR * 2**0.5 * sigma
    out = labels.copy()
    out[queries[stand]] = winners[stand]
    return out


def shares(labels: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    """Share of each class (C,) among labels."""
    return np.bincount(labels, minlength=classes) / max(1, len(labels))


def unevenness(share: NDArray[np.float64]) -> float:
    """Share of the records (0..1) that would have to change their class for all to be equally common."""
    return float(np.abs(share - 1 / len(share)).sum() / 2)


def clearly_uneven(tally: Floats, labels: NDArray[np.int64], sigma: float) -> bool:
    """Whether both the labels and the votes, whatever their noise, are further than ``UNEVEN`` from even classes."""
    queries, classes = tally.shape
    votes = np.maximum(tally.sum(axis=0), 0.0)
    if not votes.any() or unevenness(shares(labels, classes)) <= UNEVEN:
        return False
    noise = CERTAIN * sigma * np.sqrt(queries) * classes / 2 / votes.sum()
    return bool(unevenness(votes / votes.sum()) - noise > UNEVEN)


def unvoted(graph: sparse.csr_matrix, tally: Floats, queries: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Records (P,) of regions of the graph in which no vote was cast at all."""
    _, region = sparse.csgraph.connected_components(graph, directed=False)
    voted = np.zeros(region.max() + 1, dtype=bool)
    voted[region[queries[tally.any(axis=1)]]] = True
    return np.asarray(~voted[region])
