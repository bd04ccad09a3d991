"""A run of a method in which some clients are malicious; all others, and the server, are the method's own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.core.errors import RunError, SettingsError
from fedballot.core.folders import ClientFolder
from fedballot.core.seeds import Stream, generator
from fedballot.datasets.examples import Examples
from fedballot.methods.api import Method
from fedballot.runs.engine import federated_data
from fedballot.settings.parts import CommonSettings
from fedballot.strategies.base import BallotStrategy
from fedballot.strategies.fedmd import FedmdStrategy
from fedballot.strategies.one_shot import OneShotStrategy
from fedballot.strategies.summed import SummedStrategy
from fedballot.strategies.weights import WeightsStrategy
from fedballot.studies.attacks.asking import answered, fresh_server, ready, unmasked
from fedballot.studies.attacks.crafting import Arrays, Heard, Strength, crafted, unseen
from fedballot.studies.attacks.poison import Aim, Pair, wrong_labels
from fedballot.wire.messages import Reply, Request, deserialise, serialise

POISON = 2  # of the stream of worlds


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a run.

    Attributes
    ----------
    labels : int64 (Q,), those that the server releases of public records; of test records where it releases none.
    confusion : float64 (C, C), of the server's model on test records; of the honest clients' where it has none.
    refused : share of the malicious clients' messages that the server refused.
    """

    labels: npt.NDArray[np.int64]
    confusion: npt.NDArray[np.float64]
    refused: float

    @property
    def accuracy(self) -> float:
        """Share of the test records that are labelled rightly."""
        return float(self.confusion.trace() / max(1.0, self.confusion.sum()))

    def mistaken(self, pair: Pair) -> float:
        """Share of the test records of the pair's first class that are labelled as its second."""
        row = self.confusion[pair[0]]
        return float(row[pair[1]] / max(1.0, row.sum()))


class Federation:
    """One federation, some of whose clients may be malicious; its seed says which, and which class they want for which.

    Answers of honest clients to a method of one round do not depend on the others: they are made once, noise included.

    Parameters
    ----------
    method, settings
        The experiment.
    folder
        For what clients keep.
    """

    def __init__(self, method: Method, settings: CommonSettings, folder: Path) -> None:
        self.masked = bool(getattr(settings, "secure_aggregation", False))
        self.settings = unmasked(settings, evaluate_clients=issubclass(method.strategy_class, FedmdStrategy))
        summed = issubclass(method.strategy_class, SummedStrategy)
        self.method = unseen(method) if self.masked and summed else method
        self.folder, self.data = folder, federated_data(settings)
        if self.data.multi_label:
            raise SettingsError("attacks know records of one class each, and these have several labels")
        self.device = ready(method, settings)
        rng = generator(settings.seed, Stream.WORLDS, POISON)
        self.order = [int(number) for number in rng.permutation(len(self.data.parts))]
        there = np.unique(self.data.test_y[self.data.test_y >= 0])
        first, second = (int(label) for label in rng.permutation(there)[:2])
        self.pair: Pair = (first, second)
        self._told: dict[tuple[str, str], Reply] = {}

    def strategy(self) -> BallotStrategy[Any]:
        """The server of a fresh run."""
        return fresh_server(self.method, self.settings, self.data, self.device)

    def play(self, malicious: int, aim: Aim = "untargeted", strength: Strength = "flipped") -> Outcome:
        """A run with so many malicious clients, the first in the federation's order.

        Raises
        ------
        RunError
            If a client refuses, or too few answers are good.
        """
        strategy, bad = self.strategy(), {str(number) for number in self.order[:malicious]}
        names = [*strategy.numbers]
        for ledger in self.folder.glob("*/*/ledger"):  # a run's budget is for one run
            shutil.rmtree(ledger)
        sent = 0
        for server_round in strategy.exchanges():
            requests = strategy.ask(server_round, names)
            theirs = [request for request in requests if request.to in bad]
            answers = []
            for request in requests:
                if request.to not in bad:
                    reply = self._reply(strategy, request, "honest")
                    strategy.receive(replace(reply, arrived=time.time()))
                    answers += [strategy.read(deserialise(reply.tensors))] if theirs else []
            flipped: list[Callable[[], Arrays]] = [partial(self._flipped, strategy, one, aim) for one in theirs]
            if theirs:
                how: Strength = strength if answers else "flipped"
                told = crafted(strategy, how, aim, self.pair, Heard(answers, flipped), masked=self.masked)
                for request, arrays in zip(theirs, told, strict=True):
                    known = {"client_id": int(request.to)}
                    strategy.receive(Reply(request.to, serialise(arrays), known, time.time()))
            sent += len(theirs)
            strategy.conclude(server_round)
        refused = sum(strategy.counts.rejected.values()) / max(1, sent)
        return self._outcome(strategy, refused, bad)

    def _flipped(self, strategy: BallotStrategy[Any], request: Request, aim: Aim) -> Arrays:
        return deserialise(self._reply(strategy, request, aim).tensors)

    def _reply(self, strategy: BallotStrategy[Any], request: Request, who: str) -> Reply:
        """What the method's client says, honestly or trained on an aim's wrong labels."""
        key = (who, request.to)
        if key in self._told and strategy.rounds == 1:
            return self._told[key]
        data = self.data
        if who == "untargeted" or who == "targeted":
            own = data.private
            y = wrong_labels(own.y, "targeted" if who == "targeted" else "untargeted", self.pair, len(data.classes))
            data = replace(data, private=Examples(own.x, y, own.groups))
        folder = ClientFolder(self.folder / who / f"{int(request.to):05d}")
        reply = answered(self.method, self.settings, self.device, request, data, folder)
        if strategy.rounds == 1:
            self._told[key] = reply
        return reply

    def _outcome(self, strategy: BallotStrategy[Any], refused: float, bad: Collection[str]) -> Outcome:
        try:
            metrics = strategy.outcome()["metrics"]
        except RunError:  # nothing can be learned from what came
            size, classes = len(self.data.test_y), len(self.data.classes)
            return Outcome(np.full(size, -1), np.zeros((classes, classes)), refused)
        if "server_measures" in metrics:
            confusion = np.array(metrics["server_measures"]["confusion"], dtype=np.float64)
        else:
            kept = (self.folder / "honest" / f"{number:05d}" for number in self.order if str(number) not in bad)
            figures = [ClientFolder(path).figures() or {} for path in kept]
            confusion = np.sum([one["confusion"] for one in figures], axis=0).astype(np.float64)
        return Outcome(labels_of(strategy), confusion, refused)


def labels_of(strategy: BallotStrategy[Any]) -> npt.NDArray[np.int64]:
    """The labels that a server releases, before it cleans them; those that its model gives the test records elsewhere.

    Raises
    ------
    SettingsError
        If it has neither.
    """
    if isinstance(strategy, OneShotStrategy) and strategy.learned is not None:
        learned = strategy.learned
        for name in ("noisy_labels", "labels"):
            if name in learned.release:
                return np.asarray(learned.release[name], dtype=np.int64)
        if learned.scores is not None:
            return np.asarray(learned.scores.argmax(axis=1), dtype=np.int64)
    if isinstance(strategy, FedmdStrategy) and strategy.consensus is not None:
        return np.asarray(strategy.consensus.argmax(axis=1), dtype=np.int64)
    if isinstance(strategy, WeightsStrategy):
        model = strategy.load(strategy.new_learner(0), strategy.weights)
        return np.asarray(model.predict_logits(strategy.data.test_x).argmax(axis=1), dtype=np.int64)
    raise SettingsError("this method releases neither labels nor a model: nobody has said what poisoning would move")
