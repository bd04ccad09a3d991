"""The server's side of the baselines: collect what each client measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.core.metrics import accuracy, accuracy_per_class, mean_and_std, mean_auc
from fedballot.settings.parts import CommonSettings
from fedballot.strategies.base import Answer, Arrays, BallotStrategy
from fedballot.wire.codec import one_array
from fedballot.wire.packing import WireError


class MeasureStrategy(BallotStrategy[CommonSettings]):
    """Collect confusion matrices; ``centralized`` reports one model's, ``standalone`` the clients' own."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.n_classes, self.multi_label = len(self.data.classes), self.data.multi_label
        self._matrices: list[npt.NDArray[Any]] = []

    def request(self, server_round: int) -> Arrays:
        return []

    def read(self, arrays: Arrays) -> npt.NDArray[Any]:
        matrix = one_array(arrays)
        if self.multi_label:
            if matrix.shape != (self.n_classes,) or matrix.dtype != np.float64:
                raise WireError("shape", f"expected {self.n_classes} float64, got {matrix.dtype} {matrix.shape}")
            if not ((matrix == -1) | ((matrix >= 0) & (matrix <= 1))).all():
                raise WireError("range", "an AUC lies between 0 and 1, or is -1 where there is none")
            return matrix
        if matrix.dtype != np.int64:
            raise WireError("dtype", f"expected int64, got {matrix.dtype}")
        if matrix.shape != (self.n_classes, self.n_classes):
            raise WireError("shape", f"expected {(self.n_classes, self.n_classes)}, got {matrix.shape}")
        if matrix.min() < 0 or not matrix.any():
            raise WireError("range", "counts must be at least 0, and not all 0")
        return matrix

    def combine(self, server_round: int, answers: Sequence[Answer]) -> dict[str, Any]:
        self._matrices = [answer.ballot for answer in answers]
        return {}

    def _aucs(self) -> dict[str, Any]:
        per_class = [[None if value < 0 else float(value) for value in aucs] for aucs in self._matrices]
        if self.nodes == 1:
            return {"server_auc": mean_auc(per_class[0]), "server_auc_per_class": per_class[0]}
        known = [value for value in map(mean_auc, per_class) if value is not None]
        return {"client_auc": mean_and_std(known), "auc_per_client": known}

    def outcome(self) -> Mapping[str, Any]:
        if self.multi_label:
            return {"metrics": self._aucs(), "distill_s": 0.0}
        accuracies = [accuracy(matrix) for matrix in self._matrices]
        if self.nodes == 1:
            metrics: dict[str, Any] = {
                "server_accuracy": accuracies[0],
                "server_accuracy_per_class": accuracy_per_class(self._matrices[0]),
            }
        else:
            metrics = {"client_accuracy": mean_and_std(accuracies), "accuracy_per_client": accuracies}
        return {"metrics": metrics, "distill_s": 0.0}
