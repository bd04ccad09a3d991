"""The server's side of methods that share weights: send them out, average what comes back, round after round.

Paper: McMahan et al. 2017, "Communication-efficient learning of deep networks from decentralized data", Algorithm 1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fedballot.clients.weights import Floats, difference_codec
from fedballot.core.errors import SettingsError
from fedballot.core.folders import RunFolder
from fedballot.core.metrics import accuracy, confusion_matrix
from fedballot.core.seeds import Stream, generator, seed_of
from fedballot.distillation.aggregation import VectorMean, momentum_step
from fedballot.learners.base import FloatArray, Inputs, Learner
from fedballot.learners.flat import flatten, unflatten
from fedballot.learners.registry import make_learner
from fedballot.settings.parts import ServerEpochs
from fedballot.settings.robust import RobustAggregation
from fedballot.settings.weights import MomentumSettings, WeightsSettings
from fedballot.strategies.base import Answer, Arrays, BallotStrategy
from fedballot.strategies.folds import Fold
from fedballot.strategies.hooks import Name
from fedballot.strategies.one_shot import measured
from fedballot.strategies.robust import combined

S = TypeVar("S", bound=WeightsSettings)
MEASURED = 1000  # test records after each round but the last


def server_training(settings: ServerEpochs) -> dict[str, Any]:
    """Epochs, batch size and learning rate of a server that trains the shared model on."""
    return {
        "epochs": settings.server_epochs,
        "batch_size": settings.server_batch_size,
        "lr": settings.server_lr,
    }


class WeightsStrategy(BallotStrategy[S], Generic[S]):
    """FederatedAveraging. A subclass says by :meth:`averaging` and :meth:`moved` what the next weights are.

    Attributes
    ----------
    weights : float32 (d,)
        The shared model's, as one vector.
    """

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        models = self.settings.client_models
        if len(models) != 1:
            raise SettingsError(
                f"client_models={','.join(models)} names {len(models)} learners, but weights are averaged over one "
                "kind: name one"
            )
        self.rounds = self.settings.rounds
        initial = self.new_learner(0).get_weights()
        self.shapes = [w.shape for w in initial]
        self.weights: Floats = flatten(initial)

    # what subclasses build on

    def averaging(self) -> Fold[npt.NDArray[np.float64]]:
        """Average of the answers' differences (d,), equal or by public sizes; or their median or trimmed mean."""
        settings = self.settings
        if isinstance(settings, RobustAggregation) and settings.robust:
            return self.everyone().then(partial(combined, settings))
        sized, mean = settings.by_size, VectorMean()

        def add(answer: Answer) -> None:
            mean.add(answer.ballot, float(self.data.parts[answer.client_id].size) if sized else 1.0)

        return Fold(add, mean.value)

    def moved(self, difference: npt.NDArray[np.float64]) -> Floats:
        """The next weights (d,), from the average difference to the present ones."""
        return (self.weights + difference).astype(np.float32)

    def client_logits(self, answers: Iterable[Answer], x: Inputs) -> Iterator[FloatArray]:
        """Logits (n, C) of each client's own model after this round, one after the other."""
        learner = self.new_learner(0)
        for answer in answers:
            yield self.load(learner, self.weights + answer.ballot).predict_logits(x)

    def new_learner(self, stream: int) -> Learner:
        """A learner of the shared kind; each stream trains in an order of its own."""
        settings = self.settings
        return make_learner(
            settings.model,
            n_classes=len(self.data.classes),
            input_shape=self.data.public_x.shape[1:],
            seed=seed_of(settings.seed, Stream.SHARED_MODEL, stream),
            device=self.device,
            augment=self.data.augment,
            **self.training,
        )

    @property
    def training(self) -> dict[str, Any]:
        """Epochs, batch size and learning rate of the server's training, where it trains: the clients'."""
        return {"epochs": self.settings.epochs, "batch_size": self.settings.batch_size, "lr": self.settings.lr}

    def load(self, learner: Learner, weights: Floats) -> Learner:
        """The learner with these weights (d,)."""
        return learner.set_weights(unflatten(weights, self.shapes))

    # what BallotStrategy asks for

    @property
    def asks_all(self) -> bool:
        return self.settings.participation == 1

    def cohort(self, server_round: int, connected: list[Name]) -> list[Name]:
        size = min(self.settings.cohort_size, len(connected))
        order = generator(self.settings.seed, Stream.COHORT, server_round).permutation(len(connected))
        return [connected[index] for index in np.sort(order[:size])]

    def min_clients_of(self, asked: int) -> int:
        """The same share of a cohort as of all clients."""
        return self.min_clients if self.settings.participation == 1 else -(-self.min_clients * asked // self.nodes)

    def request(self, server_round: int) -> Arrays:
        return [self.weights]

    def read(self, arrays: Arrays) -> Floats:
        return difference_codec(self.settings, self.weights.size).read(arrays)

    def fold(self, server_round: int) -> Fold[dict[str, Any]]:
        return self.averaging().then(self.moved).then(self.go_on)

    def combine(self, server_round: int, answers: Sequence[Answer]) -> dict[str, Any]:
        return self.fold(server_round).of(answers)

    def go_on(self, weights: Floats) -> dict[str, Any]:
        """Go on with these weights (d,); returns the round's metrics."""
        self.weights = weights
        logits = self.load(self.new_learner(0), self.weights).predict_logits(self.data.test_x[:MEASURED])
        matrix = confusion_matrix(self.data.test_y[:MEASURED], logits.argmax(axis=1), len(self.data.classes))
        return {"server_accuracy": accuracy(matrix)}

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        return {"weights": self.weights}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self.weights = state["weights"]

    def outcome(self) -> Mapping[str, Any]:
        logits = self.load(self.new_learner(0), self.weights).predict_logits(self.data.test_x)
        return {"metrics": measured(self.data, logits), "distill_s": 0.0}

    def save(self, folder: RunFolder) -> None:
        """Keep the shared model."""
        self.load(self.new_learner(0), self.weights).save(folder.path / "server-model-0")


class ModelsStrategy(WeightsStrategy[S], Generic[S]):
    """FederatedAveraging that looks at every client's model: answers wait for the end of the round."""

    @abstractmethod
    def update(self, server_round: int, answers: Sequence[Answer]) -> Floats:
        """The next weights (d,), from answers whose ballots begin with differences (d,) to the present ones."""

    def fold(self, server_round: int) -> Fold[dict[str, Any]]:
        return self.everyone().then(partial(self.combine, server_round))

    def combine(self, server_round: int, answers: Sequence[Answer]) -> dict[str, Any]:
        return self.go_on(self.update(server_round, answers))

    def average(self, answers: Iterable[Answer]) -> Floats:
        """The weights (d,) that FederatedAveraging goes on with."""
        return self.averaging().then(self.moved).of(answers)

    def models(self, answers: Iterable[Answer]) -> Iterator[Answer]:
        """The differences (d,) alone, one after the other, of answers that tell more."""
        return (replace(answer, ballot=answer.ballot[: self.weights.size]) for answer in answers)


M = TypeVar("M", bound=MomentumSettings)


class MomentumStrategy(WeightsStrategy[M], Generic[M]):
    """FedAvgM: the server moves along a running sum of the average differences."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.velocity: npt.NDArray[np.float64] = np.zeros(self.weights.size)

    def moved(self, difference: npt.NDArray[np.float64]) -> Floats:
        self.velocity = momentum_step(self.velocity, difference, self.settings.momentum)
        return (self.weights + self.settings.server_step * self.velocity).astype(np.float32)

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        return {**super().state(), "velocity": self.velocity}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        super().restore(state)
        self.velocity = state["velocity"]
