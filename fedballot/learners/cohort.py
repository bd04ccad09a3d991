"""Several networks of one kind trained at once, their weights stacked, each on its own data at its own pace.

On a GPU a step of a small network is mostly the launch of its kernels, and a step of a cohort launches about as many.
Each member draws from its own generator what it would draw alone, so its weights are those of training alone but for
rounding. Stacks have shapes of public numbers alone: shorter batches are filled up with records that count nothing, and
a member that is done stays in, so that no library chooses its kernels by another member's records.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from fedballot.learners.augment import Augmenter, Draws
from fedballot.learners.memory import keep_freed_memory
from fedballot.learners.plans import Mixture, Schedule
from fedballot.learners.tensors import floats, take
from fedballot.learners.training import WEIGHT_DECAY

logger = logging.getLogger("fedballot")

# whose outputs depend on one record, its member's weights and nothing else
_STACKABLE = {nn.Sequential, nn.Conv2d, nn.Linear, nn.ReLU, nn.Flatten, nn.LayerNorm}


@dataclass(frozen=True, eq=False)
class Member:
    """One network that is to be trained by cross-entropy, see ``training.train``.

    Parameters
    ----------
    net
        With the weights that it starts from; it gets those that it ends with.
    random
        State of the generator on its device from which it draws.
    data, mixture
        Its records (n, ...), and which of them each epoch trains on, and for what.
    augmenter
        Changes inputs; None: they stay as they are.
    """

    net: nn.Module
    random: Tensor
    data: Tensor
    mixture: Mixture
    augmenter: Augmenter | None
    schedule: Schedule

    @property
    def kind(self) -> tuple[object, ...]:
        """What members of a stack have in common."""
        change = self.augmenter and self.augmenter.augmentation
        one = next(self.net.parameters())
        shape = (self.data.shape[1:], self.data.dtype, self.mixture.targets.shape[1], self.data.device)
        alike = (self.schedule.batch_size, self.schedule.temperature, self.schedule.optimizer)
        return (str(self.net), one.dtype, *shape, *alike, change)


class Batch(NamedTuple):
    """A member's next batch: its rows, filled up; how many of them count; its draws; its rate."""

    rows: Tensor
    size: int
    draws: Draws | None
    lr: float


def random_state(device: torch.device) -> Tensor:
    """Where torch's global generator of a device stands."""
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        return torch.cuda.default_generators[index].get_state()
    return torch.default_generator.get_state()


def stackable(net: nn.Module) -> bool:
    """Whether all there is to a network is its trainable weights, and records do not meet in it."""
    weights = list(net.parameters())
    return (
        isinstance(net, nn.Sequential)
        and all(type(module) in _STACKABLE and not module._forward_hooks for module in net.modules())
        and bool(weights)
        and all(weight.requires_grad for weight in weights)
    )


def train(members: Sequence[Member]) -> list[nn.Module | None]:
    """Train those that can be stacked with others; None for whoever must train alone.

    A stack that fails, say for lack of memory, is given up: its members train alone.
    """
    kinds: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for place, member in enumerate(members):
        if stackable(member.net):
            kinds[member.kind].append(place)
    out: list[nn.Module | None] = [None] * len(members)
    for places in kinds.values():
        if len(places) == 1:
            continue
        try:
            train_stacked([members[place] for place in places])
        except RuntimeError as error:  # torch's: memory, or a kernel that it lacks
            logger.warning("%d clients train one by one: %s", len(places), error)
            continue
        for place in places:
            out[place] = members[place].net.eval()
    return out


class Stack:
    """The weights of members (B, d) in one tensor, of which parameters are views, and their optimizer's steps.

    See ``training.AdamW`` and ``training.SGD``, whose steps these are.
    """

    def __init__(self, nets: Sequence[nn.Module], optimizer: str) -> None:
        self._plain = optimizer == "sgd"
        self.weights = torch.stack([nn.utils.parameters_to_vector(net.parameters()).detach() for net in nets])
        self._mean, self._square = torch.zeros_like(self.weights), torch.zeros_like(self.weights)
        self._steps = 0
        self.parameters: dict[str, Tensor] = {}
        start = 0
        for name, one in nets[0].named_parameters():
            stop = start + one.numel()
            view = self.weights[:, start:stop].view(len(nets), *one.shape)
            self.parameters[name] = view.detach().requires_grad_()
            start = stop

    def gradient(self, loss: Tensor) -> Tensor:
        """Of the sum of all members' losses: of each in its own weights (B, d)."""
        parts = torch.autograd.grad(loss, list(self.parameters.values()))
        return torch.cat([part.flatten(1) for part in parts], dim=1)

    @torch.no_grad()
    def step(self, gradient: Tensor, lr: Tensor, done: Tensor) -> None:
        """Take one step at each member's rate (B, 1); weights of those who are ``done`` (B, 1) stay as they are."""
        self._steps += 1
        gradient.masked_fill_(done, 0)  # times the rate, 0, is not enough where it is no number
        if self._plain:
            self.weights.sub_(gradient.mul_(lr))
            return
        self._mean.lerp_(gradient, 0.1)
        self._square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        root = self._square.sqrt().div_(math.sqrt(1 - 0.999**self._steps)).add_(1e-8)
        self.weights.mul_(1 - lr * WEIGHT_DECAY)
        self.weights.sub_(self._mean.div(root).mul_(lr / (1 - 0.9**self._steps)))


