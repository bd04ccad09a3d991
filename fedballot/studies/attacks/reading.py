"""What an adversary reads from a message: scores of the records that it asks about, whatever the message is about.

Weights and heads say themselves what they think of a record. Predictions on public records do not: there a record is
looked for in what is said of the public records nearest to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from fedballot.clients.private_heads import head_codec
from fedballot.core.arrays import row_sums
from fedballot.core.errors import SettingsError
from fedballot.learners.neighbours import nearest
from fedballot.strategies.base import BallotStrategy
from fedballot.strategies.fedaux import EnsembleStrategy, FrozenStrategy, SumsStrategy
from fedballot.strategies.weights import WeightsStrategy
from fedballot.studies.attacks.steps import gradients, matched
from fedballot.studies.attacks.world import World

Floats = npt.NDArray[np.float64]
Arrays = list[npt.NDArray[Any]]

NEAR = (1, 3, 10, 30)  # how many of the nearest public records are averaged
MAIN = 1  # of these, which one is the score where an attack takes a single one
FLOOR = 1e-6  # below which a probability is not told apart from 0


@dataclass(frozen=True, eq=False)
class Signal:
    """What one message says of each record asked about.

    Attributes
    ----------
    scores : float64 (P, f); large where the record seems known with its label. Column `main` is the plainest.
    right : float64 (P,); how far the labels alone agree with the record's, 0 to 1.
    main : the column that attacks of one score take.
    log_odds : whether scores are log-odds of the record's class; else differences of votes or sums.
    """

    scores: Floats
    right: Floats
    main: int = 0
    log_odds: bool = True


def margins(values: npt.NDArray[Any], *, linear: bool) -> Floats:
    """By how much each class is favoured over all others, float64 (n, C).

    Parameters
    ----------
    values
        Predictions (n, C): probabilities, logits, or votes and sums.
    linear
        Whether noise lies on them, or they are no logarithms: a class is then compared with the mean of the others.
        Else the logarithm of p / (1 - p), which is near normal over models (Carlini et al. 2022, "Membership inference
        attacks from first principles", section IV-C).
    """
    v = np.asarray(values, dtype=np.float64)
    classes = v.shape[1]
    if linear:
        return np.asarray(v - (v.sum(axis=1, keepdims=True) - v) / (classes - 1))
    if v.min(initial=0) >= 0 and np.allclose(row_sums(v), 1, atol=1e-2):
        v = np.log(np.maximum(v, FLOOR))
    out = np.empty_like(v)
    for c in range(classes):
        out[:, c] = v[:, c] - logsumexp(np.delete(v, c, axis=1), axis=1)
    return out


class Reader:
    """Reads the messages of one method.

    Parameters
    ----------
    world
        The records asked about.
    linear
        See :func:`margins`, of predictions and votes.
    planted
        Whether the records themselves are among the public ones.
    """

    def __init__(self, world: World, *, linear: bool, planted: bool = False) -> None:
        self.world, self.linear, self.main = world, linear, 0 if planted else MAIN
        self._near: dict[bytes, npt.NDArray[np.int64]] = {}

    def answer(self, strategy: BallotStrategy[Any], server_round: int, sent: Arrays, came: Arrays) -> Signal:
        """What the server reads from the target's answer, beside what it had sent."""
        if _tells_heads(strategy):
            return self._told(strategy, server_round, head_codec(strategy.settings, strategy.shapes).read(came)[0])
        ballot = strategy.read(came)
        if isinstance(strategy, WeightsStrategy):
            before = np.asarray(sent[0], dtype=np.float32)
            return self.of_weights(strategy, before + ballot[: before.size], before)
        return self._told(strategy, server_round, ballot)

    def state(self, strategy: BallotStrategy[Any], server_round: int) -> Signal:
        """What everybody reads from what the server has made of a round's answers.

        Raises
        ------
        SettingsError
            If the method keeps nothing to read.
        """
        kept = dict(strategy.state() or {})
        if isinstance(strategy, WeightsStrategy):
            return self.of_weights(strategy, kept["weights"], None)
        told = [array for array in kept.values() if array.ndim == 2]
        if not told:
            raise SettingsError(_UNKNOWN)
        return self._told(strategy, server_round, told[0])

    def of_weights(
        self, strategy: WeightsStrategy[Any], weights: npt.NDArray[Any], before: npt.NDArray[Any] | None
    ) -> Signal:
        """A model's own words, how they differ from those of the model that it was trained from, and its step."""
        learner = strategy.new_learner(0)

        def logits(vector: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return strategy.load(learner, np.asarray(vector, dtype=np.float32)).predict_logits(self.world.x)

        after = self.direct(logits(weights), linear=False)
        if before is None:
            return after
        moved = after.scores - self.direct(logits(before), linear=False).scores
        each = gradients(strategy.load(learner, before), self.world.x, self.world.y)
        aligned = matched(each, np.asarray(weights - before, dtype=np.float32), each[2 * self.world.size :])
        return Signal(np.column_stack([after.scores, moved, aligned]), after.right)

    def direct(self, values: npt.NDArray[Any], *, linear: bool) -> Signal:
        """Of predictions (P, C) about the records themselves."""
        y = self.world.y
        own = margins(values, linear=linear)[np.arange(len(y)), y]
        return Signal(own[:, None], (np.asarray(values).argmax(axis=1) == y).astype(np.float64), log_odds=not linear)

    def _told(self, strategy: BallotStrategy[Any], server_round: int, ballot: npt.NDArray[Any]) -> Signal:
        classes, x = len(self.world.data.classes), self.world.x
        if isinstance(strategy, SumsStrategy) and not getattr(strategy.settings, "logistic", False):
            features = strategy.public.extractor.total(x)
            z = strategy.embedding.transform(features).astype(np.float64)
            if ballot.shape == (classes, 1 + z.shape[1]):
                return self.direct(np.column_stack([np.ones(len(z)), z]) @ ballot.T.astype(np.float64), linear=True)
        if isinstance(strategy, FrozenStrategy) and ballot.shape == (classes, strategy.width):
            return self.direct(strategy.prepared(strategy.public.extractor.total(x)) @ ballot.T, linear=False)
        rows = public_rows(strategy, server_round)
        said = predictions(ballot, rows, classes)
        linear = self.linear or np.issubdtype(ballot.dtype, np.integer)
        return self.nearby(said, rows, linear=linear)

    def nearby(self, said: Floats, rows: npt.NDArray[np.integer], *, linear: bool) -> Signal:
        """Of what is said (Q, C) about public records: means over those nearest to each record, and over all."""
        favoured, labels = margins(said, linear=linear), said.argmax(axis=1)
        near, y = self.neighbours(rows), self.world.y
        own = favoured[near, y[:, None]]
        most = near.shape[1]
        means = [own[:, : min(count, most)].mean(axis=1) for count in NEAR]
        agree = (labels[near[:, : NEAR[0 if self.main == 0 else 2]]] == y[:, None]).mean(axis=1)
        return Signal(np.column_stack([*means, favoured.mean(axis=0)[y]]), agree, self.main, log_odds=not linear)

    def neighbours(self, rows: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """The nearest of these public records to each record asked about, nearest first, (P, k) places in ``rows``."""
        key = np.asarray(rows).tobytes()
        if key not in self._near:
            pool = np.asarray(self.world.data.public_x[rows], dtype=np.float32).reshape(len(rows), -1)
            asked = np.asarray(self.world.x, dtype=np.float32).reshape(len(self.world.x), -1)
            self._near[key] = nearest(pool, asked, min(NEAR[-1], len(pool)))
        return self._near[key]


def _tells_heads(strategy: BallotStrategy[Any]) -> TypeGuard[EnsembleStrategy[Any]]:
    """Whether what comes is a head, which says more than its predictions."""
    return (
        isinstance(strategy, EnsembleStrategy)
        and strategy.settings.sends == "heads"
        and strategy.shapes[0][-1] == strategy.width
    )


_UNKNOWN = (
    "this method's messages are neither weights nor heads, class sums or predictions on public records, and nobody has "
    "said how an attack reads them"
)


def public_rows(strategy: Any, server_round: int) -> npt.NDArray[np.int64]:
    """The public records that a round's answers are about.

    Raises
    ------
    SettingsError
        If the method's Strategy does not say.
    """
    asked: Any = getattr(strategy, "queries", None)
    if isinstance(asked, Callable):  # type: ignore[arg-type]
        asked = asked(server_round)
    if asked is None and isinstance(strategy, FrozenStrategy):
        asked = strategy.public.distil
    if not isinstance(asked, np.ndarray):
        raise SettingsError(_UNKNOWN)
    return asked.astype(np.int64)


def predictions(ballot: npt.NDArray[Any], rows: npt.NDArray[np.int64], classes: int) -> Floats:
    """What a ballot says of the public records (Q, C): the mean over copies, without what stands beside it.

    Raises
    ------
    SettingsError
        If it holds something else.
    """
    values = np.asarray(ballot, dtype=np.float64)
    if values.ndim == 2 and values.shape[1] >= classes and len(values) >= len(rows):
        values = values[len(values) % len(rows) :, :classes]  # FedKD's counts stand in front, certainties behind
        return np.asarray(values.reshape(-1, len(rows), classes).mean(axis=0))
    raise SettingsError(_UNKNOWN)
