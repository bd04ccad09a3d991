"""The server's side of FedAVG+P, a baseline of FedAUXfdp: it averages private heads.

Paper: "FedAUXfdp: Differentially private one-shot federated distillation", Table 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedballot.clients.private_heads import head_codec
from fedballot.distillation.aggregation import VectorMean
from fedballot.settings.heads import PrivateHeadSettings
from fedballot.strategies.base import Answer, Arrays
from fedballot.strategies.fedaux import FrozenStrategy, accuracy_of
from fedballot.strategies.folds import Fold
from fedballot.strategies.one_shot import Kept, Learned


class HeadAverageStrategy(FrozenStrategy[PrivateHeadSettings]):
    """FedAVG+P: the average of the clients' private heads is the server's head."""

    def read(self, arrays: Arrays) -> npt.NDArray[np.float32]:
        return head_codec(self.settings, [(self.classes, self.width)]).read(arrays)[0]

    def keeping(self) -> Fold[Kept]:
        mean = VectorMean()
        return Fold(lambda answer: mean.add(answer.ballot), lambda: {"head": mean.value()})

    def keep(self, answers: Sequence[Answer]) -> Kept:
        return self.keeping().of(answers)

    def learn(self, kept: Kept) -> Learned:
        scores = self.prepared(self.test_features()) @ kept["head"].T
        return Learned(scores, release=kept, round_metrics=accuracy_of(self.data, scores))
