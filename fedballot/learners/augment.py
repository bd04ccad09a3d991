"""Random image transforms, a batch at a time: one matrix product and one ``grid_sample``."""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor


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


class Augmenter:
    """Applies an Augmentation to images of one size, with torch's global generator."""

    def __init__(self, augmentation: Augmentation, h: int, w: int, device: torch.device) -> None:
        self.augmentation = augmentation
        self.h, self.w = h, w
        self._basis = _basis(h, w, device, elastic=augmentation.elastic > 0)

    def __call__(self, x: Tensor) -> Tensor:
        """Transform float images (n, channels, h, w); what comes in from outside is black."""
        n = len(x)
        coefficients = self._affine(n, x.device)
        if self.augmentation.elastic:
            # the sampling grid spans [-1, 1], so a share of the width counts twice
            moves = torch.randn(n, 2, _KNOTS**2, device=x.device) * (2 * self.augmentation.elastic)
            coefficients = torch.cat([coefficients, moves], dim=2)
        grid = (coefficients @ self._basis).reshape(n, 2, self.h, self.w).permute(0, 2, 3, 1)
        return F.grid_sample(x, grid, align_corners=False)

    def _affine(self, n: int, device: torch.device) -> Tensor:
        a = self.augmentation
        angle, size_x, size_y, shear, shift_x, shift_y = torch.rand(6, n, device=device).mul_(2).sub_(1)
        angle = angle * math.radians(a.degrees)
        size_x, size_y, shear = 1 + a.scale * size_x, 1 + a.scale * size_y, a.shear * shear
        if a.flip:
            size_x = size_x * torch.randint(0, 2, (n,), device=device).mul(2).sub(1)
        cos, sin = torch.cos(angle), torch.sin(angle)
        rows = [
            size_x * cos, size_y * (shear * cos - sin), 2 * a.shift * shift_x,
            size_x * sin, size_y * (shear * sin + cos), 2 * a.shift * shift_y,
        ]  # fmt: skip
        return torch.stack(rows, dim=1).reshape(n, 2, 3)


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
