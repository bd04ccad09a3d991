"""The proximal term: local training stays near given weights.

Source: Li et al. 2020, "Federated optimization in heterogeneous networks" (FedProx), equation 2.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedballot.core.errors import SettingsError
from fedballot.learners.checks import FloatArray
from fedballot.learners.terms import Term


class ProximalTerm(Term):
    """Adds the gradient of mu / 2 times the squared distance to ``weights``, arrays in the order of ``parameters``.

    Raises
    ------
    SettingsError
        If they are not of the network's shapes.
    """

    def __init__(self, net: nn.Module, weights: list[FloatArray], mu: float) -> None:
        super().__init__()
        parameters = list(net.parameters())
        shapes, expected = [w.shape for w in weights], [tuple(p.shape) for p in parameters]
        if shapes != expected:
            raise SettingsError(f"Proximal: the network has weights of shapes {expected}, but these have {shapes}")
        pairs = zip(parameters, weights, strict=True)
        flat = [torch.tensor(w, device=p.device).reshape(-1) for p, w in pairs if p.requires_grad]
        self._origin, self._mu = torch.cat(flat), mu

    def correct(self, weights: Tensor, gradient: Tensor) -> None:
        if len(self._origin) < len(weights):  # what trains beside the network stays near where it begins
            self._origin = torch.cat([self._origin, weights[len(self._origin) :]])
        gradient.add_(weights - self._origin, alpha=self._mu)
