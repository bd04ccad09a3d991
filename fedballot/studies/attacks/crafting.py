"""Messages of malicious clients, in the form in which each method's server reads them, and what a server refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedballot.clients.fedkd import KdAnswer
from fedballot.clients.fedmd import answer_codec
from fedballot.clients.private_heads import head_codec
from fedballot.clients.weights import difference_codec
from fedballot.methods.api import Method
from fedballot.privacy.mechanisms.logits import NoisyLogits
from fedballot.settings.fedkd import mechanism as noisy_logits
from fedballot.settings.robust import RobustAggregation
from fedballot.settings.voting import ballot_codec
from fedballot.settings.voting import mechanism as noisy_votes
from fedballot.strategies.base import BallotStrategy
from fedballot.strategies.fedaux import EnsembleStrategy
from fedballot.strategies.fedaux_weights import FedauxStrategy
from fedballot.strategies.fedavg_p import HeadAverageStrategy
from fedballot.strategies.fedgen import FedgenStrategy
from fedballot.strategies.fedkd import FedkdDpStrategy, FedkdStrategy
from fedballot.strategies.fedmd import FedmdStrategy, LdpStrategy
from fedballot.strategies.selective import SelectiveStrategy
from fedballot.strategies.summed import SummedStrategy
from fedballot.strategies.voting import VotingStrategy
from fedballot.strategies.weights import WeightsStrategy
from fedballot.strategies.weights_private import DpFedavgStrategy
from fedballot.studies.attacks.poison import (
    Aim,
    Pair,
    dealt_votes,
    opposed,
    pushed,
    replacing,
    shortened,
    sure_of,
    wanted,
)
from fedballot.wire.codec import Bundle, Codec, Integers, Singles
from fedballot.wire.packing import WireError

Arrays = list[npt.NDArray[Any]]
Strength = Literal["flipped", "permitted", "passing"]

LOUD = 1000.0  # by how much a malicious client raises its voice where nothing bounds it
MOST = 2**31 - 1  # of an integer on the wire


@dataclass(frozen=True, eq=False)
class Heard:
    """What malicious clients know of a round when they answer.

    Attributes
    ----------
    answers : what the server reads from each of the other clients.
    flipped : for each malicious client, what it would answer had it trained on wrong labels.
    """

    answers: Sequence[npt.NDArray[Any]]
    flipped: Sequence[Callable[[], Arrays]]

    def total(self) -> npt.NDArray[Any]:
        """Sum of the others' answers."""
        return np.asarray(np.sum(np.stack(self.answers), axis=0))


def unseen(method: Method) -> Method:
    """The method whose server sees no single answer, as under masks: it refuses none that can be added up."""
    kind = method.strategy_class

    class Masked(kind):  # type: ignore[misc, valid-type]
        def read(self, arrays: Arrays) -> npt.NDArray[Any]:
            try:
                return np.asarray(super().read(arrays))
            except WireError:
                return Integers(self.form.shape).read(arrays)

    return replace(method, strategy=Masked)


def strengths(strategy: BallotStrategy[Any], *, masked: bool) -> tuple[Strength, ...]:
    """What malicious clients of a method can do, that somebody has written down; ``passing`` only where it is more."""
    if isinstance(strategy, SelectiveStrategy | FedgenStrategy | FedauxStrategy):
        return ("flipped",)
    if isinstance(strategy, VotingStrategy) and not masked and noisy_votes(strategy.settings) is None:
        return ("flipped", "permitted")
    if isinstance(strategy, FedmdStrategy) and not isinstance(strategy, LdpStrategy):
        more: tuple[Strength, ...] = ("passing",) if strategy.settings.share == "logits" else ()
        return ("flipped", "permitted", *more)
    if isinstance(strategy, VotingStrategy | FedkdDpStrategy | FedkdStrategy | LdpStrategy | WeightsStrategy):
        return ("flipped", "permitted", "passing")
    if isinstance(strategy, SummedStrategy | EnsembleStrategy | HeadAverageStrategy):
        return ("flipped", "passing")
    return ("flipped",)


