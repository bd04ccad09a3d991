"""The training loop of all torch learners: steps of one flat vector, cosine schedule, averaged weights."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from fedballot.learners.checks import PSEUDO_LABEL_THRESHOLD
from fedballot.learners.memory import keep_freed_memory
from fedballot.learners.plans import Plan, Schedule
from fedballot.learners.terms import Step, Term

AVERAGING = 0.99
WEIGHT_DECAY = 1e-2


def pseudo_labels(logits: Tensor, prior: Tensor | None = None) -> Tensor:
    """One-hot rows (n, C) where the aligned probabilities reach the threshold, zero rows elsewhere.

    They are aligned to the shares (C,) of the prior, or to even classes.
    """
    p = logits.softmax(1)
    p = p / p.mean(0).clamp_min(1e-6)
    p = p if prior is None else p * prior
    p = p / p.sum(1, keepdim=True)
    top, label = p.max(1)
    return F.one_hot(label, p.shape[1]).float() * (top >= PSEUDO_LABEL_THRESHOLD)[:, None]


def binary(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of each label by itself; targets below 0 are unknown and do not count."""
    mask = (targets >= 0).float()
    losses = F.binary_cross_entropy_with_logits(logits, targets.clamp_min(0), reduction="none")
    return (losses * mask).sum() / mask.sum().clamp_min(1)


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross-entropy": F.cross_entropy,
    "mae": F.l1_loss,
    "l2": F.mse_loss,
    "binary": binary,
}


class SGD:
    """Plain gradient descent, the same steps as ``torch.optim.SGD`` without momentum and decay.

    Parameters and gradients become views of two flat vectors, so that a step is a handful of kernels however
    many layers there are. torch's own optimisers import its compiler at the first step: 2 to 3 s a process.
    """

    def __init__(self, net: nn.Module) -> None:
        parameters = [p for p in net.parameters() if p.requires_grad]
        self.weights = torch.cat([p.detach().reshape(-1) for p in parameters])
        self.gradient = torch.zeros_like(self.weights)
        start = 0
        for p in parameters:
            stop = start + p.numel()
            p.data = self.weights[start:stop].view_as(p)
            p.grad = self.gradient[start:stop].view_as(p)
            start = stop

    def step(self, lr: float) -> None:
        """Take one step with the gradient that has been accumulated, and clear it."""
        self.weights.add_(self.gradient, alpha=-lr)
        self.gradient.zero_()


class AdamW(SGD):
    """Decoupled weight decay Adam (Loshchilov and Hutter 2019), the same steps as ``torch.optim.AdamW``."""

    def __init__(self, net: nn.Module, *, decay: float = WEIGHT_DECAY) -> None:
        super().__init__(net)
        self._mean = torch.zeros_like(self.weights)
        self._square = torch.zeros_like(self.weights)
        self._root = torch.empty_like(self.weights)
        self._decay = decay
        self._steps = 0

    def step(self, lr: float) -> None:
        """Take one step with the gradient that has been accumulated, and clear it."""
        self._steps += 1
        self._mean.lerp_(self.gradient, 0.1)
        self._square.mul_(0.999).addcmul_(self.gradient, self.gradient, value=0.001)
        root = torch.sqrt(self._square, out=self._root).div_(math.sqrt(1 - 0.999**self._steps)).add_(1e-8)
        self.weights.mul_(1 - lr * self._decay)
        self.weights.addcdiv_(self._mean, root, value=-lr / (1 - 0.9**self._steps))
        self.gradient.zero_()


OPTIMIZERS: dict[str, type[SGD]] = {"adamw": AdamW, "sgd": SGD}


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
        moved = set[int]()  # tied weights stand under several names, and move once
        for mine, other in zip(self.net.state_dict().values(), net.state_dict().values(), strict=True):
            if mine.numel() and mine.data_ptr() in moved:
                continue
            moved.add(mine.data_ptr())
            if mine.is_floating_point():
                mine.lerp_(other, share)
            else:
                mine.copy_(other)


