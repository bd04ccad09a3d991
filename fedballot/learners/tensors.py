"""Raw inputs as tensors on a learner's device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from fedballot.core.errors import SettingsError
from fedballot.datasets.copies import Augment
from fedballot.learners.augment import Augmenter, augmentation_of
from fedballot.learners.checks import Inputs, check_inputs


class Tensors:
    """Arrays of records of one shape as tensors on one device.

    Parameters
    ----------
    input_shape
        (h, w), (h, w, 3) or (d,).
    device
        "cpu", "cuda" or "cuda:1".
    elastic
        Whether the rotation of images is the stronger one.
    augment
        See `LearnerOptions`.
    """

    def __init__(self, input_shape: tuple[int, ...], device: str, *, elastic: bool, augment: Augment = "usual") -> None:
        self.input_shape, self.device = input_shape, device_of(device)
        self.augmenter: Augmenter | None = None
        if len(input_shape) > 1 and augment != "none":
            kind = augmentation_of(augment, colour=len(input_shape) == 3, elastic=elastic)
            self.augmenter = Augmenter(kind, input_shape[0], input_shape[1], self.device)

    def tensor(self, array: Inputs) -> Tensor:
        """The array on the device; a copy, for torch refuses to share read-only memory maps quietly."""
        return torch.from_numpy(np.array(array)).to(self.device)

    def data(self, x: Inputs) -> Tensor:
        """Records (n, channels, h, w) or (n, d); images stay uint8 until they are in a batch, to save memory."""
        tensor = self.tensor(x if x.dtype == np.uint8 else x.astype(np.float32, copy=False))
        if len(self.input_shape) == 2:
            return tensor.unsqueeze(1)
        return tensor.permute(0, 3, 1, 2) if len(self.input_shape) == 3 else tensor

    def augmented(self, data: Tensor) -> Tensor:
        """Float inputs, augmented; each depends on its own record only."""
        x = floats(data)
        return self.augmenter(x) if self.augmenter else x

    def sampler(self, x: Inputs) -> Callable[[int], Tensor]:
        """n -> augmented inputs of ``n`` random rows of ``x``."""
        check_inputs(x, self.input_shape, what="an objective's x")
        data = self.data(x)
        return lambda n: self.augmented(data[torch.randint(len(data), (n,), device=self.device)])

    def blank(self) -> Tensor:
        """One empty record, as a network takes it."""
        array = np.zeros((1, *self.input_shape), dtype=np.uint8 if len(self.input_shape) > 1 else np.float32)
        return floats(self.data(array))


def take(data: Tensor, rows: Tensor) -> Tensor:
    """``data[rows]``, in the same layout; eight times as fast for contiguous records."""
    return data.index_select(0, rows) if data.is_contiguous() else data[rows]


def floats(data: Tensor) -> Tensor:
    """Records as a network takes them; uint8 images are scaled to [0, 1]."""
    return data.float().div_(255) if data.dtype == torch.uint8 else data


def device_of(name: str) -> torch.device:
    """The device of this name.

    Raises
    ------
    SettingsError
        If torch has none.
    """
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SettingsError(f"device is {name!r}, but must be cpu, cuda or cuda:N") from error
    if device.type not in ("cpu", "cuda"):
        raise SettingsError(f"device is {name!r}, but must be cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise SettingsError(f"device is {name!r}, but torch sees {torch.cuda.device_count()} CUDA devices; use cpu")
    return device
