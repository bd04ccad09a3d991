"""Measures of a classifier, as pure functions; what is not defined is None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

LABEL_MEASURES = ("precision", "recall", "f1")
BINS = 10  # of the calibration curve


def confusion_matrix(truth: npt.NDArray[Any], predicted: npt.NDArray[Any], n_classes: int) -> npt.NDArray[np.int64]:
    """Counts (C, C) of true class (rows) against predicted class (columns)."""
    flat = np.bincount(truth.astype(np.int64) * n_classes + predicted.astype(np.int64), minlength=n_classes**2)
    return flat.reshape(n_classes, n_classes)


def accuracy(confusion: npt.NDArray[np.integer]) -> float:
    """Share of records on the diagonal."""
    return float(confusion.trace()) / int(confusion.sum())


def share_right(predicted: npt.NDArray[Any], truth: npt.NDArray[Any]) -> float | None:
    """Share of the records of a known class (not -1) that are right; None where there are none."""
    right = (predicted == truth)[truth >= 0]
    return float(np.mean(right)) if len(right) else None


def accuracy_per_class(confusion: npt.NDArray[np.integer]) -> list[float | None]:
    """Recall of each class; None for a class without records."""
    return [
        float(right) / int(total) if total else None
        for right, total in zip(confusion.diagonal(), confusion.sum(axis=1), strict=True)
    ]


def of_confusion(confusion: npt.NDArray[np.integer]) -> dict[str, Any]:
    """Measures that a confusion matrix (C, C) tells: of each class C values, and their means over the tested classes.

    A measure of a class without test records is None, and so is the precision of a class that is never predicted.
    """
    right, support, predicted = confusion.diagonal(), confusion.sum(axis=1), confusion.sum(axis=0)
    recall = accuracy_per_class(confusion)
    f1 = [
        2 * float(hits) / int(there + said) if there else None
        for hits, there, said in zip(right, support, predicted, strict=True)
    ]
    return {
        "balanced_accuracy": mean_of(recall),
        "macro_f1": mean_of(f1),
        "precision_per_class": [
            float(hits) / int(said) if said and there else None
            for hits, there, said in zip(right, support, predicted, strict=True)
        ],
        "recall_per_class": recall,
        "f1_per_class": f1,
        "support": support.tolist(),
        "confusion": confusion.tolist(),
    }


def of_scores(truth: npt.NDArray[Any], scores: npt.NDArray[np.floating]) -> dict[str, Any]:
    """All measures of scores (n, C), probabilities or logits, against classes (n,).

    The area under the ROC curve is that of each class against the rest; of two classes there is one curve.
    """
    classes = scores.shape[1]
    said = probabilities_of(scores)
    areas = auc_per_class(truth[:, None] == np.arange(classes), said)
    matrix = confusion_matrix(truth, scores.argmax(axis=1), classes)
    return {
        **of_confusion(matrix),
        "auc": mean_of(areas),
        "auc_per_class": areas,
        **calibration(said.argmax(axis=1) == truth, said.max(axis=1)),
    }


def of_labels(truth: npt.NDArray[Any], scores: npt.NDArray[np.floating]) -> dict[str, Any]:
    """Measures of the logits (n, L) of several labels, each by itself over the records that know it; yes is above 0."""
    parts = [
        confusion_matrix(labels[labels >= 0], column[labels >= 0] > 0, 2)
        for labels, column in zip(truth.T, scores.T, strict=True)
    ]
    each = [of_confusion(part) for part in parts]
    areas = auc_per_class(truth, scores)
    known = truth >= 0
    yes = 1 / (1 + np.exp(-np.clip(scores[known].astype(np.float64), -500, 500)))
    return {
        "balanced_accuracy": mean_of([one["balanced_accuracy"] for one in each]),
        "macro_f1": mean_of([one["f1_per_class"][1] for one in each]),
        **{
            f"{name}_per_class": [one[f"{name}_per_class"][1] for one in each] for name in ("precision", "recall", "f1")
        },
        "support": [one["support"][1] for one in each],
        "auc": mean_of(areas),
        "auc_per_class": areas,
        **calibration((yes > 0.5) == (truth[known] == 1), np.maximum(yes, 1 - yes)),
    }


def probabilities_of(scores: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Scores (n, C) as probabilities: added-up ones are divided by their sum, of logits it is the softmax."""
    values = scores.astype(np.float64)
    sums = values.sum(axis=1, keepdims=True)
    if values.size and (values >= 0).all() and sums[0] > 0 and np.allclose(sums, sums[0], rtol=1e-4):
        return np.asarray(values / sums)
    exps = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(exps / exps.sum(axis=1, keepdims=True))


def calibration(right: npt.NDArray[np.bool_], confidence: npt.NDArray[np.floating]) -> dict[str, Any]:
    """How often answers of a confidence are right, and the expected calibration error.

    Guo et al. 2017, "On calibration of modern neural networks", equation 3, in ``BINS`` bins of equal width.
    """
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    counts = np.bincount(bins, minlength=BINS)
    hits, sums = (np.bincount(bins, weights=values, minlength=BINS) for values in (right, confidence))
    return {
        "calibration_error": float(np.abs(hits - sums).sum() / len(right)) if len(right) else None,
        "calibration": {
            "records": counts.tolist(),
            "confidence": [float(s / n) if n else None for s, n in zip(sums, counts, strict=True)],
            "right": [float(h / n) if n else None for h, n in zip(hits, counts, strict=True)],
        }
        if len(right)
        else None,
    }


def auc_per_class(truth: npt.NDArray[Any], scores: npt.NDArray[np.floating]) -> list[float | None]:
    """Area under the ROC curve of each label of (n, L), over the records that know it; None without both kinds."""
    from sklearn.metrics import roc_auc_score

    found: list[float | None] = []
    for labels, column in zip(truth.T, scores.T, strict=True):
        known = labels >= 0
        both = len(np.unique(labels[known])) == 2
        found.append(float(roc_auc_score(labels[known], column[known])) if both else None)
    return found


def mean_of(per_class: Sequence[float | None]) -> float | None:
    """Mean over the classes that have one; None if none has."""
    known = [value for value in per_class if value is not None]
    return float(np.mean(known)) if known else None


def mean_and_std(values: list[float]) -> dict[str, float] | None:
    """Mean and population standard deviation, or None where there is nothing to average."""
    return {"mean": float(np.mean(values)), "std": float(np.std(values))} if values else None


def spread_of(measures: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float] | None]:
    """Mean and deviation over several models of what :func:`of_confusion` gives each as a single number."""
    names = ("balanced_accuracy", "macro_f1")
    return {name: mean_and_std([one[name] for one in measures if one[name] is not None]) for name in names}
