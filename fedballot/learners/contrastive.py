"""Contrastive pretraining of a feature extractor on public images, without labels.

Source: Chen et al. 2020, "A simple framework for contrastive learning of visual representations" (SimCLR), equation 1,
trained with Adam at 1e-3 as in "FedAUXfdp: Differentially private one-shot federated distillation", section 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedballot.core.errors import RunError, SettingsError
from fedballot.learners import nets, training
from fedballot.learners.checks import FloatArray, Inputs

ARCHITECTURES = ("resnet8", "resnet8-gn", "shufflenet-v2", "mobilenet-v2")
LR = 1e-3
TEMPERATURE = 0.5
BATCH = 256
_PROJECTED = 64


def backbone(architecture: str, input_shape: tuple[int, ...]) -> nn.Module:
    """The network up to the inputs of its last linear layer, with fresh weights.

    Raises
    ------
    SettingsError
        If the architecture has no last linear layer to take off, or the images are too small.
    """
    net = nets.builder(architecture, input_shape)(2)
    linear = [(name, module) for name, module in net.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise SettingsError(f"extractor 'simclr-{architecture}': the network has no linear layer at its end")
    parent, _, child = linear[-1][0].rpartition(".")
    setattr(net.get_submodule(parent), child, nn.Identity())
    return net


def contrastive_loss(one: Tensor, other: Tensor, temperature: float = TEMPERATURE) -> Tensor:
    """NT-Xent: each of 2n views (n, d) and (n, d) must find its twin among the other 2n - 1 by cosine (equation 1)."""
    n = len(one)
    views = F.normalize(torch.cat([one, other]))
    likeness = (views @ views.T / temperature).fill_diagonal_(-math.inf)
    twins = torch.cat([torch.arange(n, 2 * n), torch.arange(n)]).to(one.device)
    return F.cross_entropy(likeness, twins)


def views(x: Tensor) -> Tensor:
    """A random view of each image (n, channels, h, w) in [0, 1]: crop, flip, brightness, contrast, colours, grey."""
    n, channels, h, w = x.shape

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return torch.rand(n, *shape, device=x.device).mul_(high - low).add_(low)

    side = uniform(0.3, 1.0).sqrt()  # share of the area that stays
    stretch = torch.exp(uniform(-math.log(4 / 3) / 2, math.log(4 / 3) / 2))
    width, height = (side * stretch).clamp(max=1.0), (side / stretch).clamp(max=1.0)
    flip = torch.randint(0, 2, (n,), device=x.device).mul(2).sub(1)
    zero = torch.zeros(n, device=x.device)
    rows = [width * flip, zero, uniform(-1, 1) * (1 - width), zero, height, uniform(-1, 1) * (1 - height)]
    grid = F.affine_grid(torch.stack(rows, dim=1).reshape(n, 2, 3), [n, channels, h, w], align_corners=False)
    out = F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)
    mean = out.mean(dim=(1, 2, 3), keepdim=True)
    out = (out - mean) * uniform(0.6, 1.4, 1, 1, 1) + mean * uniform(0.6, 1.4, 1, 1, 1)
    if channels == 3:
        grey = out.mean(dim=1, keepdim=True)
        share = uniform(0.4, 1.6, 1, 1, 1) * (uniform(0, 1, 1, 1, 1) >= 0.2)  # one in five loses its colours
        out = (grey + (out - grey) * share) * uniform(0.85, 1.15, 3, 1, 1)
    return out.clamp(0, 1)


def pretrain(
    architecture: str,
    images: Inputs,
    *,
    epochs: int,
    seed: int,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> nn.Module:
    """Train a backbone so that two views of an image lie close together.

    Parameters
    ----------
    architecture
        One of ``ARCHITECTURES``.
    images
        Public images, uint8 (n, h, w) or (n, h, w, 3).
    epochs, seed
        Of training; the same seed gives the same weights on the same kind of CPU.

    Raises
    ------
    SettingsError
        For fewer than 2 images.
    RunError
        If training diverges.
    """
    if len(images) < 2:
        raise SettingsError(f"contrastive pretraining needs at least 2 public images, not {len(images)}")
    place = torch.device(device)
    data = torch.from_numpy(np.array(images)).to(place)
    data = data.unsqueeze(1) if data.ndim == 3 else data.permute(0, 3, 1, 2).contiguous()
    with training.seeded(seed, place):
        net = backbone(architecture, images.shape[1:]).to(place)
        with torch.no_grad():
            net.eval()
            width = net(data[:1].float().div_(255)).shape[1]
        projector = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, _PROJECTED)).to(place)
        both = nn.Sequential(net, projector).train()
        optimiser = training.AdamW(both, decay=0.0)  # which is Adam
        for epoch in range(epochs):
            for batch in torch.split(torch.randperm(len(data), device=place), BATCH):
                if len(batch) < 2:
                    continue  # no other image to tell apart
                x = data[batch].float().div_(255)
                projections = both(torch.cat([views(x), views(x)]))
                contrastive_loss(*projections.chunk(2)).backward()  # type: ignore[no-untyped-call]
                optimiser.step(LR)
            if progress:
                progress(epoch + 1, epochs)
    if not all(bool(value.isfinite().all()) for value in net.state_dict().values()):
        raise RunError(f"contrastive pretraining of {architecture!r} diverged")
    for p in net.parameters():
        p.grad = None
    return net.eval()


def state_vector(net: nn.Module) -> FloatArray:
    """All weights and statistics of a network, float32 (k,)."""
    values = [value.detach().cpu().float().reshape(-1) for value in net.state_dict().values()]
    return torch.cat(values).numpy()


def load_vector(net: nn.Module, vector: FloatArray) -> nn.Module:
    """Put :func:`state_vector`'s numbers back into a network of the same kind.

    Raises
    ------
    SettingsError
        If their number is another, or one is not finite.
    """
    state = net.state_dict()
    size = sum(value.numel() for value in state.values())
    if vector.shape != (size,) or not np.isfinite(vector).all():
        raise SettingsError(f"the network has {size} finite numbers, but the vector has shape {vector.shape}")
    start = 0
    for value in state.values():
        stop = start + value.numel()
        value.copy_(torch.from_numpy(np.array(vector[start:stop])).reshape(value.shape).to(value.dtype))
        start = stop
    return net.eval()
