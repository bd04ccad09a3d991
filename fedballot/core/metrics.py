"""Measures of accuracy, as pure functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def confusion_matrix(truth: npt.NDArray[Any], predicted: npt.NDArray[Any], n_classes: int) -> npt.NDArray[np.int64]:
    """Counts (C, C) of true class (rows) against predicted class (columns)."""
    flat = np.bincount(truth.astype(np.int64) * n_classes + predicted.astype(np.int64), minlength=n_classes**2)
    return flat.reshape(n_classes, n_classes)


def accuracy(confusion: npt.NDArray[np.integer]) -> float:
    """Share of records on the diagonal."""
    return float(confusion.trace()) / int(confusion.sum())


def accuracy_per_class(confusion: npt.NDArray[np.integer]) -> list[float | None]:
    """Recall of each class; None for a class without records."""
    return [
        float(right) / int(total) if total else None
        for right, total in zip(confusion.diagonal(), confusion.sum(axis=1), strict=True)
    ]


def auc_per_class(truth: npt.NDArray[Any], scores: npt.NDArray[np.floating]) -> list[float | None]:
    """Area under the ROC curve of each label of (n, L), over the records that know it; None without both kinds."""
    from sklearn.metrics import roc_auc_score

    found: list[float | None] = []
    for labels, column in zip(truth.T, scores.T, strict=True):
        known = labels >= 0
        both = len(np.unique(labels[known])) == 2
        found.append(float(roc_auc_score(labels[known], column[known])) if both else None)
    return found


def mean_auc(per_class: list[float | None]) -> float | None:
    """Mean over the labels that have one."""
    known = [value for value in per_class if value is not None]
    return float(np.mean(known)) if known else None


def mean_and_std(values: list[float]) -> dict[str, float] | None:
    """Mean and population standard deviation, or None where there is nothing to average."""
    return {"mean": float(np.mean(values)), "std": float(np.std(values))} if values else None
