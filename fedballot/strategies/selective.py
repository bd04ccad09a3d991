"""The server's side of DS-FL and Selective-FD: FedMD's, with something done to the average before it is sent back.

Papers: see :mod:`fedballot.settings.selective`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from fedballot.clients.selective import ballot
from fedballot.core.folders import RunFolder
from fedballot.distillation.aggregation import WeightedMean
from fedballot.distillation.selection import ambiguity
from fedballot.learners import storage
from fedballot.learners.seen import seen_by
from fedballot.settings.selective import DsflSettings, SelectiveSettings
from fedballot.strategies.base import Answer, Arrays
from fedballot.strategies.fedmd import FedmdStrategy
from fedballot.strategies.folds import Fold
from fedballot.strategies.one_shot import measured


def sharpen(mean: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Equation 15 of DS-FL: the softmax of average predictions (Q, C) over the temperature."""
    return np.asarray(softmax(mean / temperature, axis=1))


class DsflStrategy(FedmdStrategy[DsflSettings]):
    """Each round: average, sharpen, distil the server's model (Algorithm 1 of DS-FL); the model is kept."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        settings = self.settings
        self.seen = seen_by(settings.server_features, self.data, settings.components, self.device)
        self.student = self.new_student(self.seen.public_x.shape[1:])

    def averaging(self) -> Fold[NDArray[np.float64]]:
        return super().averaging().then(lambda mean: sharpen(mean, self.settings.temperature))

    def agree(self, server_round: int, consensus: NDArray[np.float64]) -> dict[str, Any]:
        metrics, rows = super().agree(server_round, consensus), self.queries(server_round)
        self.student.distill(self.seen.public_x[rows], consensus.astype(np.float32))
        return {**metrics, **self.accuracy()}

    def accuracy(self) -> dict[str, Any]:
        """Of the server's model, on the test records."""
        return measured(self.seen, self.student.predict_logits(self.seen.test_x))

    def state(self) -> Mapping[str, NDArray[Any]]:
        return {**super().state(), "student": storage.to_array(self.student)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().restore(state)
        storage.from_array(self.student, state["student"])

    def outcome(self) -> Mapping[str, Any]:
        outcome = super().outcome()
        return {**outcome, "metrics": {**outcome["metrics"], **self.accuracy()}}

    def save(self, folder: RunFolder) -> None:
        super().save(folder)
        self.student.save(folder.path / "server-model-0")


class SelectiveStrategy(FedmdStrategy[SelectiveSettings]):
    """Each round: average what clients answered, and send back what is clear."""

    kept: NDArray[np.int64] | None = None

    def read(self, arrays: Arrays) -> NDArray[Any]:
        return ballot(self.settings, self.shape).read(arrays)

    def averaging(self) -> Fold[NDArray[np.float64]]:
        """The average (Q, C) of those that answered; 0 where nobody did."""
        mean = WeightedMean(self.shape)
        return Fold(
            lambda answer: mean.add(answer.ballot, self._weight(answer)),
            lambda: mean.value(blank=True),
        )

    def _weight(self, answer: Answer) -> NDArray[np.floating]:
        return np.asarray(super()._weight(answer) * answer.ballot.any(axis=1))

    def agree(self, server_round: int, consensus: NDArray[np.float64]) -> dict[str, Any]:
        settings, answered = self.settings, consensus.any(axis=1)
        clear = answered & (ambiguity(consensus, settings.ambiguity) <= settings.ambiguity_limit)
        self.kept = self.queries(server_round)[clear]
        metrics = super().agree(server_round, consensus[clear]) if clear.any() else {"consensus_accuracy": None}
        self.consensus = consensus[clear]
        return {**metrics, "answered_share": float(answered.mean()), "kept_share": float(clear.mean())}

    def agreed_on(self, server_round: int) -> NDArray[np.int64]:
        return self.queries(server_round) if self.kept is None else self.kept

    def state(self) -> Mapping[str, NDArray[Any]]:
        state = super().state()
        return state if self.kept is None else {**state, "kept": self.kept}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().restore(state)
        self.kept = state["kept"]

    def outcome(self) -> Mapping[str, Any]:
        outcome, last = super().outcome(), self.round_records[-1]["metrics"]
        shares = {name: last.get(name) for name in ("answered_share", "kept_share")}
        return {**outcome, "metrics": {**outcome["metrics"], **shares}}
