"""Public feature extractors: functions that everybody can compute, fitted on nothing but the public pool.

An extractor is a chain of steps joined by ``+``, such as ``hog+pca+l2``. As no step has seen private records, features
of a private record depend on that record and on public data only, so that a mechanism's sensitivity is not touched.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import SettingsError, did_you_mean
from fedballot.datasets import cache, features
from fedballot.datasets.fingerprint import fingerprint
from fedballot.learners.checks import FloatArray, Inputs, check_inputs

AUTO = "auto"
STEPS: dict[str, str] = {
    AUTO: "none for images, standardise for vectors",
    "none": "pixels scaled to [0, 1]; vectors (precomputed features) as they are",
    "deskew": "grey images sheared upright and centred, for digits",
    "hog": "histograms of oriented gradients of images",
    "hellinger": "square roots of rows scaled to sum 1, for counts such as bags of words",
    "standardise": "each column less its public mean, over its public standard deviation",
    "pca": "principal components of the public pool",
    "l2": "rows scaled to norm 1",
    "simclr-resnet8": "ResNet-8 trained on the public images by contrast, without labels",
    "simclr-resnet8-gn": "the same with group norm",
    "simclr-shufflenet-v2": "the same with ShuffleNet-V2",
    "simclr-mobilenet-v2": "the same with MobileNet-V2",
}
"""Steps by name. ``package.module:factory``, which returns a torch module, works as a first step as well."""

SIMCLR = "simclr-"

_IMAGES_ONLY = ("deskew", "hog")
_CACHED = ("hog", "pca")  # as are torch modules; the other steps are cheaper than the check of a cache
_ARRAYS_VERSION = 1  # part of every cache key: raise it when a step returns other features for the same input
_TORCH_BATCH = {"cpu": 64, "cuda": 512}


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

    def __init__(
        self, steps: tuple[str, ...], input_shape: tuple[int, ...], components: int, device: str, epochs: int, seed: int
    ) -> None:
        self.steps, self.input_shape, self.components = steps, input_shape, components
        self.network: FloatArray | None = None
        self._device, self._epochs, self._seed = device, epochs, seed
        self._module = _Module(steps[0], _imported(steps[0], input_shape), device) if ":" in steps[0] else None
        self._fitted: dict[int, tuple[NDArray[np.float32], ...]] = {}
        self._public = ""

    def fit(self, public_x: Inputs, network: FloatArray | None = None) -> Self:
        """See ``Extractor.fit``."""
        check_inputs(public_x, self.input_shape, what="public_x")
        self._fitted, self._public = {}, ""
        if self.steps[0].startswith(SIMCLR):
            self._contrast(public_x, network)
        learnt = [index for index, step in enumerate(self.steps) if step in ("standardise", "pca")]
        if not learnt:
            return self
        if len(public_x) == 0:
            raise SettingsError(f"the public pool is empty: {self.steps[learnt[0]]!r} needs at least 1 record")
        self._public = fingerprint(public_x)
        for index in learnt:
            rows = self._run(public_x, index)
            self._fitted[index] = (
                _moments(rows) if self.steps[index] == "standardise" else self._components_of(rows, index)
            )
        return self

    def transform(self, x: Inputs) -> FloatArray:
        """See ``Extractor.transform``."""
        check_inputs(x, self.input_shape)
        return self._run(x, len(self.steps))

    def total(self, x: Inputs) -> FloatArray:
        """See ``Extractor.total``."""
        bad = ~np.isfinite(_flat(x)).all(axis=1)
        if bad.any():
            x = np.where(bad.reshape(-1, *[1] * (x.ndim - 1)), np.zeros((), x.dtype), x)
        check_inputs(x, self.input_shape)
        with np.errstate(all="ignore"):
            rows = self._run(x, len(self.steps), total=True)
        return np.where(bad[:, None] | ~np.isfinite(rows).all(axis=1, keepdims=True), np.float32(0), rows)

    def _contrast(self, public_x: Inputs, network: FloatArray | None) -> None:
        """Train the network of the first step, once per machine, or take it over."""
        contrastive = _contrastive(self.steps[0])
        kind = self.steps[0].removeprefix(SIMCLR)
        if network is None:
            key = [kind, self._epochs, self._seed, self._device, fingerprint(public_x)]

            def train() -> dict[str, NDArray[np.float32]]:
                net = contrastive.pretrain(kind, public_x, epochs=self._epochs, seed=self._seed, device=self._device)
                return {"network": contrastive.state_vector(net)}

            network = np.array(cache.cached("simclr", key, train)["network"])
        net = contrastive.load_vector(contrastive.backbone(kind, self.input_shape), network)
        self.network, self._module = network, _Module(self.steps[0], net, self._device)

    def _run(self, x: Inputs, stop: int, total: bool = False) -> FloatArray:
        """Features after the first ``stop`` steps, from the cache where that is worth it."""
        worth = self._module is not None or any(step in _CACHED for step in self.steps[:stop])
        if not worth or stop == 0:
            return self._computed(x, stop, total)
        key = [*self._key(stop), fingerprint(x), *(["total"] if total else [])]
        made = cache.cached("features", key, lambda: {"x": self._computed(x, stop, total)})
        return np.asarray(made["x"])

    def _computed(self, x: Inputs, stop: int, total: bool = False) -> FloatArray:
        rows: NDArray[Any] = x
        for index, step in enumerate(self.steps[:stop]):
            if total and step == "hellinger":
                rows = np.maximum(_flat(rows), 0)
            rows = self._apply(index, step, rows)
        rows = np.ascontiguousarray(_flat(rows), dtype=np.float32)
        finite = np.isfinite(rows).all(axis=1)
        if not (total or finite.all()):
            raise SettingsError(
                f"extractor {'+'.join(self.steps)!r}: the features of row {int(finite.argmin())} are not finite"
            )
        return rows

    def _apply(self, index: int, step: str, x: NDArray[Any]) -> NDArray[Any]:
        if index == 0 and (self._module is not None or step.startswith(SIMCLR)):
            if self._module is None:
                raise SettingsError(f"extractor step {step!r} has not been fitted: call fit with the public pool")
            return self._module(x)
        if step in _IMAGES_ONLY:
            return features.deskew(x) if step == "deskew" else features.hog(x)
        rows = _flat(x)
        if step == "l2":
            return features.l2_normalised(rows)
        if step == "hellinger":
            if (rows < 0).any():
                raise SettingsError("extractor step 'hellinger' takes counts, but there are values below 0")
            return features.hellinger(rows)
        if step in ("standardise", "pca"):
            if index not in self._fitted:
                raise SettingsError(f"extractor step {step!r} has not been fitted: call fit with the public pool")
            centre, *rest = self._fitted[index]
            return (rows - centre) / rest[0] if step == "standardise" else (rows - centre) @ rest[0]
        return rows  # none

    def _components_of(self, rows: FloatArray, index: int) -> tuple[NDArray[np.float32], ...]:
        """Mean (d,) and principal axes (d, m) of the public rows, m at most what their number and width allow."""
        made = cache.cached("pca", [*self._key(index), self.components], lambda: _pca(rows, self.components))
        return made["mean"], made["axes"]

    def _key(self, stop: int) -> list[object]:
        return [
            _ARRAYS_VERSION,
            *self.steps[:stop],
            self.components if "pca" in self.steps[:stop] else 0,
            self._public,
            self._module.identity if self._module else "",
        ]


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
        Keys of ``STEPS`` joined by ``+``. The first may be ``package.module:factory``: a function that returns a torch
        module when called with ``input_shape``. The module gets float32 images (n, channels, h, w) in [0, 1], or
        vectors (n, d), in evaluation mode, and returns features (n, ...).
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
    """
    steps = split_steps(name)
    if components < 1:
        raise SettingsError(f"components is {components}, but pca needs at least 1")
    for index, step in enumerate(steps):
        allowed = index == 0 or (step == "hog" and steps[:index] == ("deskew",))
        if step.startswith(SIMCLR) and (index > 0 or len(input_shape) == 1):
            raise SettingsError(
                f"extractor step {step!r} takes images and must come first, but in {name!r} it gets records of shape "
                f"{input_shape} as step {index + 1}; use 'none', or another first step"
            )
        if step in _IMAGES_ONLY and not (allowed and _fits(step, input_shape)):
            what = "grey images (h, w)" if step == "deskew" else "images"
            raise SettingsError(
                f"extractor step {step!r} takes {what} and must come first, but in {name!r} it gets records of shape "
                f"{input_shape}; use 'none', or another first step"
            )
    if steps[0] == AUTO:
        steps = ("none" if len(input_shape) > 1 else "standardise", *steps[1:])
    if steps[0].startswith(SIMCLR):
        _contrastive(steps[0])  # without torch: fail before the run, not in it
    return Chain(steps, input_shape, components, device, epochs, seed)


