"""Several labels per record for scikit-learn: one classifier of yes and no for each, on the records that know it."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.special import expit

from fedballot.core.errors import DataError, SettingsError
from fedballot.core.files import read_arrays, write_arrays
from fedballot.learners import checks
from fedballot.learners.base import Loss, Progress
from fedballot.learners.checks import FloatArray, Inputs, IntArray
from fedballot.learners.objectives import Objective, name_of
from fedballot.learners.options import LearnerOptions
from fedballot.learners.sklearn_learner import ScikitLearner
from fedballot.learners.without_weights import WithoutWeights


class BinaryRelevance(WithoutWeights):
    """``n_classes`` independent learners of two classes behind the Learner protocol."""

    warm_start = False

    def __init__(self, name: str, options: LearnerOptions, template: Any) -> None:
        self.name, self.n_classes = name, options.n_classes
        self._parts = [ScikitLearner(name, replace(options, n_classes=2), template) for _ in range(self.n_classes)]

    def fit(
        self,
        x: Inputs,
        y: IntArray,
        *,
        objective: Objective | None = None,
        epochs: int | None = None,
    ) -> Self:
        """See ``Learner.fit``; a label that no record knows is predicted as undecided."""
        if objective is not None:
            raise SettingsError(f"a learner of several labels takes no objective, so not {name_of(objective)}")
        checks.check_multi_labels(y, len(x), self.n_classes)
        for part, labels in zip(self._parts, y.T, strict=True):
            rows = np.flatnonzero(labels >= 0)
            if len(rows):
                part.fit(x[rows], labels[rows].astype(np.int64))
            else:
                part.fit(x[:1].repeat(2, axis=0), np.array([0, 1]))
        return self

    def predict_logits(self, x: Inputs) -> FloatArray:
        """Log-odds (n, n_classes)."""
        pairs = [part.predict_logits(x) for part in self._parts]
        return np.stack([pair[:, 1] - pair[:, 0] for pair in pairs], axis=1)

    def distill(
        self,
        x: Inputs,
        targets: FloatArray,
        *,
        weights: FloatArray | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        loss: Loss = "binary",
        temperature: float = 1.0,
        progress: Progress | None = None,
    ) -> Self:
        """See ``Learner.distill``; logits become probabilities by the logistic function."""
        checks.check_logits(targets, len(x), self.n_classes)
        yes = targets if loss == "binary" else expit(targets)
        for done, (part, column) in enumerate(zip(self._parts, yes.T, strict=True), 1):
            part.distill(x, np.stack([1 - column, column], axis=1), weights=weights)
            if progress:
                progress(done, len(self._parts))
        return self

    def semi_supervise(
        self,
        x: Inputs,
        labels: IntArray,
        confidence: FloatArray | None,
        *,
        self_train: bool,
        prior: FloatArray | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Not for several labels."""
        raise SettingsError("semi_supervise: a learner of several labels cannot label itself")

    def features(self, x: Inputs) -> FloatArray:
        """See ``Learner.features``: probabilities of all labels, rows of norm 1."""
        rows = np.concatenate([part.features(x) for part in self._parts], axis=1)
        return np.asarray(rows / np.sqrt(self.n_classes), dtype=np.float32)

    def save(self, path: Path) -> None:
        """See ``Learner.save``: each label's content of skops, in one .npz."""
        contents = [np.frombuffer(part.dumps(), dtype=np.uint8) for part in self._parts]
        write_arrays(path, {f"label{number}": content for number, content in enumerate(contents)})

    def load(self, path: Path) -> Self:
        """See ``Learner.load``."""
        contents = read_arrays(path)
        if set(contents) != {f"label{number}" for number in range(self.n_classes)}:
            raise DataError(f"{path}: holds no learner of {self.n_classes} labels")
        for number, part in enumerate(self._parts):
            part.loads(contents[f"label{number}"].tobytes(), path)
        return self
