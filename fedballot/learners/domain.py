"""Domain-adversarial training: features that tell classes apart but not the private records from the public pool.

Source: Ganin et al. 2016, "Domain-adversarial training of neural networks", Equations 9 to 14 and section 5.2.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedballot.core.errors import SettingsError
from fedballot.learners.terms import Step, Term

HIDDEN = 64


class _Reverse(torch.autograd.Function):
    """The gradient reversal layer (Equations 16 and 17): forwards the identity, backwards minus the strength."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, strength: float) -> Tensor:
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return -ctx.strength * gradients[0], None


class DomainAdversary(Term):
    """A domain classifier on the inputs of a network's last linear layer, trained against the layers below.

    Parameters
    ----------
    net
        The network that is trained.
    draw
        Number of rows -> that many random inputs of the target domain, without labels.
    strength
        Largest weight of the reversed gradient; it grows from 0 as training goes on.
    """

    def __init__(self, net: nn.Module, draw: Callable[[int], Tensor], strength: float) -> None:
        super().__init__()
        linear = [module for module in net.modules() if isinstance(module, nn.Linear)]
        if len(linear) < 2:
            raise SettingsError("domain adaptation needs a network with a hidden layer before the last linear one")
        last = linear[-1]
        device = last.weight.device
        self.head = nn.Sequential(nn.Linear(last.in_features, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1)).to(device)
        self._sample, self._strength = draw, strength
        self._features: Tensor | None = None
        self._hook = last.register_forward_pre_hook(self._keep)

    def draw(self, n: int) -> Tensor:
        """As many inputs of the target domain."""
        return self._sample(n)

    def loss(self, step: Step) -> Tensor:
        """Loss of the domains on the batch and its target inputs."""
        if self._features is None:
            raise RuntimeError("the network's last linear layer was not reached")
        n = len(step.x)
        features = torch.cat([self._features[:n], self._features[step.own]])
        strength = self._strength * (2 / (1 + math.exp(-10 * step.done)) - 1)
        domains = self.head(_Reverse.apply(features, strength)).squeeze(1)
        truth = (torch.arange(len(domains), device=domains.device) >= n).float()
        return F.binary_cross_entropy_with_logits(domains, truth)

    def close(self) -> None:
        """Let go of the network."""
        self._hook.remove()

    def _keep(self, module: nn.Module, args: tuple[Tensor, ...]) -> None:
        self._features = args[0]
