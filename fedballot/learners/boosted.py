"""Boosted trees of other libraries: quiet and on one thread, and stored as each library stores its models itself."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

# what LightGBM's classifier takes beyond the parameters that it names
_LIGHTGBM_MORE = ("max_bin", "max_delta_step", "path_smooth", "extra_trees", "linear_tree", "verbosity")


@dataclass(frozen=True)
class Library:
    """One library.

    Attributes
    ----------
    quiet : parameters of each model, unless the user says otherwise.
    write : fitted model -> content in the library's own format.
    read : content -> a model with ``predict_proba``.
    more : parameters that its classifier takes and does not name.
    """

    quiet: Mapping[str, Any]
    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]
    more: tuple[str, ...] = ()


class LightGbm:
    """A LightGBM model as it comes out of its text, which its own classifier cannot take up."""

    def __init__(self, booster: Any) -> None:
        self.booster_ = booster

    def predict_proba(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Probabilities (n, classes)."""
        p = np.asarray(self.booster_.predict(x, num_threads=1))
        return p if p.ndim == 2 else np.stack([1 - p, p], axis=1)


def _read_xgboost(content: bytes) -> Any:
    from xgboost import XGBClassifier

    model = XGBClassifier(n_jobs=1)
    model.load_model(bytearray(content))
    return model


def _read_lightgbm(content: bytes) -> LightGbm:
    from lightgbm import Booster

    return LightGbm(Booster(model_str=content.decode()))


def _write_catboost(model: Any) -> bytes:
    with tempfile.TemporaryDirectory(prefix="fedballot-") as scratch:
        path = Path(scratch) / "model.cbm"
        model.save_model(str(path), format="cbm")
        return path.read_bytes()


def _read_catboost(content: bytes) -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(thread_count=1).load_model(blob=content)


LIBRARIES: dict[str, Library] = {
    "xgboost": Library(
        {"n_jobs": 1, "verbosity": 0}, lambda model: bytes(model.get_booster().save_raw("ubj")), _read_xgboost
    ),
    "lightgbm": Library(
        {"n_jobs": 1, "verbosity": -1},
        lambda model: str(model.booster_.model_to_string()).encode(),
        _read_lightgbm,
        _LIGHTGBM_MORE,
    ),
    "catboost": Library(
        {"thread_count": 1, "allow_writing_files": False, "logging_level": "Silent"}, _write_catboost, _read_catboost
    ),
}


def library_of(model: Any) -> str | None:
    """The library that a model or its class is from, if it is one of these."""
    kind = model if isinstance(model, type) else type(model)
    if kind is LightGbm:
        return "lightgbm"
    return next((base.__module__.partition(".")[0] for base in kind.__mro__ if _root(base) in LIBRARIES), None)


def _root(kind: type) -> str:
    return kind.__module__.partition(".")[0]


@dataclass(frozen=True)
class Staged:
    """A fitted boosted model, and the fitted steps before it, if any."""

    before: Pipeline | None
    model: Any

    def predict_proba(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Probabilities (n, classes)."""
        return np.asarray(self.model.predict_proba(self.before.transform(x) if self.before else x))

    def content(self) -> dict[str, Any]:
        """What a file holds of it: the steps as they are, the model in its library's format."""
        name = str(library_of(self.model))
        return {
            "before": self.before,
            "library": name,
            "model": np.frombuffer(LIBRARIES[name].write(self.model), dtype=np.uint8),
        }

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Staged:
        """Out of what :meth:`content` gave; raises whatever the library does for what is damaged."""
        model = LIBRARIES[content["library"]].read(np.asarray(content["model"], dtype=np.uint8).tobytes())
        return cls(content["before"], model)


def staged(estimator: Any) -> Any:
    """A fitted boosted model, or pipeline that ends in one, as a :class:`Staged`; any other as it is."""
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if library_of(last) is None:
        return estimator
    before = Pipeline(estimator.steps[:-1]) if isinstance(estimator, Pipeline) and len(estimator.steps) > 1 else None
    # at once as it comes out of its text, so that it predicts alike before it is stored and afterwards
    return Staged(before, LightGbm(last.booster_) if library_of(last) == "lightgbm" else last)
