"""Scikit-learn estimators: built from a class, and fitted on few records."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning

from fedballot.core.errors import SettingsError
from fedballot.learners.checks import IntArray


def fit_estimator(estimator: Any, flat: NDArray[Any], y: IntArray, weights: NDArray[np.float64] | None) -> Any:
    """Fit with parameters that suit few examples, and without the warning that the epochs asked for are few."""
    for parameter in ("n_neighbors", "batch_size"):
        value = getattr(estimator, parameter, None)  # scikit-learn's own may be "auto"
        if isinstance(value, int) and value > len(flat):
            estimator.set_params(**{parameter: len(flat)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(flat, y) if weights is None else estimator.fit(flat, y, sample_weight=weights)


def new_estimator(name: str, kind: Callable[[], Any], parameters: dict[str, Any], seed: int) -> Any:
    """An unfitted classifier with these parameters.

    Raises
    ------
    SettingsError
        If ``kind`` cannot be called without arguments, or makes no classifier.
    """
    try:
        estimator = kind()
        classifies = is_classifier(estimator)  # which some that wrap another estimator cannot say
    except (AttributeError, TypeError, ValueError) as error:
        raise SettingsError(f"learner {name!r} cannot be made without arguments: {error}") from error
    if not classifies:
        raise SettingsError(f"learner {name!r} is no classifier; give a scikit-learn class with fit and predict")
    seeded = {"random_state": seed % 2**32} if "random_state" in estimator.get_params() else {}
    return estimator.set_params(**parameters, **seeded)
