"""A generator of features at the input of a network's last linear layer, which stands in for data.

Paper: Zhu et al. 2021, "Data-free knowledge distillation for heterogeneous federated learning" (FedGen), equations 4
and 5. The generator has one hidden layer, as the authors' has, but no batch norm in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedballot.core.errors import DataError, RunError, SettingsError
from fedballot.learners.checks import FloatArray
from fedballot.learners.terms import Step, Term
from fedballot.learners.training import AdamW, seeded

HIDDEN, NOISE = 128, 32
MEASURED = 1000  # features on which a generator is measured
DIVERSITY = 1.0  # weight of the diversity loss, as in the authors' experiments


class Generator(nn.Module):
    """Labels (n,) and noise (n, NOISE) -> features (n, d); the label's embedding is its column of the first layer."""

    def __init__(self, n_classes: int, features: int) -> None:
        super().__init__()
        self.n_classes = n_classes
        self.layers = nn.Sequential(nn.Linear(n_classes + NOISE, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, features))

    def forward(self, labels: Tensor, noise: Tensor) -> Tensor:
        features: Tensor = self.layers(torch.cat([F.one_hot(labels, self.n_classes).float(), noise], dim=1))
        return features


class Heads(NamedTuple):
    """The ensemble of the clients' last layers as each label sees it: weights (C, C, d) and biases (C, C).

    A last layer is linear, so the mean of the clients' logits, weighted by the label that was asked for, is what the
    mean of their last layers says: label y has a layer ``weight[y]`` (C, d) of its own.
    """

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(
        cls,
        heads: Sequence[tuple[FloatArray, FloatArray]],
        weights: npt.NDArray[np.floating],
        device: str,
    ) -> Heads:
        """From each client's layer, weights (C, d) and bias (C,), and its weight (K, C) for each label."""
        weight = sum(np.multiply.outer(w, head[0]) for w, head in zip(weights, heads, strict=True))
        bias = sum(np.multiply.outer(w, head[1]) for w, head in zip(weights, heads, strict=True))
        return cls(*(torch.from_numpy(np.asarray(each, dtype=np.float32)).to(device) for each in (weight, bias)))

    def logits(self, features: Tensor, labels: Tensor) -> Tensor:
        """Logits (n, C) of features (n, d) that were made for these labels (n,)."""
        return torch.einsum("nd,ncd->nc", features, self.weight[labels]) + self.bias[labels]


def seen_by_head(net: nn.Module, predict: Callable[[], Tensor]) -> Tensor:
    """Inputs of the last linear layer while ``predict`` uses the network; what that gives, if there is none."""
    linear = [module for module in net.modules() if isinstance(module, nn.Linear)]
    inputs: list[Tensor] = []
    hook = linear[-1].register_forward_pre_hook(lambda _, args: inputs.append(args[0])) if linear else None
    try:
        logits = predict()
    finally:
        if hook:
            hook.remove()
    return torch.cat(inputs) if inputs else logits


def last_linear(net: nn.Module, example: Tensor) -> nn.Linear:
    """The linear layer with which a network ends.

    Parameters
    ----------
    example
        One input (1, ...).

    Raises
    ------
    SettingsError
        If the network's outputs are not those of its last linear layer, or nothing below it has weights.
    """
    linear = [module for module in net.modules() if isinstance(module, nn.Linear)]
    outputs: list[Tensor] = []
    training = net.training
    if linear:
        hook = linear[-1].register_forward_hook(lambda _, args, out: outputs.append(out))
        try:
            with torch.inference_mode():
                out = net.eval()(example)
        finally:
            hook.remove()
            net.train(training)
    if len(outputs) != 1 or outputs[0].shape != out.shape or not torch.equal(outputs[0], out):
        raise SettingsError(
            "a generator of features needs a network that ends in one linear layer, whose outputs are the logits"
        )
    own = {id(p) for p in linear[-1].parameters()}
    if all(id(p) in own for p in net.parameters()):
        raise SettingsError("a generator of features needs a network with weights below its last linear layer")
    return linear[-1]


