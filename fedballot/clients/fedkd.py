"""The client's side of FedKD: train to the end, answer every public record once, with quantised logits or noisy ones.

Paper: "Preserving privacy in federated learning with ensemble cross-domain knowledge distillation", Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fedballot.clients.base import Arrays, BallotClient, Release, query_rows
from fedballot.clients.summed import SummedClient
from fedballot.clients.workspace import EVALUATED
from fedballot.datasets.copies import check_images, public_copy
from fedballot.learners.base import Learner
from fedballot.privacy.mechanisms.logits import NoisyLogits
from fedballot.privacy.mechanisms.quantise import Quantiser
from fedballot.settings.fedkd import EnsembleSettings, FedkdDpSettings, FedkdSettings, ballot_form, mechanism
from fedballot.wire.codec import Counts, Singles
from fedballot.wire.coded import CodedLabels
from fedballot.wire.messages import Config
from fedballot.wire.packing import WireError
from fedballot.wire.secagg import Form

Floats = npt.NDArray[np.floating]
Indices = npt.NDArray[np.int64]


S = TypeVar("S", bound=EnsembleSettings)


def class_counts(y: npt.NDArray[np.integer], n_classes: int) -> Indices:
    """Records of each class, int64 (C,): N of equation 1; positive ones where a record has several labels."""
    if y.ndim == 2:
        return np.asarray((y == 1).sum(axis=0), dtype=np.int64)
    return np.bincount(y, minlength=n_classes).astype(np.int64)


@dataclass(frozen=True)
class KdAnswer:
    """A client's answer on the wire: logits (Q, C) as levels, coded, then what the settings do not declare public.

    That is the largest logit, where it bounds the levels, and the class counts (C,), where clients are weighed by them.
    """

    shape: tuple[int, int]
    settings: FedkdSettings

    @property
    def counts(self) -> Counts | None:
        """How class counts are sent, if they are."""
        return Counts(self.shape[1]) if self.settings.weights == "class-counts" else None

    @property
    def levels(self) -> CodedLabels:
        """How levels are sent."""
        return CodedLabels(self.shape[0] * self.shape[1], self.settings.levels)

    @property
    def array_count(self) -> int:
        """How many arrays an answer takes."""
        return 1 + (not self.settings.logit_bound) + (self.counts is not None)

    def pack(self, logits: Floats, counts: Indices) -> Arrays:
        """The arrays that are sent."""
        singles, levels = np.finfo(np.float32), self.settings.levels
        largest = np.clip(np.abs(logits).max(initial=0.0), singles.tiny, singles.max)  # constant logits are all 0
        bound = self.settings.logit_bound or float(np.float32(largest))
        arrays: Arrays = self.levels.pack(Quantiser(bound, levels).encode(logits).ravel())
        if not self.settings.logit_bound:
            arrays += Singles((1,)).pack(np.array([bound]))
        return arrays + self.counts.pack(counts) if self.counts else arrays

    def read(self, arrays: Arrays) -> tuple[npt.NDArray[np.float32], Indices]:
        """Logits (Q, C), to the nearest level, and class counts (C,); ones where all clients weigh the same.

        Raises
        ------
        WireError
            If the arrays hold something else.
        """
        if len(arrays) != self.array_count:
            raise WireError("count", f"expected {self.array_count} arrays, got {len(arrays)}")
        bound, levels = np.float32(self.settings.logit_bound), self.settings.levels
        if not self.settings.logit_bound:
            (bound,) = Singles((1,)).read(arrays[1:2])
            if not bound > 0:
                raise WireError("range", f"the largest logit is {bound}; expected a number above 0")
        counts = self.counts.read(arrays[-1:]) if self.counts else np.ones(self.shape[1], dtype=np.int64)
        index = self.levels.read(arrays[:1]).reshape(self.shape).astype(np.uint16)
        return Quantiser(float(bound), levels).decode(index).astype(np.float32), counts


class EnsembleClient(BallotClient[S], Generic[S]):
    """A client that trains its model to the end, and then predicts."""

    _learner: Learner | None = None

    def question(self, arrays: Arrays, config: Config) -> Indices:
        """The public rows asked about."""
        settings = self.workspace.settings
        check_images(self.workspace.data.public_x.shape[1:], settings.answers)
        return query_rows(arrays, settings.record_count, settings.public_size)

    def model(self) -> Learner:
        """The trained model (first line of Algorithm 1), trained once and taken from the client's folder after that."""
        workspace = self.workspace
        if self._learner is not None:
            return self._learner
        self._learner = learner = workspace.own_learner()
        if workspace.folder.model.exists():
            return learner.load(workspace.folder.model)
        private = workspace.private()
        learner.fit(private.x, private.y)
        if workspace.settings.evaluate_clients:  # before the model: whoever has one is not measured again
            workspace.folder.note(workspace.measured(learner, EVALUATED))
        learner.save(workspace.folder.model)
        return learner

    def logits(self, rows: Indices) -> npt.NDArray[np.float64]:
        """The model's logits (Q, C), one copy of all records after the other; shifted to mean 0 over exclusive classes.

        Logits are told apart from their sum by no softmax, but averages with a weight per class are not: a network's
        have a mean near 0, log-probabilities have not.
        """
        model, data, settings = self.model(), self.workspace.data, self.workspace.settings
        copies = (
            public_copy(data.public_x, rows, number, settings.seed, mirror=data.mirror)
            for number in range(settings.answers)
        )
        logits = np.concatenate([model.predict_logits(x) for x in copies]).astype(np.float64)
        return logits if data.multi_label else np.asarray(logits - logits.mean(axis=1, keepdims=True))


class FedkdClient(EnsembleClient[FedkdSettings]):
    """One client of Algorithm 1 as printed: quantised logits and exact class counts, without a guarantee."""

    def exact(self, question: Indices) -> dict[str, Any]:
        counts = class_counts(self.workspace.private().y, len(self.workspace.data.classes))
        return {"logits": self.logits(question), "counts": counts}

    def pack(self, question: Indices, release: Release) -> Arrays:
        """Levels of this client's logits, its largest one and its class counts."""
        logits = release["logits"]
        return KdAnswer(logits.shape, self.workspace.settings).pack(logits, release["counts"])


class FedkdDpClient(SummedClient[FedkdDpSettings], EnsembleClient[FedkdDpSettings]):
    """One client of the sound variant: clipped logits plus a noise share, charged before they are made."""

    @property
    def mechanism(self) -> NoisyLogits:
        """The noisy sum of logits."""
        return mechanism(self.workspace.settings, len(self.workspace.data.classes))

    def form(self) -> Form:
        return ballot_form(self.workspace.settings, len(self.workspace.data.classes))

    def exact(self, question: Indices) -> dict[str, Any]:
        return {"logits": self.logits(question)}

    def blank(self, question: Indices) -> dict[str, Any]:
        return {"logits": np.zeros((self.workspace.settings.query_count, len(self.workspace.data.classes)))}
