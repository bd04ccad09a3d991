"""The client's side of class sums of frozen features: counts and sums of each class, in one release.

Source: ours, after "FedAUXfdp: Differentially private one-shot federated distillation".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fedballot.clients.base import Arrays
from fedballot.clients.frozen import PublicFeatures
from fedballot.clients.private_heads import (
    FrozenClient,
    HeadQuestion,
)
from fedballot.clients.workspace import Refusal
from fedballot.datasets.embedding import AXES, Embedding, fit_embedding
from fedballot.datasets.federation import FederatedData
from fedballot.distillation.certainty import planned_dimension
from fedballot.learners.base import FloatArray
from fedballot.privacy.accounting import gaussian
from fedballot.privacy.mechanism import Facts
from fedballot.settings.class_sums import ClassSumSettings
from fedballot.wire.messages import Config

FARTHEST = 1e6  # largest coordinate of a landmark: larger ones would not leave an embedding finite


A = TypeVar("A", bound=ClassSumSettings)


@lru_cache(maxsize=1)  # the clients of a process share it
def class_axes(settings: ClassSumSettings, data: FederatedData, public: PublicFeatures) -> Embedding:
    """Principal components: the space of the class sums, or that of their landmarks. Public data and numbers alone."""
    most = min(len(public.features) - 1, public.features.shape[1])
    if settings.with_landmarks:
        return fit_embedding(public.features, min(AXES, most))
    if settings.dimension:
        return fit_embedding(public.features, settings.dimension)
    records = settings.records or max(1.0, (data.records or 0) / settings.clients)
    multiplier = 0.0 if math.isinf(settings.epsilon) else gaussian.sigma(1.0, settings.epsilon, settings.delta)
    wanted = planned_dimension(records, settings.clients, len(data.classes), multiplier)
    return fit_embedding(public.features, min(wanted, most))


@dataclass(frozen=True, eq=False)
class SumsQuestion(HeadQuestion):
    """A request for class sums: where they are told."""

    embedding: Embedding


class SumsClient(FrozenClient[A], Generic[A]):
    """A client that tells class sums; what else a request may ask, the next class in line answers."""

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
        shape = (settings.coordinates, axes.axes.shape[1])
        if landmarks is None or landmarks.shape != shape or np.abs(landmarks).max() > FARTHEST:
            raise Refusal("request", f"a request must hold {shape[0]} landmarks in {shape[1]} components")
        return replace(axes, landmarks=landmarks)

    def facts(self, question: HeadQuestion) -> Facts:
        facts = super().facts(question)
        return replace(facts, features=question.embedding.dimension) if isinstance(question, SumsQuestion) else facts

    def exact(self, question: Any) -> dict[str, Any]:
        """The embedded records (n, d) and their labels (n,)."""
        own = self.workspace.private()
        return {"sums": (embedded(question, own.x), own.y)}

    def blank(self, question: HeadQuestion) -> dict[str, Any]:
        if not isinstance(question, SumsQuestion):
            return super().blank(question)
        return {"sums": (np.zeros((0, question.embedding.dimension), np.float32), np.zeros(0, np.int64))}


def embedded(question: SumsQuestion, x: npt.NDArray[np.generic]) -> FloatArray:
    """Embeddings (n, d) of private records; one that has none, for its numbers are too large, counts as 0."""
    with np.errstate(all="ignore"):
        z = question.embedding.transform(question.public.extractor.total(x))
    return np.where(np.isfinite(z).all(axis=1, keepdims=True), z, np.float32(0))
