"""What the training of a torch learner goes through: which records in which epoch, for how long, how fast."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Epoch(NamedTuple):
    """What one epoch trains on: rows of the data, and targets (len(rows), classes) times their weights."""

    rows: Tensor
    targets: Tensor


class Schedule(NamedTuple):
    """How long and how fast; logits are divided by the temperature before the loss.

    ``mixup_alpha``: records of a batch are mixed in pairs by a share from Beta(alpha, alpha); 0: not. ``optimizer``:
    "adamw" or "sgd".
    """

    epochs: int
    batch_size: int
    lr: float
    temperature: float = 1.0
    mixup_alpha: float = 0.0
    optimizer: str = "adamw"

    def rate(self, done: float) -> float:
        """The learning rate when a share of the training is behind: half a cosine."""
        return self.lr * 0.5 * (1 + math.cos(math.pi * done))


Plan = Callable[[int, nn.Module], Epoch]


class Mixture(NamedTuple):
    """Every epoch on the first ``own`` rows, and on at most as many random ones of each pool (its first row, its size).

    Targets (n, classes) are those of all rows, times their weights.
    """

    targets: Tensor
    own: int
    pools: tuple[tuple[int, int], ...] = ()

    def rows(self, generator: torch.Generator | None = None) -> Tensor:
        """The rows of an epoch; None: drawn from torch's global generator."""
        device = self.targets.device
        rows = [torch.arange(self.own, device=device)]
        for start, size in self.pools:
            rows.append(start + torch.randperm(size, generator=generator, device=device)[: self.own])
        return torch.cat(rows)

    def epoch(self, number: int, best: nn.Module) -> Epoch:
        """A plan."""
        rows = self.rows()
        return Epoch(rows, self.targets[rows])


def always(targets: Tensor) -> Mixture:
    """Every epoch on all rows."""
    return Mixture(targets, len(targets))
