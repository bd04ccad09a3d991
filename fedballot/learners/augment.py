"""Random image transforms, a batch at a time: one matrix product and one ``grid_sample``."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fedballot.datasets.copies import Augment


@dataclass(frozen=True)
class Augmentation:
    """Ranges of uniform random changes; lengths are shares of the image's width.

    ``elastic`` is the standard deviation of the displacement on a grid of 5x5 knots, smoothly interpolated.
    """

    degrees: float = 0.0
    scale: float = 0.0
    shear: float = 0.0
    shift: float = 0.0
    elastic: float = 0.0
    flip: bool = False


GREY = Augmentation(degrees=15, scale=0.1, shear=0.15, shift=2 / 28)
GREY_ELASTIC = Augmentation(degrees=15, scale=0.1, shear=0.15, shift=2 / 28, elastic=0.03)
COLOUR = Augmentation(shift=1 / 8, flip=True)

_KNOTS = 5


def augmentation_of(augment: Augment, *, colour: bool, elastic: bool) -> Augmentation:
    """The changes of an ``augment`` other than "none"; ``elastic``: whether a rotation also bends."""
    if augment == "usual":
        augment = "flip" if colour else "rotate"
    if augment == "rotate":
        return GREY_ELASTIC if elastic else GREY
    return COLOUR if augment == "flip" else Augmentation(shift=COLOUR.shift if colour else GREY.shift)


class Draws(NamedTuple):
    """Random numbers that change n images: (6, n) in [0, 1), bits (n,) or None, normal ones (n, 2, knots) or None."""

    affine: Tensor
    flips: Tensor | None
    knots: Tensor | None


class Augmenter:
    """Applies an Augmentation to images of one size, with torch's global generator."""

    def __init__(self, augmentation: Augmentation, h: int, w: int, device: torch.device) -> None:
        self.augmentation = augmentation
        self.h, self.w = h, w
        self._basis = _basis(h, w, device, elastic=augmentation.elastic > 0)

    def __call__(self, x: Tensor) -> Tensor:
        """Transform float images (n, channels, h, w); what comes in from outside is black."""
        return self.moved(x, self.draw(len(x), x.device))

    def draw(self, n: int, device: torch.device, generator: torch.Generator | None = None) -> Draws:
        """What changes ``n`` images, from a generator; None: torch's global one."""
        a = self.augmentation
        affine = torch.rand(6, n, device=device, generator=generator)
        flips = torch.randint(0, 2, (n,), device=device, generator=generator) if a.flip else None
        knots = torch.randn(n, 2, _KNOTS**2, device=device, generator=generator) if a.elastic else None
        return Draws(affine, flips, knots)

    def moved(self, x: Tensor, draws: Draws) -> Tensor:
        """Float images (n, channels, h, w), changed by n draws."""
        n = len(x)
        coefficients = self._affine(draws)
        if draws.knots is not None:
            # the sampling grid spans [-1, 1], so a share of the width counts twice
            coefficients = torch.cat([coefficients, draws.knots * (2 * self.augmentation.elastic)], dim=2)
        grid = (coefficients @ self._basis).reshape(n, 2, self.h, self.w).permute(0, 2, 3, 1)
        return F.grid_sample(x, grid, align_corners=False)

    def _affine(self, draws: Draws) -> Tensor:
        a = self.augmentation
        angle, size_x, size_y, shear, shift_x, shift_y = draws.affine.mul(2).sub_(1)
        angle = angle * math.radians(a.degrees)
        size_x, size_y, shear = 1 + a.scale * size_x, 1 + a.scale * size_y, a.shear * shear
        if draws.flips is not None:
            size_x = size_x * draws.flips.mul(2).sub(1)
        cos, sin = torch.cos(angle), torch.sin(angle)
        rows = [
            size_x * cos, size_y * (shear * cos - sin), 2 * a.shift * shift_x,
            size_x * sin, size_y * (shear * sin + cos), 2 * a.shift * shift_y,
        ]  # fmt: skip
        return torch.stack(rows, dim=1).reshape(-1, 2, 3)


@lru_cache(maxsize=8)  # every client's learner asks for the same one
def _basis(h: int, w: int, device: torch.device, *, elastic: bool) -> Tensor:
    """What a sampling grid is a combination of: x, y and 1 of each pixel; then each knot's share of it."""
    identity = torch.eye(2, 3, device=device)[None]
    affine = F.affine_grid(identity, [1, 1, h, w], align_corners=False).reshape(h * w, 2).T
    parts = [affine, torch.ones(1, h * w, device=device)]
    if elastic:
        knots = torch.eye(_KNOTS**2, device=device).reshape(-1, 1, _KNOTS, _KNOTS)
        smooth = F.interpolate(knots, size=(h, w), mode="bicubic", align_corners=True)
        parts.append(smooth.reshape(_KNOTS**2, h * w))
    return torch.cat(parts)