def crafted(
    strategy: BallotStrategy[Any], strength: Strength, aim: Aim, pair: Pair, heard: Heard, *, masked: bool
) -> list[Arrays]:
    """What each malicious client sends.

    Parameters
    ----------
    strength : {"flipped", "permitted", "passing"}
        Training on wrong labels and nothing else; the worst that a client might send that keeps to the method; the
        worst that the server does not refuse.
    masked
        Whether answers are added up under masks.
    """
    count = len(heard.flipped)
    if strength == "flipped":
        return [tell() for tell in heard.flipped]
    free = strength == "passing"
    if isinstance(strategy, VotingStrategy):
        return _votes(strategy, aim, pair, heard, free=free, masked=masked)
    if isinstance(strategy, FedkdDpStrategy):
        return [_logits(strategy, aim, pair, heard, free=free, masked=masked)] * count
    if isinstance(strategy, FedkdStrategy):
        return [_levels(strategy, aim, pair, heard, free=free)] * count
    if isinstance(strategy, FedmdStrategy):
        return [_predictions(strategy, aim, pair, heard, free=free)] * count
    if isinstance(strategy, WeightsStrategy):
        return _differences(strategy, heard, free=free)
    return [_louder(strategy, tell(), count, masked=masked) for tell in heard.flipped]


