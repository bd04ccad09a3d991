"""Public feature extractors: functions that everybody can compute, fitted on nothing but the public pool.

An extractor is a chain of steps joined by ``+``, such as ``hog+pca+l2``; see ``steps.py``. As no step has seen private
records, features of a private record depend on that record and on public data only, so that a mechanism's sensitivity
is not touched.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import SettingsError
from fedballot.datasets import cache
from fedballot.datasets.fingerprint import fingerprint
from fedballot.learners.checks import FloatArray, Inputs, check_inputs
from fedballot.learners.plain_steps import Step, StepOptions, flat
from fedballot.learners.steps import AUTO, SIMCLR, get_step, split_steps

_ARRAYS_VERSION = 1  # part of every cache key: raise it when a step returns other features for the same input


class Extractor(Protocol):
    """Features by which two records can be compared, or a head be trained."""

    @property
    def network(self) -> FloatArray | None:
        """Weights (k,) of the network that ``fit`` has trained, for others to take over; None: there is none."""
        ...

    def fit(self, public_x: Inputs, network: FloatArray | None = None) -> Self:
        """Learn what the steps need (means, components, a network) from the public pool, and from nothing else.

        With ``network``, a contrastive step takes these weights in place of training: processors round differently,
        so clients that each trained their own would not see the same features.
        """
        ...

    def transform(self, x: Inputs) -> FloatArray:
        """Features (n, d), float32, of raw records; a record's row does not depend on the other rows.

        Raises
        ------
        SettingsError
            If ``x`` does not fit the input shape, ``fit`` was needed and not called, or a feature is not finite.
        """
        ...

    def total(self, x: Inputs) -> FloatArray:
        """As ``transform``, but no record makes it raise: its row (d,) is 0 where a value or feature is not finite.

        For private records, for what is refused because of one of them tells of it.
        """
        ...


class Chain:
    """Steps one after the other. Build it with ``make_extractor``."""

    def __init__(self, names: tuple[str, ...], steps: tuple[Step, ...], options: StepOptions) -> None:
        self.names, self.steps, self.options = names, steps, options
        self._public = ""

    @property
    def network(self) -> FloatArray | None:
        """See ``Extractor.network``."""
        return getattr(self.steps[0], "network", None)

    def fit(self, public_x: Inputs, network: FloatArray | None = None) -> Self:
        """See ``Extractor.fit``."""
        check_inputs(public_x, self.options.input_shape, what="public_x")
        self._public = ""
        if self.names[0].startswith(SIMCLR):
            self.steps[0].train(public_x, network)  # type: ignore[attr-defined]
        learning = [index for index, step in enumerate(self.steps) if step.learns]
        if not learning:
            return self
        if len(public_x) == 0:
            raise SettingsError(f"the public pool is empty: {self.names[learning[0]]!r} needs at least 1 record")
        self._public = fingerprint(public_x)
        for index in learning:
            self.steps[index].fit(self._run(public_x, index) if index else public_x, self._key(index))
        return self

    def transform(self, x: Inputs) -> FloatArray:
        """See ``Extractor.transform``."""
        check_inputs(x, self.options.input_shape)
        return self._run(x, len(self.steps))

    def total(self, x: Inputs) -> FloatArray:
        """See ``Extractor.total``."""
        bad = np.asarray(~np.isfinite(flat(x)).all(axis=1))
        if bad.any():
            x = np.where(bad.reshape(-1, *[1] * (x.ndim - 1)), np.zeros((), x.dtype), x)
        check_inputs(x, self.options.input_shape)
        with np.errstate(all="ignore"):
            rows = self._run(x, len(self.steps), total=True)
        return np.where(bad[:, None] | ~np.isfinite(rows).all(axis=1, keepdims=True), np.float32(0), rows)

    def _run(self, x: Inputs, stop: int, total: bool = False) -> FloatArray:
        """Features after the first ``stop`` steps, from the cache where that is worth it."""
        steps = self.steps[:stop]
        if any(step.identity is None for step in steps) or not any(step.dear for step in steps):
            return self._computed(x, stop, total)
        key = [*self._key(stop), fingerprint(x), *(["total"] if total else [])]
        arrays = cache.cached("features", key, lambda: {"x": self._computed(x, stop, total)})
        return np.asarray(arrays["x"])

    def _computed(self, x: Inputs, stop: int, total: bool = False) -> FloatArray:
        rows: NDArray[Any] = x
        for step in self.steps[:stop]:
            rows = step.apply(rows, total=total)
        rows = np.ascontiguousarray(flat(rows), dtype=np.float32)
        finite = np.isfinite(rows).all(axis=1)
        if not (total or finite.all()):
            raise SettingsError(
                f"extractor {'+'.join(self.names)!r}: the features of row {int(finite.argmin())} are not finite"
            )
        return rows

    def _key(self, stop: int) -> list[object]:
        names = self.names[:stop]
        components = self.options.components if "pca" in names else 0
        return [_ARRAYS_VERSION, *names, components, self._public, self.steps[0].identity]


def make_extractor(
    name: str,
    *,
    input_shape: tuple[int, ...],
    components: int = 64,
    device: str = "cpu",
    epochs: int = 100,
    seed: int = 0,
) -> Extractor:
    """Build an extractor; it must be fitted on the public pool before use.

    Parameters
    ----------
    name
        Keys of ``STEPS`` joined by ``+``. The first may be a name that a package adds, or ``package.module:NAME``, of
        what is called with ``input_shape``. A function returns a torch module; it gets float32 images (n, channels, h,
        w) in [0, 1], or vectors (n, d), in evaluation mode, and returns features (n, ...). A class with ``transform``
        gets records as they are; if it has ``fit``, it is fitted on the public pool. Features of a record must not
        depend on the other records of the call.
    input_shape
        (h, w), (h, w, 3) or (d,).
    components
        Most principal components of ``pca``.
    device
        Of the torch module.
    epochs, seed
        Of contrastive pretraining.

    Raises
    ------
    SettingsError
        For an unknown step, one that the data cannot go through, a module that cannot be made, or missing torch.

    Examples
    --------
    >>> extractor = make_extractor("hog+pca+l2", input_shape=(8, 8), components=16)
    >>> extractor.fit(public_x).transform(x).shape  # doctest: +SKIP
    (1797, 16)
    """
    names = split_steps(name)
    if components < 1:
        raise SettingsError(f"components is {components}, but pca needs at least 1")
    options = StepOptions(names[0], input_shape, components, device, epochs, seed)
    steps = []
    for index, step in enumerate(names):
        info = get_step(step)
        first = index == 0 or (step == "hog" and names[:index] == ("deskew",))
        if info.takes != "any" and not (first and _fits(info.takes, input_shape)):
            raise SettingsError(
                f"extractor step {step!r} takes {info.takes} and must come first, but in {name!r} it gets records of "
                f"shape {input_shape} as step {index + 1}; use 'none', or another first step"
            )
        steps.append(info.make(replace(options, name=step)))
    if names[0] == AUTO:
        names = ("none" if len(input_shape) > 1 else "standardise", *names[1:])
    return Chain(names, tuple(steps), options)


def network_digest(network: NDArray[np.generic]) -> str:
    """``sha256:`` and the digest of weights (k,) as little-endian float32, the form in which they are loaded."""
    return f"sha256:{hashlib.sha256(np.ascontiguousarray(network, dtype='<f4').tobytes()).hexdigest()}"


def _fits(takes: str, input_shape: tuple[int, ...]) -> bool:
    return len(input_shape) == 2 or (takes == "images" and len(input_shape) == 3)