def split_steps(name: str) -> tuple[str, ...]:
    """The steps of an extractor's name.

    Raises
    ------
    SettingsError
        For a step that does not exist, with the nearest one.
    """
    steps = tuple(part.strip() for part in name.split("+"))
    for step in steps[1:] if ":" in steps[0] else steps:
        if step not in STEPS:
            raise SettingsError(
                f"unknown extractor step {step!r}{did_you_mean(step, STEPS)}. Known: {', '.join(STEPS)}, joined by "
                "'+', or first 'package.module:factory' for a torch module"
            )
    return steps


def chain_name(name: str) -> str:
    """The one way to write an extractor's name: its steps joined by ``+``, without blanks.

    Raises
    ------
    SettingsError
        For a step that does not exist.
    """
    return "+".join(split_steps(name))


def takes_network(name: str) -> bool:
    """Whether the extractor's first step is a network whose weights another machine may have trained."""
    return split_steps(name)[0].startswith(SIMCLR)


def network_digest(network: NDArray[np.generic]) -> str:
    """``sha256:`` and the digest of weights (k,) as little-endian float32, the form in which they are loaded."""
    return f"sha256:{hashlib.sha256(np.ascontiguousarray(network, dtype='<f4').tobytes()).hexdigest()}"


def _fits(step: str, input_shape: tuple[int, ...]) -> bool:
    return len(input_shape) == 2 or (step == "hog" and len(input_shape) == 3)


