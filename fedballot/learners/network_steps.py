"""Steps of extractors that are networks, and those of other packages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedballot.core.errors import SettingsError
from fedballot.datasets import cache
from fedballot.datasets.fingerprint import fingerprint
from fedballot.learners.checks import FloatArray, Inputs
from fedballot.learners.plain_steps import Array, Step, StepOptions, not_fitted

_BATCH = {"cpu": 64, "cuda": 512}


class FrozenModule(Step):
    """A torch module in evaluation mode, and a digest of its weights for the cache."""

    dear = True

    def __init__(self, name: str, net: Any, device: str) -> None:
        import torch

        self._net = net.to(device).eval()
        self._device = device
        digest = hashlib.sha256(repr(net).encode())
        for key, value in net.state_dict().items():
            digest.update(f"{key} {value.dtype} {tuple(value.shape)}".encode())
            digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        self.identity = f"{name} {digest.hexdigest()}"

    def apply(self, x: Array, *, total: bool) -> Array:
        import torch

        batch = _BATCH["cuda" if self._device.startswith("cuda") else "cpu"]
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


class Contrastive(Step):
    """A network that is trained on the public images by contrast, once per machine, or taken over."""

    dear = True

    def __init__(self, options: StepOptions) -> None:
        self._options = options
        self.network: FloatArray | None = None
        self._module: FrozenModule | None = None

    def train(self, public_x: Inputs, network: FloatArray | None) -> None:
        """Train on public images, or take over the weights (k,) of a network that was."""
        from fedballot.learners import contrastive

        options, kind = self._options, self._options.name.removeprefix("simclr-")
        if network is None:
            key = [kind, options.epochs, options.seed, options.device, fingerprint(public_x)]

            def train() -> dict[str, Array]:
                net = contrastive.pretrain(
                    kind, public_x, epochs=options.epochs, seed=options.seed, device=options.device
                )
                return {"network": contrastive.state_vector(net)}

            network = np.array(cache.cached("simclr", key, train)["network"])
        net = contrastive.load_vector(contrastive.backbone(kind, options.input_shape), network)
        self.network, self._module = network, FrozenModule(options.name, net, options.device)
        self.identity = self._module.identity

    def apply(self, x: Array, *, total: bool) -> Array:
        if self._module is None:
            raise not_fitted(self._options.name)
        return self._module.apply(x, total=total)


class Transformer(Step):
    """An object of another package with ``transform``, and perhaps ``fit``, in the manner of scikit-learn."""

    identity = None

    def __init__(self, name: str, transformer: Any) -> None:
        self._name, self._transformer = name, transformer
        self.learns = hasattr(transformer, "fit")

    def fit(self, public: Array, key: Sequence[object]) -> None:
        self._transformer.fit(public)

    def apply(self, x: Array, *, total: bool) -> Array:
        rows = np.asarray(self._transformer.transform(x))
        if len(rows) != len(x) or rows.dtype.kind not in "biuf":
            raise SettingsError(
                f"extractor {self._name!r} gives {rows.dtype} of shape {rows.shape} for {len(x)} records; expected "
                "numbers, one row for each record"
            )
        return rows


def transformer(kind: Callable[..., Any], options: StepOptions) -> Step:
    """The step that a class with ``transform`` makes, called with ``input_shape``.

    Raises
    ------
    SettingsError
        If that fails.
    """
    return Transformer(options.name, _built(kind, options))


def module(factory: Callable[..., Any], options: StepOptions) -> Step:
    """The step that a function makes, called with ``input_shape``, which returns a torch module.

    Raises
    ------
    SettingsError
        If it fails, or returns another thing.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # weights that the factory draws must be the same at every client
        net = _built(factory, options)
    if not isinstance(net, torch.nn.Module):
        raise SettingsError(
            f"extractor {options.name!r} returned a {type(net).__name__}, but must return a torch.nn.Module"
        )
    return FrozenModule(options.name, net, options.device)


def _built(factory: Callable[..., Any], options: StepOptions) -> Any:
    try:
        return factory(input_shape=options.input_shape)
    except Exception as error:  # foreign code: whatever it raises, the setting names it
        raise SettingsError(f"extractor {options.name!r} cannot be built: {type(error).__name__}: {error}") from error
