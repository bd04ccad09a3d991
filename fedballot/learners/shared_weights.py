"""Which torch networks may share their weights, and the gradients of single records."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from fedballot.core.errors import DataError, SettingsError
from fedballot.learners import training
from fedballot.learners.base import WEIGHT_LEARNERS
from fedballot.learners.checks import FloatArray


def check_shareable(name: str, net: nn.Module) -> None:
    """Refuse the network of learner ``name`` if its parameters are not all of its state."""
    extra = sorted(set(net.state_dict()) - {key for key, _ in net.named_parameters()})
    if extra:
        raise SettingsError(
            f"learner {name!r} keeps statistics of its data beside its weights ({extra[0]}), as batch norm "
            f"does; averaging them is unsound, and they are private: use one of {', '.join(WEIGHT_LEARNERS)}"
        )


def check_each_alone(name: str, net: nn.Module, shape: tuple[int, ...], device: torch.device) -> None:
    """Refuse a network in which records meet: clipping bounds a record only if the others do not move with it."""
    joint = [type(m).__name__ for m in net.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if joint or training.remembers(net.eval(), shape, device):
        why = f"{joint[0]} is about a whole batch" if joint else "it keeps a state, or draws at random"
        raise SettingsError(
            f"learner {name!r}: a record's gradient depends on other records ({why}), so that clipping it "
            f"bounds nothing: use one of {', '.join(WEIGHT_LEARNERS)}"
        )


def weights_of(net: nn.Module) -> list[FloatArray]:
    """Weights, float32, in the order of ``parameters``."""
    return [np.array(p.detach().cpu().numpy(), dtype=np.float32) for p in net.parameters()]


def put_weights(name: str, net: nn.Module, weights: list[FloatArray]) -> None:
    """Put :func:`weights_of`'s arrays into a network of the same kind.

    Raises
    ------
    DataError
        If their shapes are others or a value is not finite.
    """
    parameters = list(net.parameters())
    shapes, expected = [w.shape for w in weights], [tuple(p.shape) for p in parameters]
    if shapes != expected:
        raise DataError(f"weights of {name!r} have shapes {expected}, but these have {shapes}")
    if not all(np.isfinite(w).all() for w in weights):
        raise DataError(f"weights for {name!r} hold NaN or infinity")
    with torch.no_grad():
        for p, w in zip(parameters, weights, strict=True):
            p.copy_(torch.from_numpy(np.array(w)).to(p.device))