def _flat(x: NDArray[Any]) -> NDArray[Any]:
    """Rows (n, d), float32; uint8 images are scaled to [0, 1]."""
    rows = x.reshape(len(x), int(np.prod(x.shape[1:])))
    if x.dtype == np.uint8:
        return np.asarray(rows / np.float32(255), dtype=np.float32)
    return np.asarray(rows, dtype=np.float32)


def _moments(rows: FloatArray) -> tuple[NDArray[np.float32], ...]:
    centre = rows.mean(axis=0, dtype=np.float64)
    spread = rows.std(axis=0, dtype=np.float64)
    # a constant column tells nothing about likeness: its public part becomes 0 instead of 0/0
    return centre.astype(np.float32), np.where(spread > 0, spread, 1).astype(np.float32)


def _pca(rows: FloatArray, components: int) -> dict[str, NDArray[np.float32]]:
    from sklearn.decomposition import PCA

    # the full decomposition: the randomised one would give each client other features unless all share a seed
    fitted = PCA(min(components, *rows.shape), svd_solver="full").fit(rows)
    return {"mean": fitted.mean_.astype(np.float32), "axes": np.ascontiguousarray(fitted.components_.T, np.float32)}


def _contrastive(step: str) -> ModuleType:
    """The module that trains by contrast, which needs torch."""
    _need_torch(step)
    from fedballot.learners import contrastive

    return contrastive


def _need_torch(name: str) -> None:
    if importlib.util.find_spec("torch") is None:
        known = ", ".join(step for step in STEPS if not step.startswith(SIMCLR))
        raise SettingsError(
            f"extractor {name!r} needs torch: pip install 'fedballot[torch]'. Without torch these work: {known}"
        )


def _imported(path: str, input_shape: tuple[int, ...]) -> Any:
    """The torch module that ``package.module:factory`` makes."""
    _need_torch(path)
    import torch

    module_name, _, attribute = path.partition(":")
    try:
        factory: Callable[..., Any] = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(f"extractor {path!r} cannot be imported: {error}; give 'package.module:factory'") from error
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # weights that the factory draws must be the same at every client
        try:
            net = factory(input_shape=input_shape)
        except Exception as error:  # foreign code: whatever it raises, the setting names it
            raise SettingsError(f"extractor {path!r} cannot be built: {type(error).__name__}: {error}") from error
    if not isinstance(net, torch.nn.Module):
        raise SettingsError(f"extractor {path!r} returned a {type(net).__name__}, but must return a torch.nn.Module")
    return net


class _Module:
    """A frozen torch module, and a digest of its weights for the cache."""

    def __init__(self, path: str, net: Any, device: str) -> None:
        import torch

        self._net = net.to(device).eval()
        self._device = device
        digest = hashlib.sha256(repr(net).encode())
        for key, value in net.state_dict().items():
            digest.update(f"{key} {value.dtype} {tuple(value.shape)}".encode())
            digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        self.identity = f"{path} {digest.hexdigest()}"

    def __call__(self, x: NDArray[Any]) -> NDArray[Any]:
        import torch

        batch = _TORCH_BATCH["cuda" if self._device.startswith("cuda") else "cpu"]
        parts = []
        with torch.inference_mode():
            for start in range(0, len(x), batch):
                # a copy: torch refuses to share read-only memory maps quietly
                rows = torch.from_numpy(np.array(x[start : start + batch])).to(self._device)
                rows = rows.float().div_(255) if rows.dtype == torch.uint8 else rows.float()
                if rows.ndim > 2:
                    rows = rows.unsqueeze(1) if rows.ndim == 3 else rows.permute(0, 3, 1, 2)
                parts.append(self._net(rows).flatten(1).float().cpu().numpy())
        return np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)