def train_stacked(members: Sequence[Member]) -> None:
    """Train members of one kind, whose networks get their weights when all are done."""
    keep_freed_memory()
    first = members[0]
    net, device, width = first.net, first.data.device, max(2, first.schedule.batch_size)
    stack = Stack([member.net for member in members], first.schedule.optimizer)
    data, targets = torch.cat([one.data for one in members]), torch.cat([one.mixture.targets for one in members])
    starts = [0, *torch.tensor([len(one.data) for one in members]).cumsum(0).tolist()]
    idle = [torch.full((width,), start, device=device) for start in starts[:-1]]
    paces = [_batches(member, start, width) for member, start in zip(members, starts, strict=False)]
    places = torch.arange(width, device=device)
    forward = vmap(lambda weights, x: functional_call(net, weights, (x,)))
    net.train()
    while any(turns := [next(pace, None) for pace in paces]):
        rows = torch.stack([turn.rows if turn else still for turn, still in zip(turns, idle, strict=True)]).reshape(-1)
        pairs = [(turn.size, turn.lr) if turn else (0, 0.0) for turn in turns]
        sizes, lr = torch.tensor(pairs, dtype=stack.weights.dtype).to(device)[:, :, None].unbind(1)
        x = floats(take(data, rows))
        if first.augmenter:
            x = first.augmenter.moved(x, _joined([turn and turn.draws for turn in turns], width, device))
        logits = forward(stack.parameters, x.view(len(members), width, *x.shape[1:])).flatten(0, 1)
        losses = F.cross_entropy(logits / first.schedule.temperature, targets[rows], reduction="none")
        share = (places < sizes) / sizes.clamp_min(1)
        stack.step(stack.gradient((losses.view_as(share) * share).sum()), lr, sizes == 0)
    for member, weights in zip(members, stack.weights, strict=True):
        nn.utils.vector_to_parameters(weights.clone(), member.net.parameters())


def _batches(member: Member, start: int, width: int) -> Iterator[Batch]:
    """What ``training.train`` would go through alone; rows count from ``start`` in the data of all."""
    generator = torch.Generator(device=member.data.device)
    generator.set_state(member.random)
    size, epochs = member.schedule.batch_size, member.schedule.epochs
    for epoch in range(epochs):
        every = member.mixture.rows(generator)
        n = len(every)
        order = every[torch.randperm(n, generator=generator, device=every.device)] + start
        sizes = [max(2, min(size, n - place)) for place in range(0, n, size)]  # a single row is doubled
        if size == 1:
            order = order.repeat_interleave(2)
        elif n % size == 1:
            order = torch.cat([order, order[-1:]])
        filled = torch.cat([order, order[:1].expand(len(sizes) * width - len(order))]).view(-1, width)
        for number, (rows, count) in enumerate(zip(filled, sizes, strict=True)):
            draws = member.augmenter.draw(count, member.data.device, generator) if member.augmenter else None
            yield Batch(rows, count, draws, member.schedule.rate((epoch + number / len(sizes)) / epochs))


def _joined(draws: Sequence[Draws | None], width: int, device: torch.device) -> Draws:
    """The draws of all members' batches, one after the other, filled up; clients' images are not bent, so no knots."""
    none = torch.zeros(6, 0, device=device)
    affine = [one.affine if one else none for one in draws]
    flips = [one.flips if one and one.flips is not None else none[0] for one in draws]
    flipped = any(one and one.flips is not None for one in draws)
    return Draws(_filled(affine, width), _filled(flips, width) if flipped else None, None)


def _filled(parts: Sequence[Tensor], width: int) -> Tensor:
    return torch.cat([F.pad(part, (0, width - part.shape[-1])) for part in parts], dim=-1)
