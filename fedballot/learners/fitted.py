"""A fitted estimator with the label of each of its columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import clone
from sklearn.dummy import DummyClassifier

from fedballot.learners.boosted import library_of, staged
from fedballot.learners.checks import IntArray
from fedballot.learners.estimators import fit_estimator, last_step, weight_name


@dataclass(frozen=True)
class Fitted:
    """What a training made.

    Attributes
    ----------
    estimator : scikit-learn's, the user's, or a `boosted.Staged`.
    classes : the label of each of its columns; it has seen no other.
    encoded : whether it was trained on the positions in ``classes``, not on the labels themselves.
    """

    estimator: Any
    classes: NDArray[np.integer]
    encoded: bool

    def probabilities(self, flat: NDArray[Any], outputs: int) -> NDArray[np.float64]:
        """(n, outputs), zero for classes that the estimator has not seen."""
        p, estimator = np.zeros((len(flat), outputs)), self.estimator
        if len(flat) == 0:
            return p
        if hasattr(estimator, "predict_proba"):
            p[:, self.classes] = estimator.predict_proba(flat)
        elif hasattr(estimator, "decision_function"):
            scores = estimator.decision_function(flat)
            pairs = scores if scores.ndim == 2 else np.stack([-scores, scores], axis=1)
            p[:, self.classes] = softmax(pairs, axis=1)
        else:
            said = np.asarray(estimator.predict(flat))
            p[np.arange(len(flat)), self.classes[said] if self.encoded else said] = 1
        return p


def fit_template(
    template: Any, flat: NDArray[Any], y: IntArray, weights: NDArray[np.float64], *, encode: bool
) -> Fitted:
    """Fit a copy of ``template``.

    Parameters
    ----------
    weights
        Of the records; left out where all are 1, or the estimator takes none.
    encode
        Whether labels become 0, 1, 2 and so on without gaps, which models of other packages may ask for.
    """
    seen, positions = np.unique(y, return_inverse=True)
    # most estimators refuse a single class, which a client may well have; CatBoost also records that are all alike
    alone = len(seen) == 1 or (library_of(last_step(template)) is not None and bool((flat == flat[0]).all()))
    estimator = DummyClassifier() if alone else clone(template, safe=False)
    weighted = weight_name(template) is not None and bool((weights != 1).any())
    labels = positions.astype(np.int64) if encode else y
    estimator = staged(fit_estimator(estimator, flat, labels, weights if weighted else None))
    return Fitted(estimator, seen if encode else estimator.classes_, encode)
