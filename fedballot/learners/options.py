"""What every learner is built with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from fedballot.core.calls import read_name
from fedballot.core.errors import SettingsError
from fedballot.datasets.copies import Augment

Role = Literal["client", "student"]
Optimizer = Literal["adamw", "sgd"]


@dataclass(frozen=True)
class LearnerOptions:
    """Everything that a learner is built with, but for its name.

    Attributes
    ----------
    n_classes : size of the global label set, at least 2.
    input_shape : (h, w), (h, w, 3) or (d,).
    seed : of initialisation, batch order and augmentation. The same seed gives the same bytes on CPU.
    epochs, batch_size, lr : of each fit, for learners that have them. 0 epochs leave the initial weights.
    device : "cpu", "cuda" or "cuda:1"; only torch learners use it.
    role : a "student", which learns from others, is the average of its weights over training and sees stronger
        augmentation.
    multi_label : whether records have several labels, see ``Learner``.
    optimizer : of torch learners; "sgd" is plain gradient descent, without momentum or weight decay.
    augment : how torch learners change images while they train: "shift" alone keeps sides and orientation, "flip" also
        mirrors left and right, "rotate" also turns, scales and shears a little; "usual": "flip" for colour, else
        "rotate".
    parameters : the learner's own, as they stand behind its name.

    Raises
    ------
    SettingsError
        For a value out of range.
    """

    n_classes: int
    input_shape: tuple[int, ...]
    seed: int
    epochs: int
    batch_size: int
    lr: float
    device: str = "cpu"
    role: Role = "client"
    multi_label: bool = False
    augment: Augment = "usual"
    optimizer: Optimizer = "adamw"
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.n_classes < 2:
            raise SettingsError(f"n_classes is {self.n_classes}, but a classifier needs at least 2")
        shape = self.input_shape
        image = len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)
        if not (image or len(shape) == 1) or min(shape) < 1:
            raise SettingsError(f"input_shape is {shape}, but must be (h, w), (h, w, 3) or (d,)")
        if self.epochs < 0:
            raise SettingsError(f"epochs is {self.epochs}, but must be at least 0")
        if self.batch_size < 1:
            raise SettingsError(f"batch_size is {self.batch_size}, but must be at least 1")
        if not 0 < self.lr < float("inf"):
            raise SettingsError(f"lr is {self.lr}, but must be a finite number above 0")
        if self.augment not in get_args(Augment):
            raise SettingsError(f"augment is {self.augment!r}, but must be one of {', '.join(get_args(Augment))}")
        if self.role not in get_args(Role):
            raise SettingsError(f"role is {self.role!r}, but must be one of {', '.join(get_args(Role))}")


def neighbours_of(name: str) -> int:
    """How many neighbours a learner's parameters ask for; 0: they name none."""
    asked = read_name(name)[1].get("n_neighbors")
    return asked if isinstance(asked, int) else 0
