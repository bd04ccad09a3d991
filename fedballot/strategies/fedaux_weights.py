"""The server's side of FedAUX itself: average the models, then distil all of them, weighted by the private scores.

Paper: Sattler et al. 2021, "FedAUX: Leveraging unlabeled auxiliary data in federated learning", as told in "FedAUXfdp:
Differentially private one-shot federated distillation", section 3 and equation 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from fedballot.clients.fedaux_weights import answer_codec
from fedballot.clients.frozen import PublicFeatures, public_features
from fedballot.clients.weights import Floats
from fedballot.distillation.aggregation import WeightedMean
from fedballot.distillation.certainty import score
from fedballot.learners.flat import flatten
from fedballot.learners.steps import SIMCLR
from fedballot.privacy.guarantee import Guarantee
from fedballot.privacy.mechanisms.heads import prepare
from fedballot.settings.fedaux import FedauxSettings
from fedballot.strategies.base import Answer, Arrays
from fedballot.strategies.fedaux import SCORE_FLOOR, facts_of_heads
from fedballot.strategies.weights import ModelsStrategy, server_training


class FedauxStrategy(ModelsStrategy[FedauxSettings]):
    """FederatedAveraging whose average goes on to learn what the clients' models say of the public records."""

    @cached_property
    def public(self) -> PublicFeatures:
        """The public pool's features."""
        return public_features(self.settings, self.data, self.device)

    @property
    def training(self) -> dict[str, Any]:
        return server_training(self.settings)

    def ready(self) -> list[Guarantee]:
        """As always, once there is noise for the scores, which no guarantee of the models speaks of."""
        self.settings.scores(facts_of_heads(self.facts(), self.data, self.public)).guarantees()
        return super().ready()

    def request(self, server_round: int) -> Arrays:
        """The weights, and those of the extractor, where the server has trained one."""
        network = self.public.extractor.network
        if network is None:
            return [self.weights]
        if server_round == 1 and self.settings.extractor == f"{SIMCLR}{self.settings.model}":
            # the extractor is the model without its last layer, so its weights are the first ones
            self.weights = np.concatenate([network, self.weights[network.size :]]).astype(np.float32)
        return [self.weights, network]

    def read(self, arrays: Arrays) -> Floats:
        """Difference of the weights, and after it the score head, float32 (d + p,)."""
        return np.concatenate(answer_codec(self.settings, self.weights.size, self.public).read(arrays))

    def update(self, server_round: int, answers: Sequence[Answer]) -> Floats:
        """Average the models; from there, learn sum_i f_i(x) g_i(x) / sum_i f_i(x) (equation 1)."""
        x = np.asarray(self.data.public_x[self.public.distil])
        learner = self.load(self.new_learner(server_round), self.average(self.models(answers)))
        learner.distill(x, self._soft(answers, x).astype(np.float32))
        return flatten(learner.get_weights())

    def _soft(self, answers: Sequence[Answer], x: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        on_logits = self.settings.weighting == "logits"
        rows = prepare(self.public.features[self.public.distil], self.public.bound)
        mean = WeightedMean((len(x), len(self.data.classes)))
        for answer, told in zip(answers, self.client_logits(self.models(answers), x), strict=True):
            logits = told[:, : len(self.data.classes)].astype(np.float64)
            certain = np.maximum(score(rows, answer.ballot[self.weights.size :]), SCORE_FLOOR)
            mean.add(logits if on_logits else softmax(logits, axis=1), certain)
        return np.asarray(softmax(mean.value(), axis=1)) if on_logits else mean.value()
