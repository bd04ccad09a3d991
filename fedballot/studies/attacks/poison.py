"""What malicious clients send, one function for each kind of message. Pure; they know what all others have answered."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

Aim = Literal["untargeted", "targeted"]
Pair = tuple[int, int]


def wrong_labels(y: npt.NDArray[np.integer], aim: Aim, pair: Pair, classes: int) -> Ints:
    """Labels (n,) that a malicious client trains on: the next class, or the second of a pair for the first.

    Examples
    --------
    >>> wrong_labels(np.array([0, 1, 2]), "untargeted", (0, 1), 3).tolist()
    [1, 2, 0]
    >>> wrong_labels(np.array([0, 1, 2]), "targeted", (0, 2), 3).tolist()
    [2, 1, 2]
    """
    if aim == "untargeted":
        return np.asarray((y + 1) % classes, dtype=np.int64)
    return np.where(y == pair[0], pair[1], y).astype(np.int64)


def wanted(total: npt.NDArray[np.number], aim: Aim, pair: Pair) -> tuple[Ints, Ints]:
    """Which label each query would have without malicious clients, and which one they want.

    Untargeted, that is the runner-up, which takes least; targeted, the second of the pair where the first would win.

    Parameters
    ----------
    total : (Q, C)
        Sum of the other clients' answers.

    Returns
    -------
    tuple of int64 (Q,)
        Both are equal where nothing is wanted.

    Examples
    --------
    >>> [found.tolist() for found in wanted(np.array([[5, 4, 0], [0, 1, 2]]), "untargeted", (0, 2))]
    [[0, 2], [1, 1]]
    >>> [found.tolist() for found in wanted(np.array([[5, 4, 0], [0, 1, 2]]), "targeted", (0, 2))]
    [[0, 2], [2, 2]]
    """
    winner = total.argmax(axis=1)
    if aim == "targeted":
        return winner, np.where(winner == pair[0], pair[1], winner)
    others = np.array(total, dtype=np.float64)
    others[np.arange(len(total)), winner] = -np.inf
    return winner, others.argmax(axis=1)


def dealt_votes(
    total: npt.NDArray[np.number], winner: Ints, goal: Ints, *, malicious: int, most: int, each: int = 1
) -> npt.NDArray[np.int32]:
    """Votes (malicious, Q, C) that turn most queries, where each client may vote on so many of them.

    Queries that take fewest votes come first. A query that takes v clients gets v different ones, one after the other,
    so that all have as many queries.

    Parameters
    ----------
    total : (Q, C)
        The other clients' votes.
    winner, goal : (Q,)
        See :func:`wanted`.
    most
        Queries that a client may vote on.
    each
        Votes that a client casts for a query.

    Examples
    --------
    >>> total = np.array([[3, 2], [3, 1], [9, 0]])
    >>> votes = dealt_votes(total, np.zeros(3, int), np.ones(3, int), malicious=2, most=1)
    >>> votes[:, :, 1].tolist()
    [[1, 0, 0], [1, 0, 0]]
    """
    rows = np.arange(len(total))
    votes = np.zeros((malicious, *total.shape), dtype=np.int32)
    margin = total[rows, winner] - total[rows, goal]
    needs = np.floor(margin / each).astype(np.int64) + 1  # a tie goes to the smaller class, here and at the server
    tied = (margin % each == 0) & (goal < winner)
    needs = np.maximum(1, needs - tied)
    order = [row for row in np.argsort(needs, kind="stable") if goal[row] != winner[row] and needs[row] <= malicious]
    place = 0
    for row in order:
        if place + needs[row] > malicious * most:
            break
        votes[(place + np.arange(needs[row])) % malicious, row, goal[row]] = each
        place += int(needs[row])
    return votes


def pushed(winner: Ints, goal: Ints, classes: int, up: float, down: float) -> Floats:
    """Numbers (Q, C) that lift the wanted label by ``up`` and press the present one down by ``down``.

    Examples
    --------
    >>> pushed(np.array([0, 1]), np.array([1, 1]), 3, 5, 2).tolist()
    [[-2.0, 5.0, 0.0], [0.0, 5.0, 0.0]]
    """
    out, rows = np.zeros((len(winner), classes)), np.arange(len(winner))
    out[rows, winner] = -down
    out[rows, goal] = up
    return out


def opposed(goal: Ints, classes: int, bound: float) -> Floats:
    """Logits (Q, C) as sure of a label as a bound on each of them allows."""
    return np.asarray(np.where(goal[:, None] == np.arange(classes), bound, -bound), dtype=np.float64)


def sure_of(goal: Ints, classes: int) -> Floats:
    """Probabilities (Q, C): all of it on one label."""
    return np.asarray(goal[:, None] == np.arange(classes), dtype=np.float64)


def replacing(wrong: Floats, others: Floats, malicious: int) -> Floats:
    """Vector (d,) that each of the malicious clients sends so that the average of all is ``wrong``.

    Source: Bagdasaryan et al. 2020, "How to backdoor federated learning", equation 3 (model replacement), with what the
    others send known.

    Parameters
    ----------
    wrong : (d,)
    others : (h, d)
        What the others send.

    Examples
    --------
    >>> others = np.array([[1.0, 1.0], [3.0, -1.0]])
    >>> sent = replacing(np.array([0.0, 9.0]), others, 2)
    >>> ((others.sum(axis=0) + 2 * sent) / 4).tolist()
    [0.0, 9.0]
    """
    return np.asarray(((len(others) + malicious) * wrong - others.sum(axis=0)) / malicious)


def shortened(vector: Floats, norm: float) -> Floats:
    """The vector, cut to a norm."""
    return np.asarray(vector * min(1.0, norm / max(float(np.linalg.norm(vector)), 1e-12)))
