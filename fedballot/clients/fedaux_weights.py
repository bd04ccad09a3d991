"""The client's side of FedAUX itself: full models from the server's weights, and private scores beside them.

Paper: Sattler et al. 2021, "FedAUX: Leveraging unlabeled auxiliary data in federated learning", as told in "FedAUXfdp:
Differentially private one-shot federated distillation", section 3: the scores are private, the models are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedballot.clients.base import Arrays, Asked, Release, request_name
from fedballot.clients.frozen import PublicFeatures
from fedballot.clients.private_heads import Features, FrozenClient, HeadQuestion, fit_score_head
from fedballot.clients.weights import Start, WeightsClient, difference_codec
from fedballot.clients.workspace import Refusal
from fedballot.privacy.mechanism import Composition
from fedballot.settings.fedaux import FedauxSettings
from fedballot.wire.codec import Bundle, Halves
from fedballot.wire.messages import Config


def score_codec(public: PublicFeatures) -> Halves:
    """How a score head (p,) is sent."""
    return Halves((public.features.shape[1] + 1,))


def answer_codec(settings: FedauxSettings, size: int, public: PublicFeatures) -> Bundle:
    """How an answer is sent: the difference of the weights (d,), and the score head (p,)."""
    return Bundle((difference_codec(settings, size), score_codec(public)))


class ScoreClient(FrozenClient[FedauxSettings]):
    """The score head of a client, by itself."""

    def composition(self, question: HeadQuestion) -> Composition:
        return self.workspace.settings.scores(self.facts(question))

    def exact(self, question: HeadQuestion) -> dict[str, Any]:
        return {
            "scores": fit_score_head(Features(question.public, self.workspace.private()), self.workspace.settings.lam)
        }

    def pack(self, question: HeadQuestion, release: Release) -> Arrays:
        """The head (p,) that tells the two classes apart."""
        pair = release["scores"]
        return score_codec(question.public).pack(pair[1] - pair[0])


@dataclass(frozen=True, eq=False)
class FedauxQuestion:
    """A request: the weights to start from, and what the score head is asked under."""

    weights: Start
    scores: HeadQuestion
    asked: Asked


class FedauxClient(WeightsClient[FedauxSettings]):
    """A client of FedAUX: it tells the difference of its weights, and its score head, which is paid for once."""

    def question(self, arrays: Arrays, config: Config) -> Any:
        if len(arrays) not in (1, 2):
            raise Refusal("request", "a request must hold the weights, and those of the extractor where there are any")
        scores = ScoreClient(self.workspace)
        run = {**config, "request": f"{request_name(config).rpartition('/')[0]}/scores", "round": 0}
        asked = scores.asked(arrays[1:], run)
        return FedauxQuestion(super().question(arrays[:1], config), scores.question(arrays[1:], run), asked)

    def exact(self, question: FedauxQuestion) -> dict[str, Any]:
        """Difference of the weights (d,), and the score head (2, p), the same in every round of a run."""
        scores = ScoreClient(self.workspace).release(question.scores, question.asked)["scores"]
        return {**super().exact(question.weights), "scores": scores}

    def pack(self, question: FedauxQuestion, release: Release) -> Arrays:
        """As :func:`answer_codec` reads it."""
        return [*super().pack(question.weights, release), *ScoreClient(self.workspace).pack(question.scores, release)]
