"""The training loop of all torch learners: AdamW on one flat vector, cosine schedule, averaged weights."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

AVERAGING = 0.99
WEIGHT_DECAY = 1e-2


class Epoch(NamedTuple):
    """What one epoch trains on: rows of the data, and targets (len(rows), classes) times their weights."""

    rows: Tensor
    targets: Tensor


Plan = Callable[[int, nn.Module], Epoch]


def binary(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of each label by itself; targets below 0 are unknown and do not count."""
    known = (targets >= 0).float()
    losses = F.binary_cross_entropy_with_logits(logits, targets.clamp_min(0), reduction="none")
    return (losses * known).sum() / known.sum().clamp_min(1)


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross-entropy": F.cross_entropy,
    "mae": F.l1_loss,
    "l2": F.mse_loss,
    "binary": binary,
}


class AdamW:
    """Decoupled weight decay Adam (Loshchilov and Hutter 2019), the same steps as ``torch.optim.AdamW``.

    Parameters and gradients become views of two flat vectors, so that a step is a handful of kernels however
    many layers there are. torch's own optimiser imports its compiler at the first step: 2 to 3 s a process.
    """

    def __init__(self, net: nn.Module, *, decay: float = WEIGHT_DECAY) -> None:
        parameters = [p for p in net.parameters() if p.requires_grad]
        self.weights = torch.cat([p.detach().reshape(-1) for p in parameters])
        self.gradient = torch.zeros_like(self.weights)
        self._mean = torch.zeros_like(self.weights)
        self._square = torch.zeros_like(self.weights)
        self._decay = decay
        self._steps = 0
        start = 0
        for p in parameters:
            stop = start + p.numel()
            p.data = self.weights[start:stop].view_as(p)
            p.grad = self.gradient[start:stop].view_as(p)
            start = stop

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """Take one step with the gradient that has been accumulated, and clear it."""
        self._steps += 1
        self._mean.lerp_(self.gradient, 0.1)
        self._square.mul_(0.999).addcmul_(self.gradient, self.gradient, value=0.001)
        root = self._square.sqrt().div_(math.sqrt(1 - 0.999**self._steps)).add_(1e-8)
        self.weights.mul_(1 - lr * self._decay)
        self.weights.addcdiv_(self._mean, root, value=-lr / (1 - 0.9**self._steps))
        self.gradient.zero_()


class Average:
    """An exponential average of a network's weights and buffers, younger in the first steps."""

    def __init__(self, net: nn.Module) -> None:
        self.net = deepcopy(net).eval()
        self._steps = 0

    @torch.no_grad()
    def update(self, net: nn.Module) -> None:
        """Move towards the network's present state."""
        self._steps += 1
        share = 1 - min(AVERAGING, (1 + self._steps) / (10 + self._steps))
        for mine, other in zip(self.net.state_dict().values(), net.state_dict().values(), strict=True):
            if mine.is_floating_point():
                mine.lerp_(other, share)
            else:
                mine.copy_(other)


def train(
    net: nn.Module,
    inputs: Callable[[Tensor], Tensor],
    plan: Plan,
    *,
    epochs: int,
    batch_size: int,
    lr: float,
    average: bool,
    loss: str = "cross-entropy",
    temperature: float = 1.0,
    progress: Callable[[int, int], None] | None = None,
) -> nn.Module:
    """Train, and return the network, or the average of its weights.

    Parameters
    ----------
    inputs
        Rows -> augmented float inputs.
    plan
        (epoch, network that predicts best so far) -> what to train on in this epoch, in any order.
    loss
        A key of ``LOSSES``.
    temperature
        What logits are divided by before the loss.
    """
    optimiser = AdamW(net)
    averaged = Average(net) if average else None
    result = averaged.net if averaged else net
    for epoch in range(epochs):
        rows, targets = plan(epoch, result)
        order = torch.randperm(len(rows), device=rows.device)
        batches = list(_batches(order, batch_size))
        net.train()
        for number, batch in enumerate(batches):
            logits = net(inputs(rows[batch])) / temperature
            LOSSES[loss](logits, targets[batch]).backward()  # type: ignore[no-untyped-call]
            done = (epoch + number / len(batches)) / epochs
            optimiser.step(lr * 0.5 * (1 + math.cos(math.pi * done)))
            if averaged:
                averaged.update(net)
        if progress:
            progress(epoch + 1, epochs)
    for p in net.parameters():
        p.grad = None
    return result


def _batches(order: Tensor, size: int) -> Iterator[Tensor]:
    """Slices of ``order``; a single row at the end is doubled, for batch norm cannot train on one."""
    for batch in torch.split(order, size):
        yield batch if len(batch) > 1 else batch.repeat(2)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Within the block torch's global generators start from ``seed``; afterwards they are as before."""
    cuda = [device.index if device.index is not None else torch.cuda.current_device()] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        torch.manual_seed(seed)
        yield
