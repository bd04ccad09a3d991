"""A torch module as an encoder: one image through it at a time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from fedballot.datasets.encoders.encoder import Encoder, Vector


@dataclass(frozen=True)
class Preprocessing:
    """How an image gets what a network was trained on: resized to a square (0: as it is), its colours scaled."""

    size: int = 0
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)

    def __call__(self, image: Any) -> torch.Tensor:
        """Float32 (1, 3, size, size) of a uint8 image (h, w), seen as grey colours, or (h, w, 3)."""
        pixels = torch.from_numpy(np.array(image)).float().div_(255)
        pixels = pixels.expand(3, *pixels.shape) if pixels.ndim == 2 else pixels.permute(2, 0, 1)
        return self.batch(pixels[None])

    def batch(self, pixels: torch.Tensor) -> torch.Tensor:
        """Float32 (n, 3, size, size) of float32 images (n, channels, h, w) in [0, 1], grey or of three colours."""
        if self.size and pixels.shape[2:] != (self.size, self.size):
            pixels = nn.functional.interpolate(
                pixels, (self.size, self.size), mode="bicubic", antialias=True, align_corners=False
            ).clamp_(0, 1)
        mean, std = (torch.tensor(told, device=pixels.device)[:, None, None] for told in (self.mean, self.std))
        return (pixels - mean) / std


def of_module(
    name: str,
    content: Sequence[object],
    versions: Mapping[str, str],
    make: Callable[[], tuple[nn.Module, Preprocessing]],
) -> Encoder:
    """An encoder of images by a module that takes (1, 3, h, w) and returns (1, ...); it is made at the first image.

    Parameters
    ----------
    content
        All that its features depend on.
    """
    made: list[tuple[nn.Module, Preprocessing]] = []

    def one(image: Any) -> Vector:
        if not made:
            net, prepare = make()
            made.append((net.float().eval(), prepare))
        net, prepare = made[0]
        with torch.inference_mode():
            found: Vector = net(prepare(image)).flatten().float().numpy().astype(np.float32)
        return found

    digest = hashlib.sha256(json.dumps(["images", *content]).encode()).hexdigest()
    return Encoder(name, "images", f"sha256:{digest}", dict(versions), one, make)


def weights_digest(net: nn.Module) -> bytes:
    """SHA-256 of a module's kind and of its weights with their names."""
    digest = hashlib.sha256(type(net).__name__.encode())
    for key, value in net.state_dict().items():
        digest.update(f"{key} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.digest()
