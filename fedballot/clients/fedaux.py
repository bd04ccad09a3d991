"""The client's side of FedAUXfdp, and of FedAUX with a frozen extractor: what leaves is about frozen features.

Paper: "FedAUXfdp: Differentially private one-shot federated distillation", Algorithm 1 and section 3.
`head = "logistic"` is the paper's: a score head against public negatives and a class head, each with its own budget.
`head = "class-sums"` is ours: class counts and sums in one release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fedballot.clients.base import EVALUATED, Arrays, Refusal, Release
from fedballot.clients.frozen import PublicFeatures
from fedballot.clients.private_heads import (
    Features,
    HeadClient,
    HeadQuestion,
    distil_rows,
    fit_score_head,
    pack,
)
from fedballot.datasets.embedding import AXES, Embedding, fit_embedding
from fedballot.datasets.federation import FederatedData
from fedballot.distillation.certainty import planned_dimension, score
from fedballot.learners.base import FloatArray
from fedballot.learners.registry import make_learner
from fedballot.privacy.accounting import gaussian
from fedballot.privacy.mechanism import Facts
from fedballot.settings.fedaux import FedauxfdpSettings, FedauxFSettings
from fedballot.wire.messages import Config

FARTHEST = 1e6  # largest coordinate of a landmark: larger ones would not leave an embedding finite


A = TypeVar("A", bound=FedauxfdpSettings)


@lru_cache(maxsize=1)  # the clients of a process share it
def class_axes(settings: FedauxfdpSettings, data: FederatedData, public: PublicFeatures) -> Embedding:
    """Principal components: the space of the class sums, or that of their landmarks. Public data and numbers alone."""
    most = min(len(public.features) - 1, public.features.shape[1])
    if settings.with_landmarks:
        return fit_embedding(public.features, min(AXES, most))
    records = settings.records or max(1.0, sum(part.size for part in data.parts) / settings.clients)
    multiplier = 0.0 if math.isinf(settings.epsilon) else gaussian.sigma(1.0, settings.epsilon, settings.delta)
    wanted = settings.dimension or planned_dimension(records, settings.clients, len(data.classes), multiplier)
    return fit_embedding(public.features, min(wanted, most))


@dataclass(frozen=True, eq=False)
class SumsQuestion(HeadQuestion):
    """A request for class sums: where they are told."""

    embedding: Embedding


class FedauxfdpClient(HeadClient[A], Generic[A]):
    """A client of FedAUXfdp: class sums, or the paper's heads."""

    @property
    def landmarked(self) -> bool:
        return self.workspace.settings.with_landmarks

    def question(self, arrays: Arrays, config: Config) -> HeadQuestion:
        asked = super().question(arrays, config)
        if self.workspace.settings.logistic:
            return asked
        return SumsQuestion(asked.public, asked.landmarks, self.embedding(asked.public, asked.landmarks))

    def embedding(self, public: PublicFeatures, landmarks: FloatArray | None) -> Embedding:
        """Where the class sums are told."""
        settings = self.workspace.settings
        axes = class_axes(settings, self.workspace.data, public)
        if not settings.with_landmarks:
            return axes
        shape = (settings.landmarks, axes.axes.shape[1])
        if landmarks is None or landmarks.shape != shape or np.abs(landmarks).max() > FARTHEST:
            raise Refusal("request", f"a request must hold {shape[0]} landmarks in {shape[1]} components")
        return replace(axes, landmarks=landmarks)

    def facts(self, question: HeadQuestion) -> Facts:
        facts = super().facts(question)
        return replace(facts, features=question.embedding.dimension) if isinstance(question, SumsQuestion) else facts

    def exact(self, question: HeadQuestion) -> dict[str, Any]:
        """With class sums: the embedded records (n, d) and their labels (n,)."""
        if not isinstance(question, SumsQuestion):
            return super().exact(question)
        own = self.workspace.private()
        return {"sums": (embedded(question, own.x), own.y)}

    def blank(self, question: HeadQuestion) -> dict[str, Any]:
        if not isinstance(question, SumsQuestion):
            return super().blank(question)
        return {"sums": (np.zeros((0, question.embedding.dimension), np.float32), np.zeros(0, np.int64))}

    def pack(self, question: HeadQuestion, release: Release) -> Arrays:
        """Heads or what they say of the public records, or class sums [(C, 1 + d)]."""
        if not isinstance(question, SumsQuestion):
            return super().pack(question, release)
        return pack([release["sums"]], self.workspace.settings)


def embedded(question: SumsQuestion, x: npt.NDArray[np.generic]) -> FloatArray:
    """Embeddings (n, d) of private records; one that has none, for its numbers are too large, counts as 0."""
    with np.errstate(all="ignore"):
        z = question.embedding.transform(question.public.extractor.total(x))
    return np.where(np.isfinite(z).all(axis=1, keepdims=True), z, np.float32(0))


class FedauxFClient(HeadClient[FedauxFSettings]):
    """A client of FedAUX with a frozen extractor: its class head is any learner, trained without noise."""

    def exact(self, question: HeadQuestion) -> dict[str, Any]:
        """Predictions of the class learner on the public records (Q, C), and the score head (2, p)."""
        workspace, settings = self.workspace, self.workspace.settings
        features, names = Features(question.public, workspace.private()), settings.client_models
        learner = make_learner(
            names[workspace.client_id % len(names)],
            n_classes=len(workspace.data.classes),
            input_shape=(features.width,),
            seed=int(np.random.SeedSequence([settings.seed, workspace.client_id]).generate_state(1)[0]),
            device=workspace.device,
            epochs=settings.epochs,
            batch_size=settings.batch_size,
            lr=settings.lr,
        ).fit(features.private.astype(np.float32), features.own.y)
        if settings.evaluate_clients:
            test = features.prepared(np.asarray(workspace.data.test_x[:EVALUATED])).astype(np.float32)
            self.note(learner.predict_logits(test).argmax(axis=1))
        logits = learner.predict_logits(distil_rows(question.public).astype(np.float32)).astype(np.float64)
        return {"predictions": logits, "scores": fit_score_head(features, settings.lam)}

    def pack(self, question: HeadQuestion, release: Release) -> Arrays:
        """Predictions (Q, C) and private scores (Q,)."""
        logits, pair = release["predictions"], release["scores"]
        scores = score(distil_rows(question.public), pair[1] - pair[0])
        return pack([logits - logits.mean(axis=1, keepdims=True), scores], self.workspace.settings)
