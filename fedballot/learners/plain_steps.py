"""Steps of feature extractors that need no network; see ``steps.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import SettingsError
from fedballot.datasets import cache, features
from fedballot.datasets.encoders.sources import make_encoder
from fedballot.datasets.encoders.stored import encoded

Array = NDArray[Any]
Takes = Literal["any", "images", "grey images (h, w)"]


@dataclass(frozen=True)
class StepOptions:
    """What a step is built with; see ``extractors.make_extractor``."""

    name: str
    input_shape: tuple[int, ...]
    components: int
    device: str
    epochs: int
    seed: int


class Step:
    """One step: rows in, rows out. A row that comes out depends on its record and on public data only.

    Attributes
    ----------
    learns : whether it must be fitted on public rows.
    dear : whether its features cost more than a look into the cache.
    identity : what they depend on besides the options; None where that is not known, so that nothing is cached.
    """

    learns = False
    dear = False
    identity: str | None = ""

    def fit(self, public: Array, key: Sequence[object]) -> None:
        """Learn from the public rows (n, ...) that the steps before give; ``key`` says for the cache what they are."""

    def apply(self, x: Array, *, total: bool) -> Array:
        """Rows (n, ...) out of rows or records (n, ...); with ``total`` no record may make it raise."""
        raise NotImplementedError


@dataclass(frozen=True)
class StepInfo:
    """What a step is, how it is built, and what it takes."""

    summary: str
    make: Callable[[StepOptions], Step]
    takes: Takes = "any"


class Plain(Step):
    """A function of the records."""

    def __init__(self, function: Callable[[Array], Array], *, dear: bool = False) -> None:
        self._function, self.dear = function, dear

    def apply(self, x: Array, *, total: bool) -> Array:
        return self._function(x)


class Encoded(Step):
    """Features by a frozen encoder, which are kept on disk; see ``datasets/encoders``."""

    def __init__(self, name: str, options: StepOptions) -> None:
        self._encoder = make_encoder(name)
        self._encoder.check(options.input_shape, "the data set")
        self.identity = self._encoder.digest

    def apply(self, x: Array, *, total: bool) -> Array:
        return encoded(self._encoder, x)


class Hellinger(Step):
    """Square roots of rows scaled to sum 1."""

    def apply(self, x: Array, *, total: bool) -> Array:
        rows = flat(x)
        if total:
            rows = np.maximum(rows, 0)
        elif (rows < 0).any():
            raise SettingsError("extractor step 'hellinger' takes counts, but there are values below 0")
        return features.hellinger(rows)


class Standardise(Step):
    """Columns less their public mean, over their public standard deviation."""

    learns = True
    _moments: tuple[Array, Array] | None = None

    def fit(self, public: Array, key: Sequence[object]) -> None:
        rows = np.ascontiguousarray(flat(public))
        centre, deviation = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
        # a constant column tells nothing about likeness: its public part becomes 0 instead of 0/0
        self._moments = centre.astype(np.float32), np.where(deviation > 0, deviation, 1).astype(np.float32)

    def apply(self, x: Array, *, total: bool) -> Array:
        if self._moments is None:
            raise not_fitted("standardise")
        centre, deviation = self._moments
        return np.asarray((flat(x) - centre) / deviation)


class Pca(Step):
    """Principal components of the public rows, at most what their number and width allow."""

    learns = True
    dear = True
    _axes: tuple[Array, Array] | None = None

    def __init__(self, components: int) -> None:
        self._components = components

    def fit(self, public: Array, key: Sequence[object]) -> None:
        arrays = cache.cached(
            "pca", [*key, self._components], lambda: _pca(np.ascontiguousarray(flat(public)), self._components)
        )
        self._axes = arrays["mean"], arrays["axes"]

    def apply(self, x: Array, *, total: bool) -> Array:
        if self._axes is None:
            raise not_fitted("pca")
        mean, axes = self._axes
        return np.asarray((flat(x) - mean) @ axes)


def _pca(rows: Array, components: int) -> dict[str, Array]:
    from sklearn.decomposition import PCA

    # the full decomposition: the randomised one would give each client other features unless all share a seed
    fitted = PCA(min(components, *rows.shape), svd_solver="full").fit(rows)
    return {"mean": fitted.mean_.astype(np.float32), "axes": np.ascontiguousarray(fitted.components_.T, np.float32)}


def not_fitted(step: str) -> SettingsError:
    """The error for a step that must be fitted first."""
    return SettingsError(f"extractor step {step!r} has not been fitted: call fit with the public pool")


def flat(x: Array) -> NDArray[np.float32]:
    """Rows (n, d), float32; uint8 images are scaled to [0, 1]."""
    rows = x.reshape(len(x), int(np.prod(x.shape[1:])))
    if x.dtype == np.uint8:
        return np.asarray(rows / np.float32(255), dtype=np.float32)
    return np.asarray(rows, dtype=np.float32)
