"""Estimators in the manner of scikit-learn: built from a class or a factory, and fitted on few records."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from fedballot.core.errors import SettingsError
from fedballot.learners import factories
from fedballot.learners.boosted import LIBRARIES, library_of
from fedballot.learners.checks import IntArray


def fit_estimator(estimator: Any, flat: NDArray[Any], y: IntArray, weights: NDArray[np.float64] | None) -> Any:
    """Fit with parameters that suit few examples, and without the warning that the epochs asked for are few.

    To refuse them would tell how few; where that is public, `check_learners` refuses, and a simulation's result warns.
    """
    last = last_step(estimator)
    for parameter in ("n_neighbors", "batch_size"):
        value = getattr(last, parameter, None)  # scikit-learn's own may be "auto"
        if isinstance(value, int) and value > len(flat) and hasattr(last, "set_params"):
            last.set_params(**{parameter: len(flat)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        more = {} if weights is None else {weight_name(estimator) or "sample_weight": weights}
        fitted = estimator.fit(flat, y, **more)
    return estimator if fitted is None else fitted


def last_step(estimator: Any) -> Any:
    """The classifier of a pipeline, or the estimator itself."""
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def weight_name(estimator: Any) -> str | None:
    """By which name ``fit`` takes the weights of records; None: it takes none."""
    if not has_fit_parameter(last_step(estimator), "sample_weight"):
        return None
    return f"{estimator.steps[-1][0]}__sample_weight" if isinstance(estimator, Pipeline) else "sample_weight"


def new_estimator(
    name: str, kind: Callable[..., Any], defaults: Mapping[str, Any], parameters: Mapping[str, Any], seed: int
) -> Any:
    """An unfitted classifier of this class, with these parameters in place of its defaults.

    Raises
    ------
    SettingsError
        If it does not know a parameter, cannot be made with them alone, or is no classifier.
    """
    try:
        check_parameters(name, kind, parameters)
        estimator = kind(**{**defaults, **parameters})
        classifies = is_model(estimator)  # which some that wrap another estimator cannot say
    except SettingsError:
        raise
    except Exception as error:  # foreign code: whatever it raises, the setting names it
        how = f"with {', '.join(parameters)}" if parameters else "without arguments"
        raise SettingsError(f"learner {name!r} cannot be made {how}: {error}") from error
    if not classifies:
        raise SettingsError(
            f"learner {name!r} is no classifier; give a class with fit, and predict_proba or decision_function"
        )
    return prepared(estimator, parameters, seed)


def check_parameters(name: str, kind: Callable[..., Any], parameters: Mapping[str, Any]) -> None:
    """Refuse a parameter that a class does not have, where it can be known."""
    if not parameters:
        return
    named, open_ended = factories.names_of(kind)
    library = library_of(kind)
    if open_ended and library is not None:  # what they do not know they would pass on, and nobody would look at it
        named, open_ended = [*named, *kind().get_params(), *LIBRARIES[library].more], False
    for parameter in parameters:
        if parameter not in named and not open_ended:
            raise factories.unknown_parameter(name, parameter, list(dict.fromkeys(named)))


def is_model(estimator: Any) -> bool:
    """Whether it is a classifier: scikit-learn's own say so, others have ``fit`` and scores of classes."""
    if hasattr(estimator, "__sklearn_tags__") or hasattr(estimator, "_estimator_type"):
        return bool(is_classifier(estimator))
    return hasattr(estimator, "fit") and any(hasattr(estimator, f) for f in ("predict_proba", "decision_function"))


def prepared(estimator: Any, parameters: Mapping[str, Any], seed: int) -> Any:
    """The estimator and all that it is made of, seeded; boosted models quiet and on one thread.

    What ``parameters`` names stays as it is.
    """
    for place, part in enumerate(parts_of(estimator)):
        own = parameters if place == 0 else {}
        names = part.get_params(deep=False)
        seeds = {"random_state": seed % 2**32} if "random_state" in names and "random_state" not in own else {}
        if (library := library_of(part)) is not None:
            if library == "catboost" and not {"random_seed", "random_state"} & {*names}:  # it lists what was set only
                seeds = {"random_state": seed % 2**32}
            loud = {"verbose", "verbose_eval", "silent", "logging_level"} & {*names}  # catboost takes one of these
            quiet = LIBRARIES[library].quiet
            seeds |= {k: v for k, v in quiet.items() if names.get(k) is None and not (k == "logging_level" and loud)}
        if seeds:
            part.set_params(**seeds)
    return estimator


def parts_of(estimator: Any) -> Iterator[Any]:
    """The estimator, then those that it is made of, such as the steps of a pipeline."""
    if not hasattr(estimator, "get_params"):
        return
    yield estimator
    inside = [value for value in estimator.get_params().values() if hasattr(value, "get_params")]
    yield from (value for value in inside if not isinstance(value, type))


def homes_of(estimator: Any) -> set[str]:
    """The packages of an estimator and its parts, scikit-learn left out."""
    objects = list(parts_of(estimator)) or [estimator]
    return {type(part).__module__.partition(".")[0] for part in objects} - {"sklearn"}