def train(
    net: nn.Module,
    inputs: Callable[[Tensor], Tensor],
    plan: Plan,
    schedule: Schedule,
    *,
    average: bool,
    loss: str = "cross-entropy",
    terms: Sequence[Term] = (),
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
    terms
        What is added to the loss, or changes its gradient.
    """
    keep_freed_memory()
    optimiser = OPTIMIZERS[schedule.optimizer](nn.ModuleList([net, *terms]))
    averaged = Average(net) if average else None
    classify = partial(_loss, LOSSES[loss], schedule.temperature)
    result = averaged.net if averaged else net
    for epoch in range(schedule.epochs):
        rows, targets = plan(epoch, result)
        order = torch.randperm(len(rows), device=rows.device)
        batches = list(_batches(order, schedule.batch_size))
        net.train()
        for number, batch in enumerate(batches):
            done = (epoch + number / len(batches)) / schedule.epochs
            x, y = mixed(inputs(rows[batch]), targets[batch], schedule.mixup_alpha)
            value = _batch_loss(net, x, y, classify, terms, done)
            value.backward()  # type: ignore[no-untyped-call]
            for term in terms:
                term.correct(optimiser.weights, optimiser.gradient)
            optimiser.step(schedule.rate(done))
            if averaged:
                averaged.update(net)
        if progress:
            progress(epoch + 1, schedule.epochs)
    for p in net.parameters():
        p.grad = None
    return result


def mixed(x: Tensor, targets: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """Each record with another of the batch, and their targets, by one share from Beta(alpha, alpha); 0: as they are.

    Source: Zhang et al. 2018, "mixup: Beyond empirical risk minimization".
    """
    if not alpha:
        return x, targets
    share = float(torch.distributions.Beta(alpha, alpha).sample())
    other = torch.randperm(len(x), device=x.device)
    return share * x + (1 - share) * x[other], share * targets + (1 - share) * targets[other]


def gradients(net: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    """Gradient of each record's cross-entropy, (m, d) for m records and d weights in the order of ``parameters``.

    Row i is a function of record i, to the last bit, whoever else is in the batch. Hence one record at a time, from one
    buffer: for a batch, libraries choose their kernels by its size, and the last bits of all rows would depend on it. A
    gradient that is not finite is zero, for an error would tell of the record.
    """
    weights = list(net.parameters())
    trained = [w for w in weights if w.requires_grad]
    out = torch.zeros(len(x), sum(w.numel() for w in weights), device=x.device)
    one = torch.empty(1, *x.shape[1:], dtype=x.dtype, device=x.device)
    with torch.backends.cudnn.flags(enabled=True, deterministic=True):
        for row in range(len(x)):
            one.copy_(x[row : row + 1])
            loss = F.cross_entropy(net(one), labels[row : row + 1])
            parts = iter(torch.autograd.grad(loss, trained, materialize_grads=True))
            torch.cat([(next(parts) if w.requires_grad else w.detach() * 0).reshape(-1) for w in weights], out=out[row])
    out[~out.isfinite().all(dim=1)] = 0
    return out


def remembers(net: nn.Module, shape: tuple[int, ...], device: torch.device) -> bool:
    """Whether a record's gradient may depend on those before it: the network keeps a state, or draws at random.

    Tried on made-up inputs of that shape, the same for everybody, so that the answer tells nothing of private ones.
    """
    one, other = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0)).to(device)
    three = gradients(net, torch.stack([one, other, one]), torch.zeros(3, dtype=torch.int64, device=device))
    return not torch.equal(three[0], three[2])


def sgd_steps(
    net: nn.Module,
    inputs: Callable[[Tensor], Tensor],
    data: Tensor,
    labels: Tensor,
    batches: Iterable[Tensor],
    combine: Callable[[NDArray[np.float32]], NDArray[np.floating]],
    *,
    lr: float,
) -> None:
    """One step of plain gradient descent for each batch, along what ``combine`` makes of its records' gradients.

    The network stays in evaluation mode, and ``inputs`` may draw nothing: dropout and augmentation come from a stream
    that all records share, and the absence of one would change what the others get.

    Source: Abadi et al. 2016, "Deep learning with differential privacy", Algorithm 1, without its clipping and noise.
    """
    net.eval()
    for rows in batches:
        per_record = gradients(net, inputs(data[rows]), labels[rows])
        step = torch.from_numpy(np.asarray(combine(per_record.cpu().numpy()), dtype=np.float32)).to(data.device)
        with torch.no_grad():
            nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(net.parameters()) - lr * step, net.parameters())


def _loss(of: Callable[[Tensor, Tensor], Tensor], temperature: float, logits: Tensor, targets: Tensor) -> Tensor:
    return of(logits if temperature == 1 else logits / temperature, targets)


def _batch_loss(
    net: nn.Module,
    x: Tensor,
    targets: Tensor,
    classify: Callable[[Tensor, Tensor], Tensor],
    terms: Sequence[Term],
    done: float,
) -> Tensor:
    """The loss of a batch and of all terms; their own inputs go through the network behind the batch."""
    if not terms:
        return classify(net(x), targets)
    n, own = len(x), []
    for term in terms:
        more = term.draw(n)
        start = len(x)
        x = x if more is None else torch.cat([x, more])
        own.append(slice(start, len(x)))
    logits = net(x)
    value = classify(logits[:n], targets)
    for term, rows in zip(terms, own, strict=True):
        added = term.loss(Step(x[:n], targets, logits[:n], rows, done))
        value = value if added is None else value + added
    return value


def _batches(order: Tensor, size: int) -> Iterator[Tensor]:
    """Slices of ``order``; a single row at the end is doubled, for batch norm cannot train on one."""
    for batch in torch.split(order, size):
        yield batch if len(batch) > 1 else batch.repeat(2)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Within the block torch's global generators start from ``seed``; afterwards they are as before."""
    cuda = [device.index if device.index is not None else torch.cuda.current_device()] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        # torch.manual_seed writes down a stack for each kind of device that there is not: .4 ms
        torch.default_generator.manual_seed(seed)
        for index in cuda:
            torch.cuda.default_generators[index].manual_seed(seed)
        yield
