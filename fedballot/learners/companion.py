"""What may train beside a network: it adds a loss of its own to that of the classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor, nn


class Companion(nn.Module, ABC):
    """A module whose trainable parameters, if it has any, take the same steps as the network's."""

    @abstractmethod
    def loss(self, net: nn.Module, x: Tensor, classify: Callable[[Tensor], Tensor], done: float) -> Tensor:
        """Loss of the classes on ``x`` plus the companion's own.

        Parameters
        ----------
        classify
            Logits of ``x`` -> loss.
        done
            Share of the training that is behind.
        """

    def close(self) -> None:
        """Let go of the network."""
