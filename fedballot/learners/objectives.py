"""Objectives: what local training minimises beside the loss of the client's own labels.

A method hands one to ``Learner.fit``, and may bring one of its own:

>>> @dataclass(frozen=True)
... class LabelSmoothing(Objective):
...     share: float
...
...     def terms(self, model):
...         class Smooth(Term):
...             def loss(_, step):
...                 return -self.share * step.logits.log_softmax(1).mean()
...
...         return (Smooth(),)
>>> learner.fit(x, y, objective=LabelSmoothing(0.1))  # doctest: +SKIP

Importing this needs no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from fedballot.core.errors import SettingsError
from fedballot.learners.checks import FloatArray, Inputs, IntArray

if TYPE_CHECKING:
    from fedballot.learners.terms import Model, Term

UNKNOWN_WEIGHT = 0.5


@dataclass(frozen=True, eq=False)
class Records:
    """Records to train on beside one's own: of them, as many as those are, drawn anew for each epoch.

    Attributes
    ----------
    x : raw inputs (m, ...).
    y : int64 (m,), labels in [0, n_classes]; the last is a class of its own, "unknown".
    weight : of each, where one's own have 1.
    """

    x: Inputs
    y: IntArray
    weight: float = 1.0


@runtime_checkable
class Objective(Protocol):
    """What a learner is asked to minimise beside the loss of its labels. Each method may be left as it is."""

    @property
    def needs_gradients(self) -> bool:
        """Whether only torch learners can follow it; false: its records are all that there is to it."""
        return True

    def records(self, n_classes: int) -> Sequence[Records]:
        """Further records to train on, for a learner of ``n_classes`` classes."""
        return ()

    def terms(self, model: Model) -> Sequence[Term]:
        """What it adds to the training of a torch network; called at the start of each fit, with torch seeded."""
        return ()


@dataclass(frozen=True, eq=False)
class Abstain(Objective):
    """Learn a last class, "unknown" (abstain), on random public inputs ``pool`` (m, ...), at half weight."""

    pool: Inputs

    def __post_init__(self) -> None:
        if len(self.pool) == 0:
            raise SettingsError("Abstain: the pool is empty; expected at least 1 public input")

    @property
    def needs_gradients(self) -> bool:
        return False

    def records(self, n_classes: int) -> Sequence[Records]:
        return (Records(self.pool, np.full(len(self.pool), n_classes), UNKNOWN_WEIGHT),)


@dataclass(frozen=True, eq=False)
class Proximal(Objective):
    """Stay near ``weights``, as of ``Learner.get_weights``: adds mu / 2 times the squared distance to the loss."""

    weights: Sequence[FloatArray]
    mu: float

    def terms(self, model: Model) -> Sequence[Term]:
        from fedballot.learners.proximal import ProximalTerm

        return (ProximalTerm(model.net, list(self.weights), self.mu),)


@dataclass(frozen=True, eq=False)
class DomainAdversarial(Objective):
    """Learn features that do not tell own records from public inputs ``target`` (m, ...); see ``learners/domain.py``.

    ``strength`` is the largest weight of the reversed gradient.
    """

    target: Inputs
    strength: float

    def __post_init__(self) -> None:
        if len(self.target) == 0:
            raise SettingsError("DomainAdversarial: target is empty; expected at least 1 public input")

    def terms(self, model: Model) -> Sequence[Term]:
        from fedballot.learners.domain import DomainAdversary

        return (DomainAdversary(model.net, model.sampler(self.target), self.strength),)


@dataclass(frozen=True, eq=False)
class Replay(Objective):
    """Let the last layer learn from generated features as well; see ``learners/latent.py``.

    Attributes
    ----------
    generator : its weights (g,).
    shares : (C,), how often each label is asked for.
    strength : how much their loss counts.
    """

    generator: FloatArray
    shares: FloatArray
    strength: float

    def terms(self, model: Model) -> Sequence[Term]:
        from fedballot.learners.latent import LatentReplay

        return (LatentReplay(model.head(), self.generator, self.shares, self.strength),)


@dataclass(frozen=True, eq=False)
class Combined(Objective):
    """Several objectives at once. Build it with :func:`combined`."""

    parts: tuple[Objective, ...]

    @property
    def needs_gradients(self) -> bool:
        return any(part.needs_gradients for part in self.parts)

    def records(self, n_classes: int) -> Sequence[Records]:
        return [records for part in self.parts for records in part.records(n_classes)]

    def terms(self, model: Model) -> Sequence[Term]:
        return [term for part in self.parts for term in part.terms(model)]


def combined(*objectives: Objective | None) -> Objective | None:
    """All of them at once; None where all are.

    >>> combined(None, Abstain(np.zeros((3, 8, 8), np.uint8)))  # doctest: +ELLIPSIS
    Abstain(pool=array(...
    """
    parts = tuple(objective for objective in objectives if objective is not None)
    return Combined(parts) if len(parts) > 1 else next(iter(parts), None)


def name_of(objective: Objective) -> str:
    """What an error calls it."""
    parts = objective.parts if isinstance(objective, Combined) else (objective,)
    return " + ".join(type(part).__name__ for part in parts)
