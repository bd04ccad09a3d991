"""The table of learners: name -> what it is; ``make_learner`` builds one."""

from dataclasses import dataclass
from typing import Literal, get_args

from fedballot.core.errors import SettingsError, did_you_mean
from fedballot.learners.base import Learner

Role = Literal["teacher", "student"]
Shapes = Literal["images", "any"]


@dataclass(frozen=True)
class LearnerInfo:
    """One line of the table: what the learner is, whether it needs torch, and which inputs it takes."""

    summary: str
    needs_torch: bool
    shapes: Shapes


LEARNERS: dict[str, LearnerInfo] = {
    "cnn-small": LearnerInfo("two convolutions and a hidden layer: a quick teacher", True, "images"),
    "cnn": LearnerInfo("three convolutions, batch norm, dropout: a student for small images", True, "images"),
    "resnet8": LearnerInfo("ResNet with three residual blocks, for 32x32 images", True, "images"),
    "cnn-gn": LearnerInfo("cnn with group norm, whose weights can be averaged", True, "images"),
    "resnet8-gn": LearnerInfo("resnet8 with group norm, whose weights can be averaged", True, "images"),
    "shufflenet-v2": LearnerInfo("torchvision's ShuffleNet-V2 x0.5 with a stride-1 stem", True, "images"),
    "mobilenet-v2": LearnerInfo("torchvision's MobileNet-V2 with a stride-1 stem", True, "images"),
    "mlp-torch": LearnerInfo("one hidden layer of 128, for feature vectors", True, "any"),
    "linear-torch": LearnerInfo("one linear layer: few weights, so little noise on them", True, "any"),
    "logistic-regression": LearnerInfo("scikit-learn's LogisticRegression", False, "any"),
    "random-forest": LearnerInfo("scikit-learn's RandomForestClassifier, 100 trees", False, "any"),
    "gradient-boosting": LearnerInfo("scikit-learn's HistGradientBoostingClassifier", False, "any"),
    "mlp": LearnerInfo("scikit-learn's MLPClassifier, one hidden layer of 100", False, "any"),
    "knn": LearnerInfo("scikit-learn's KNeighborsClassifier, 5 neighbours", False, "any"),
}
"""Learners by name. ``sklearn.module:Class`` and ``package.module:factory`` (a torch module) work as well."""


def make_learner(
    name: str,
    *,
    n_classes: int,
    input_shape: tuple[int, ...],
    seed: int,
    device: str = "cpu",
    epochs: int,
    batch_size: int,
    lr: float,
    role: Role,
    multi_label: bool = False,
) -> Learner:
    """Build an untrained learner.

    Parameters
    ----------
    name
        A key of ``LEARNERS``, ``sklearn.module:Class`` for any scikit-learn classifier, or
        ``package.module:factory`` for a function that returns a torch module when called with ``n_classes``
        and ``input_shape``. The module gets float32 images (n, channels, h, w) in [0, 1], or features (n, d),
        and returns logits (n, n_classes).
    n_classes
        Size of the global label set, at least 2.
    input_shape
        (h, w), (h, w, 3) or (d,).
    seed
        Of initialisation, batch order and augmentation. The same seed gives the same bytes on CPU.
    device
        "cpu", "cuda" or "cuda:1"; only torch learners use it.
    epochs, batch_size, lr
        Of each fit; scikit-learn's MLP uses them too, other scikit-learn learners do not. 0 epochs leaves the
        initial weights.
    role
        A "student" is the average of its weights over training and sees stronger augmentation.
    multi_label
        Whether records have several labels, see ``Learner``.

    Raises
    ------
    SettingsError
        For an unknown name, a value out of range, an input shape that the learner cannot take, or missing
        torch.
    """
    _check_settings(n_classes, input_shape, epochs, batch_size, lr, role)
    if ":" not in name:
        _check_known(name, input_shape)
    if name.startswith("sklearn.") or (name in LEARNERS and not LEARNERS[name].needs_torch):
        from fedballot.learners.binary_relevance import BinaryRelevance
        from fedballot.learners.sklearn_learner import ScikitLearner

        kind: type[BinaryRelevance] | type[ScikitLearner] = BinaryRelevance if multi_label else ScikitLearner
        return kind(
            name,
            n_classes=n_classes,
            input_shape=input_shape,
            seed=seed,
            epochs=epochs,
            batch_size=batch_size,
            lr=lr,
        )
    try:
        from fedballot.learners.torch_learner import TorchLearner
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("torch", "torchvision"):
            raise
        without = ", ".join(other for other, info in LEARNERS.items() if not info.needs_torch)
        raise SettingsError(
            f"learner {name!r} needs torch: pip install 'fedballot[torch]'. Without torch these work: {without}"
        ) from error
    return TorchLearner(
        name,
        n_classes=n_classes,
        input_shape=input_shape,
        seed=seed,
        device=device,
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        role=role,
    )


def _check_settings(
    n_classes: int, input_shape: tuple[int, ...], epochs: int, batch_size: int, lr: float, role: str
) -> None:
    if n_classes < 2:
        raise SettingsError(f"n_classes is {n_classes}, but a classifier needs at least 2")
    image = len(input_shape) == 2 or (len(input_shape) == 3 and input_shape[2] == 3)
    if not (image or len(input_shape) == 1) or min(input_shape) < 1:
        raise SettingsError(f"input_shape is {input_shape}, but must be (h, w), (h, w, 3) or (d,)")
    if epochs < 0:
        raise SettingsError(f"epochs is {epochs}, but must be at least 0")
    if batch_size < 1:
        raise SettingsError(f"batch_size is {batch_size}, but must be at least 1")
    if not 0 < lr < float("inf"):
        raise SettingsError(f"lr is {lr}, but must be a finite number above 0")
    if role not in get_args(Role):
        raise SettingsError(f"role is {role!r}, but must be one of {', '.join(get_args(Role))}")


def _check_known(name: str, input_shape: tuple[int, ...]) -> None:
    if name not in LEARNERS:
        raise SettingsError(
            f"unknown learner {name!r}{did_you_mean(name, LEARNERS)}. Known: {', '.join(LEARNERS)}, "
            "any 'sklearn.module:Class', or 'package.module:factory' for a torch module"
        )
    if LEARNERS[name].shapes == "images" and len(input_shape) == 1:
        fitting = ", ".join(other for other, info in LEARNERS.items() if info.shapes == "any")
        raise SettingsError(
            f"learner {name!r} takes images, but the data are vectors of {input_shape[0]} features; use {fitting}"
        )