def largest_integer(strategy: SummedStrategy[Any], malicious: int, *, masked: bool) -> int:
    """The largest number that a client can have added up: under masks as far as the sum is told apart at all."""
    form = strategy.form
    return min(MOST, form.largest * strategy.nodes // (2 * malicious) if masked else form.largest)


def _votes(strategy: VotingStrategy, aim: Aim, pair: Pair, heard: Heard, *, free: bool, masked: bool) -> list[Arrays]:
    settings, classes, count = strategy.settings, len(strategy.data.classes), len(heard.flipped)
    total = heard.total()
    winner, goal = wanted(total, aim, pair)
    noisy, codec = noisy_votes(settings), ballot_codec(settings, classes)
    each = noisy.ballot if noisy else settings.votes_per_query or 1
    if free and (masked or noisy is not None):
        far = largest_integer(strategy, count, masked=masked)
        numbers = np.where((goal != winner)[:, None], pushed(winner, goal, classes, far, far), 0)
        return [Integers(strategy.form.shape).pack(numbers.astype(np.int64))] * count
    votes = dealt_votes(total, winner, goal, malicious=count, most=settings.max_votes, each=each)
    if settings.votes_per_query:  # of neighbours, who vote on every query
        rest = np.asarray(~votes.any(axis=2))
        votes += (each * rest[:, :, None] * sure_of(winner, classes)).astype(np.int32)
    return [codec.pack(one) for one in votes]


def _logits(strategy: FedkdDpStrategy, aim: Aim, pair: Pair, heard: Heard, *, free: bool, masked: bool) -> Arrays:
    classes = len(strategy.data.classes)
    winner, goal = wanted(heard.total(), aim, pair)
    noisy: NoisyLogits = noisy_logits(strategy.settings, classes)
    if free:
        far: float = largest_integer(strategy, len(heard.flipped), masked=masked)
        steps = pushed(winner, goal, classes, far, far)
    else:
        one = noisy.bound / np.sqrt(2) / noisy.mechanism.grid
        steps = np.trunc(pushed(winner, goal, classes, one, one))
    steps[goal == winner] = 0
    return Integers(strategy.form.shape).pack(steps.astype(np.int64))


def _levels(strategy: FedkdStrategy, aim: Aim, pair: Pair, heard: Heard, *, free: bool) -> Arrays:
    """Of all honest clients the largest logit and class counts, or far larger ones where the server takes any."""
    told = np.stack(heard.answers).astype(np.float64)
    counts, logits = told[:, 0].max(axis=0), told[:, 1:]
    _, goal = wanted(logits.sum(axis=0), aim, pair)  # near what the server's weights, which are by classes, make of it
    bound = strategy.settings.logit_bound or float(np.abs(logits).max())
    if free and not strategy.settings.logit_bound:
        bound *= LOUD
    weight = np.full(len(counts), MOST) if free else np.maximum(counts, 1)
    answer = KdAnswer(strategy.shape, strategy.settings)
    return answer.pack(opposed(goal, strategy.shape[1], bound), weight.astype(np.int64))


def _predictions(strategy: FedmdStrategy[Any], aim: Aim, pair: Pair, heard: Heard, *, free: bool) -> Arrays:
    settings, classes = strategy.settings, strategy.shape[1]
    _, goal = wanted(heard.total(), aim, pair)
    private = isinstance(strategy, LdpStrategy)
    codec: Codec = Singles(strategy.shape) if private else answer_codec(settings, strategy.shape)
    if settings.share == "logits" or (private and free):
        farthest = float(np.max([np.abs(one).max() for one in heard.answers]))
        return codec.pack(opposed(goal, classes, farthest * (LOUD if free else 1)))
    return codec.pack(sure_of(goal, classes).astype(np.float32))


def _differences(strategy: WeightsStrategy[Any], heard: Heard, *, free: bool) -> list[Arrays]:
    """Model replacement, or its direction at the length of the longest honest difference.

    Where the server cuts differences to a norm (dp-fedavg), it cuts these as well.
    """
    codec, others = difference_codec(strategy.settings, strategy.weights.size), np.stack(heard.answers)
    wrong = np.mean([codec.read(tell()) for tell in heard.flipped], axis=0).astype(np.float64)
    sent = replacing(wrong, others.astype(np.float64), len(heard.flipped))
    if not free:
        sent = shortened(sent, float(np.linalg.norm(others, axis=1).max()))
    return [codec.pack(sent)] * len(heard.flipped)


def _louder(strategy: BallotStrategy[Any], flipped: Arrays, malicious: int, *, masked: bool) -> Arrays:
    """Class sums and heads of wrong labels, as large as the server takes them."""
    if isinstance(strategy, SummedStrategy):
        far = largest_integer(strategy, malicious, masked=masked)
        told = Integers(strategy.form.shape).read(flipped).astype(np.float64)
        return Integers(strategy.form.shape).pack(
            np.trunc(told * (far / max(1.0, np.abs(told).max()))).astype(np.int64)
        )
    codec: Bundle = head_codec(strategy.settings, _shapes(strategy))
    return codec.pack([LOUD * value.astype(np.float64) for value in codec.read(flipped)])


def _shapes(strategy: Any) -> Sequence[tuple[int, ...]]:
    if isinstance(strategy, HeadAverageStrategy):
        return [(strategy.classes, strategy.width)]
    shapes: Sequence[tuple[int, ...]] = strategy.shapes
    return shapes


def checks(strategy: BallotStrategy[Any], *, masked: bool) -> tuple[str, ...]:
    """What bounds a malicious client of this method, in words."""
    settings: Any = strategy.settings
    if isinstance(strategy, SummedStrategy) and masked:
        return ("masks: the server sees no single answer, so it refuses none; clients alone keep to what is allowed",)
    if isinstance(strategy, VotingStrategy) and noisy_votes(settings) is None:
        votes = "one vote" if settings.votes_per_query is None else f"{settings.votes_per_query} votes"
        cap = f"{votes} for a query, {settings.max_votes} queries at most"
        return (f"{cap}: the server refuses more",)
    if isinstance(strategy, SummedStrategy):
        words = f"no integer beyond {strategy.form.largest}, which an honest ballot and its noise stay below"
        return (f"{words}: the server refuses more",)
    if isinstance(settings, RobustAggregation) and settings.robust:
        borne = "fewer than half" if settings.aggregation == "median" else f"{settings.trim} at most"
        return (f"{settings.aggregation} of each coordinate: {borne} of the clients move it no further than others do",)
    if isinstance(strategy, FedkdStrategy):
        bound = f"logits up to {settings.logit_bound:g}" if settings.logit_bound else "no bound on logits (logit_bound)"
        equal = settings.weights == "equal"
        return (bound, "all clients weigh the same" if equal else "class counts as told, which weigh (weights=equal)")
    if isinstance(strategy, FedmdStrategy):
        if isinstance(strategy, LdpStrategy) or settings.share == "logits":
            return ("no bound on what is averaged",)
        return ("one label for each query" if settings.share == "argmax" else "rows must be probabilities",)
    if isinstance(strategy, DpFedavgStrategy):
        return (f"the server cuts each difference to norm {settings.clip:g}",)
    return ("no bound on what is averaged",)