def initial(n_classes: int, features: int, seed: int) -> FloatArray:
    """An untrained generator as one vector (g,)."""
    with seeded(seed, torch.device("cpu")):
        return _vector(Generator(n_classes, features))


def load(vector: FloatArray, n_classes: int, features: int, device: torch.device | str) -> Generator:
    """The generator with these weights (g,).

    Raises
    ------
    DataError
        If the vector has another length.
    """
    generator = Generator(n_classes, features)
    size = sum(p.numel() for p in generator.parameters())
    if vector.shape != (size,):
        raise DataError(f"a generator of {features} features has {size} weights, but these have shape {vector.shape}")
    nn.utils.vector_to_parameters(torch.from_numpy(np.array(vector, dtype=np.float32)), generator.parameters())
    return generator.to(device)


def diversity(noise: Tensor, features: Tensor) -> Tensor:
    """exp(-mean over pairs of the distance of their noise times that of their features): 1 where all are alike.

    Source: Mao et al. 2019, "Mode seeking generative adversarial networks for diverse image synthesis", equation 1,
    in the form of FedGen's authors: mean squared differences of noise (n, NOISE), absolute ones of features (n, d).
    """
    apart = (noise[:, None] - noise).square().mean(2)
    moved = torch.cdist(features, features, p=1) / features.shape[1]
    return torch.exp(-(apart * moved).mean())


def train(
    vector: FloatArray,
    heads: Heads,
    shares: npt.NDArray[np.floating],
    *,
    steps: int,
    batch_size: int,
    lr: float,
    seed: int,
) -> tuple[FloatArray, float]:
    """Train a generator to make what the ensemble takes for the label asked for (equation 4, and diversity).

    Parameters
    ----------
    vector
        The generator's weights (g,).
    shares
        Probability (C,) of each label.

    Returns
    -------
    tuple
        The weights after ``steps`` steps, and the loss of equation 4 on fresh features.

    Raises
    ------
    RunError
        If training diverged.
    """
    device = heads.weight.device
    generator = load(vector, len(shares), heads.weight.shape[2], device)
    chances = torch.from_numpy(np.asarray(shares, dtype=np.float32)).to(device)

    def sample(n: int) -> tuple[Tensor, Tensor, Tensor]:
        labels = torch.multinomial(chances, n, replacement=True)
        noise = torch.randn(n, NOISE, device=device)
        features = generator(labels, noise)
        return F.cross_entropy(heads.logits(features, labels), labels), noise, features

    with seeded(seed, device):
        optimiser = AdamW(generator)
        for _ in range(steps):
            loss, noise, features = sample(batch_size)
            (loss + DIVERSITY * diversity(noise, features)).backward()  # type: ignore[no-untyped-call]
            optimiser.step(lr)
        with torch.inference_mode():
            last_loss = float(sample(MEASURED)[0])
    if not np.isfinite(last_loss):
        raise RunError(f"training of the generator diverged with server_lr={lr:g}: use a smaller one")
    return _vector(generator), last_loss


class LatentReplay(Term):
    """Beside each batch, as many generated features, which the last layer must take for their labels (equation 5)."""

    def __init__(self, head: nn.Linear, generator: FloatArray, shares: FloatArray, strength: float) -> None:
        super().__init__()
        device = head.weight.device
        self._head, self._strength = head, strength
        self._generator = load(generator, len(shares), head.in_features, device).requires_grad_(False)
        self._shares = torch.from_numpy(np.array(shares, dtype=np.float32)).to(device)

    def draw(self, n: int) -> None:
        """Features for the batch; they go through the last layer alone."""
        self._labels = torch.multinomial(self._shares, n, replacement=True)
        self._features = self._generator(self._labels, torch.randn(n, NOISE, device=self._shares.device))

    def loss(self, step: Step) -> Tensor:
        return self._strength * F.cross_entropy(self._head(self._features), self._labels)


def _vector(generator: Generator) -> FloatArray:
    parts = [p.detach().reshape(-1) for p in generator.parameters()]
    return np.array(torch.cat(parts).cpu().numpy(), dtype=np.float32)
