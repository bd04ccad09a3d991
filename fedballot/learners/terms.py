"""Terms: what an objective adds to the training of a torch network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from fedballot.learners.checks import Inputs


@dataclass(frozen=True, eq=False)
class Model:
    """What a term may use of the torch learner that it changes.

    Attributes
    ----------
    net : the network, with the weights that training starts from.
    sampler : raw inputs -> a function that draws n of them, checked and augmented, in the network's layout.
    head : the linear layer that the network ends in; raises SettingsError where there is none.
    """

    net: nn.Module
    sampler: Callable[[Inputs], Callable[[int], Tensor]]
    head: Callable[[], nn.Linear]


@dataclass(frozen=True, eq=False)
class Step:
    """One batch of m records that has gone through the network.

    Attributes
    ----------
    x : inputs (m, ...), augmented, in the network's layout.
    targets : (m, outputs), soft labels times the weights of the records.
    logits : (m, outputs).
    own : which rows of the network's batch are the term's own inputs, see `Term.draw`.
    done : share of the training that is behind, from 0 to below 1.
    """

    x: Tensor
    targets: Tensor
    logits: Tensor
    own: slice
    done: float


class Term(nn.Module):
    """Base of all terms: it changes nothing, and a term overrides what it needs.

    Trainable parameters of a term, if it has any, take the same steps as the network's.
    """

    def draw(self, n: int) -> Tensor | None:
        """Draw what a batch of ``n`` records needs; inputs (k, ...) that it returns go through the network as well."""
        return None

    def loss(self, step: Step) -> Tensor | None:
        """What is added to the loss of the batch, a scalar."""
        return None

    def correct(self, weights: Tensor, gradient: Tensor) -> None:
        """Change the gradient (k,) of a batch in place, given the weights (k,).

        Both hold the trainable parameters of the network in the order of ``parameters``, then those of the terms.
        """

    def close(self) -> None:
        """Let go of the network."""
