"""Private linear heads on frozen public features: the client's side that FedAUXfdp and its baselines have in common.

Paper: "FedAUXfdp: Differentially private one-shot federated distillation", section 3; baselines of its Table 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fedballot.clients.base import Arrays, BallotClient, Release
from fedballot.clients.frozen import PublicFeatures, public_features
from fedballot.clients.workspace import EVALUATED, Refusal
from fedballot.core.metrics import confusion_matrix
from fedballot.datasets.examples import Examples
from fedballot.distillation.certainty import score
from fedballot.learners.base import FloatArray
from fedballot.privacy.mechanism import Facts
from fedballot.privacy.mechanisms.heads import Head, fit_head, prepare
from fedballot.privacy.noise.randomness import NoiseSource, secret_noise
from fedballot.settings.heads import ClassHeadSettings, FrozenSettings
from fedballot.wire.codec import Bundle, Halves, Levels
from fedballot.wire.messages import Config

Floats = npt.NDArray[np.float64]


F = TypeVar("F", bound=FrozenSettings)
S = TypeVar("S", bound=ClassHeadSettings)


def head_codec(settings: ClassHeadSettings, shapes: Sequence[tuple[int, ...]]) -> Bundle:
    """How arrays of these shapes are sent, in the precision that the settings name."""
    return Bundle(tuple(Halves(shape) if settings.precision == "float16" else Levels(shape) for shape in shapes))


def pack(values: Sequence[npt.NDArray[np.floating]], settings: ClassHeadSettings) -> Arrays:
    """Arrays as :func:`head_codec` sends them."""
    return head_codec(settings, [value.shape for value in values]).pack(values)


class Features:
    """Features of a client and of the public pool as heads take them; its own are extracted when first asked for."""

    def __init__(self, public: PublicFeatures, own: Examples) -> None:
        self.public, self.own = public, own
        self.width = public.features.shape[1] + 1

    def prepared(self, x: npt.NDArray[np.generic]) -> Floats:
        """Raw records as rows (n, p) of norm at most 1, clipped to the public bound, the constant first."""
        return prepare(self.public.extractor.transform(x), self.public.bound)

    @cached_property
    def private(self) -> Floats:
        """The client's records; what is no number counts as 0."""
        return prepare(self.public.extractor.total(self.own.x), self.public.bound)

    @property
    def negatives(self) -> Floats:
        """Public records that score heads tell apart from the client's."""
        return prepare(self.public.features[self.public.auxiliary], self.public.bound)


@dataclass(frozen=True, eq=False)
class HeadQuestion:
    """A request: the public features that it leads to, and what else it brings."""

    public: PublicFeatures
    landmarks: FloatArray | None


class FrozenClient(BallotClient[F], Generic[F]):
    """A client that tells something of the frozen features of its records."""

    def question(self, arrays: Arrays, config: Config) -> HeadQuestion:
        """The request's weights of the extractor and landmarks, as far as it holds them, and the public features."""
        kinds = [array.ndim for array in arrays]
        sound = all(array.dtype == np.float32 and np.isfinite(array).all() for array in arrays)
        if not sound or kinds not in ([], [1], *([[2], [1, 2]] if self.landmarked else [])):
            raise Refusal("request", "a request must hold nothing, or the weights of the extractor, float32")
        found = {array.ndim: np.asarray(array, dtype=np.float32) for array in arrays}
        public = public_features(self.workspace.settings, self.workspace.data, self.workspace.device, found.get(1))
        return HeadQuestion(public, found.get(2))

    @property
    def landmarked(self) -> bool:
        """Whether requests bring landmarks."""
        return False

    @property
    def classes(self) -> int:
        """Size of the global label set, C."""
        return len(self.workspace.data.classes)

    def facts(self, question: HeadQuestion) -> Facts:
        features, negatives = question.public.features.shape[1], len(question.public.auxiliary)
        return replace(super().facts(question), features=features, negatives=negatives)

    def blank(self, question: HeadQuestion) -> dict[str, Any]:
        return {
            name: Head(np.zeros((self.classes if name == "classes" else 2, question.public.features.shape[1] + 1)), 0.0)
            for name in self.composition(question).parts
        }

    def note(self, predicted: npt.NDArray[np.int64]) -> None:
        """Keep how the client's own model does on test records, for its own eyes."""
        data = self.workspace.data
        matrix = confusion_matrix(data.test_y[:EVALUATED], predicted, len(data.classes))
        self.workspace.folder.note({"confusion": matrix.tolist()})

    def noise(self, part: str, question: Any) -> NoiseSource:
        """Noise of a part: each has a stream of its own."""
        stream = ("classes", "scores", "sums").index(part) if part in ("classes", "scores", "sums") else 0
        return secret_noise(self.workspace.settings.noise_seed, self.workspace.client_id, stream)


class HeadClient(FrozenClient[S], Generic[S]):
    """A client that tells a private class head, and a score head where the method has one."""

    def exact(self, question: HeadQuestion) -> dict[str, Any]:
        """Class head (C, p), and score head (2, p): own records against the public negatives."""
        settings, features = self.workspace.settings, Features(question.public, self.workspace.private())
        heads = {"classes": self._fitted(features)}
        if settings.with_scores:
            heads["scores"] = fit_score_head(features, settings.lam)
        return heads

    def pack(self, question: HeadQuestion, release: Release) -> Arrays:
        """Heads [(C, p), (p,)], or what they say of the public records [(Q, C), (Q,)]."""
        settings = self.workspace.settings
        heads = [release["classes"]]
        if settings.with_scores:
            heads.append(release["scores"][1] - release["scores"][0])
        if settings.told == "heads":
            return pack(heads, settings)
        rows = distil_rows(question.public)
        logits = rows @ heads[0].T
        told = [logits - logits.mean(axis=1, keepdims=True), *(score(rows, head) for head in heads[1:])]
        return pack(told, settings)

    def _fitted(self, features: Features) -> Head:
        """The client's class head before noise; how well it does stays in the client's folder."""
        data, settings = self.workspace.data, self.workspace.settings
        head = fit_head(features.private, features.own.y, len(data.classes), settings.lam)
        if settings.evaluate_clients:
            test = features.prepared(np.asarray(data.test_x[:EVALUATED]))
            self.note((test @ head.weights.T).argmax(axis=1))
        return head


def fit_score_head(features: Features, lam: float) -> Head:
    """Own records against the public negatives: two classes and 2 lambda are one head."""
    both = np.vstack([features.private, features.negatives])
    labels = np.repeat([1, 0], [len(features.private), len(features.negatives)])
    return fit_head(both, labels, 2, 2 * lam)


def distil_rows(public: PublicFeatures) -> Floats:
    """Public records that are distilled on, as heads take them (Q, p)."""
    return prepare(public.features[public.distil], public.bound)
