"""FedGen's server: average the weights, then train a generator of features that the clients' last layers agree on.

Paper: Zhu et al. 2021, "Data-free knowledge distillation for heterogeneous federated learning", Algorithm 1; a
baseline of "Preserving privacy in federated learning with ensemble cross-domain knowledge distillation" (FedKD).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.clients.fedgen import answer_codec
from fedballot.clients.weights import Floats
from fedballot.core.seeds import Stream, seed_of
from fedballot.distillation.aggregation import class_weights
from fedballot.learners.base import FloatArray
from fedballot.settings.weights import FedgenSettings
from fedballot.strategies.base import Answer, Arrays
from fedballot.strategies.weights import ModelsStrategy

COUNTS_WARNING = (
    "Each client tells the exact number of its records of each class, in every round, and all are told the share of "
    "each class in the total; label_counts=false does without."
)


class FedgenStrategy(ModelsStrategy[FedgenSettings]):
    """FedAvg that sends a generator with its weights, trained without any data.

    Attributes
    ----------
    generator : float32 (g,)
        The generator's weights.
    shares : float32 (C,)
        Share of each label among the records of the last cohort, from which labels are drawn.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        from fedballot.learners import latent  # needs torch, as every learner with weights does

        n_classes, features = self.new_learner(0).head()[0].shape
        self.generator: Floats = latent.initial(n_classes, features, self._seed(0))
        self.shares: Floats = np.full(n_classes, 1 / n_classes, dtype=np.float32)
        self.generator_loss = float("nan")

    def request(self, server_round: int) -> Arrays:
        """The weights; after the first round also the generator and, where counts are told, the shares of labels."""
        if server_round == 1:
            return [self.weights]
        return [self.weights, self.generator, *([self.shares] if self.settings.label_counts else [])]

    def read(self, arrays: Arrays) -> Floats:
        """Difference of the weights, and after it the class counts, ones where none are told: float32 (d + C,)."""
        difference, *counts = answer_codec(self.settings, self.weights.size, self.shares.size).read(arrays)
        return np.concatenate([difference, *(counts or [np.ones(self.shares.size)])]).astype(np.float32)

    def update(self, server_round: int, answers: Sequence[Answer]) -> Floats:
        """The average of the weights; the generator learns from the clients' last layers (equation 4)."""
        from fedballot.learners import latent

        size, settings = self.weights.size, self.settings
        counts = np.array([answer.ballot[size:] for answer in answers]).astype(np.int64)
        self.shares = (counts.sum(axis=0) / counts.sum()).astype(np.float32)
        self.generator, self.generator_loss = latent.train(
            self.generator,
            latent.Heads.of(list(self.heads(self.models(answers))), class_weights(counts), self.device),
            self.shares,
            steps=settings.generator_steps,
            batch_size=settings.server_batch_size,
            lr=settings.server_lr,
            seed=self._seed(server_round),
        )
        return self.average(self.models(answers))

    def heads(self, answers: Iterable[Answer]) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Last layer of each client's own model after this round, weights (C, d) and bias (C,)."""
        learner = self.new_learner(0)
        for answer in answers:
            yield self.load(learner, self.weights + answer.ballot).head()

    def combine(self, server_round: int, answers: Sequence[Answer]) -> dict[str, Any]:
        return {**super().combine(server_round, answers), "generator_loss": self.generator_loss}

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        return {**super().state(), "generator": self.generator, "shares": self.shares}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        super().restore(state)
        self.generator, self.shares = state["generator"], state["shares"]

    def outcome(self) -> Mapping[str, Any]:
        return {**super().outcome(), "warnings": [COUNTS_WARNING] if self.settings.label_counts else []}

    def _seed(self, number: int) -> int:
        return seed_of(self.settings.seed, Stream.GENERATOR, number)
