"""The client's side of FedGen: train from the server's weights, on its own records and on generated features.

Paper: Zhu et al. 2021, "Data-free knowledge distillation for heterogeneous federated learning", Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedballot.clients.base import Arrays, Release
from fedballot.clients.fedkd import class_counts
from fedballot.clients.weights import Start, WeightsClient, difference_codec
from fedballot.clients.workspace import Refusal
from fedballot.learners.base import Learner
from fedballot.learners.objectives import Replay
from fedballot.settings.weights import FedgenSettings
from fedballot.wire.codec import Bundle, Counts, Singles
from fedballot.wire.messages import Config
from fedballot.wire.packing import WireError


def answer_codec(settings: FedgenSettings, size: int, n_classes: int) -> Bundle:
    """How an answer is sent: the difference of the weights (d,), and class counts (C,) if the settings ask."""
    difference = difference_codec(settings, size)
    return Bundle((difference, Counts(n_classes)) if settings.label_counts else (difference,))


@dataclass(frozen=True, eq=False)
class FedgenQuestion(Start):
    """A request: the weights to start from, and what generates features; None in the first round."""

    replay: Replay | None


class FedgenClient(WeightsClient[FedgenSettings]):
    """One client. It keeps nothing between rounds."""

    _replay: Replay | None = None

    def question(self, arrays: Arrays, config: Config) -> FedgenQuestion:
        replay = self.received(arrays[1:]) if self._round(config) > 1 else None
        start = super().question(arrays[:1], config)
        return FedgenQuestion(start.round, start.weights, replay)

    def exact(self, question: FedgenQuestion) -> dict[str, Any]:
        """Difference (d,) of the weights, and the class counts (C,)."""
        self._replay = question.replay
        counts = class_counts(self.workspace.private().y, len(self.workspace.data.classes))
        return {**super().exact(question), "counts": counts}

    def pack(self, question: FedgenQuestion, release: Release) -> Arrays:
        settings, difference, counts = self.workspace.settings, release["difference"], release["counts"]
        codec = answer_codec(settings, difference.size, counts.size)
        return codec.pack([difference, counts] if settings.label_counts else [difference])

    def train(self, learner: Learner, number: int) -> None:
        """Train towards equation 5; in the first round there is no generator yet."""
        own = self.workspace.private()
        learner.fit(own.x, own.y, objective=self._replay)

    def received(self, arrays: Arrays) -> Replay:
        """The generator (g,) that the server sent, and the shares (C,) of labels that clients have told it of."""
        settings, n_classes = self.workspace.settings, len(self.workspace.data.classes)
        if len(arrays) != 1 + settings.label_counts:
            raise Refusal("request", "a request must hold the weights, the generator's, and shares of labels if told")
        shares = np.full(n_classes, 1 / n_classes, dtype=np.float32)
        try:
            generator = Singles((arrays[0].size,)).read(arrays[:1])
            if settings.label_counts:
                shares = Singles((n_classes,)).read(arrays[1:])
        except WireError as error:
            raise Refusal("request", f"the generator cannot be read: {error}") from error
        if shares.min() < 0 or shares.sum() <= 0:
            raise Refusal("request", "shares of labels must be at least 0, and not all 0")
        return Replay(generator, shares, settings.replay)
