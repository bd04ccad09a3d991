"""FedDF's server: average the weights, then distil the ensemble of the clients' models into that average.

Paper: Lin et al. 2020, "Ensemble distillation for robust model fusion in federated learning", Algorithm 1; a baseline
of "Preserving privacy in federated learning with ensemble cross-domain knowledge distillation" (FedKD).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import softmax

from fedballot.clients.weights import Floats
from fedballot.learners.flat import flatten
from fedballot.settings.weights import FeddfSettings
from fedballot.strategies.base import Answer
from fedballot.strategies.weights import ModelsStrategy, server_training


class FeddfStrategy(ModelsStrategy[FeddfSettings]):
    """FedAvg whose average learns, each round, from the mean logits of the clients' models on the public pool."""

    @property
    def training(self) -> dict[str, Any]:
        return server_training(self.settings)

    def update(self, server_round: int, answers: Sequence[Answer]) -> Floats:
        """The next weights (d,), after ``server_epochs`` epochs towards the ensemble (Algorithm 1, lines 6 to 10)."""
        pool = np.asarray(self.data.public_x)
        logits = np.zeros((len(pool), len(self.data.classes)))
        for each in self.client_logits(answers, pool):
            logits += each / len(answers)
        learner = self.load(self.new_learner(server_round), self.average(answers))
        learner.distill(pool, softmax(logits, axis=1).astype(np.float32))
        return flatten(learner.get_weights())
