"""The learners by name: ours, those that installed packages add, and any by import path.

A package adds its own by entry points of the group ``fedballot.learners``, see ``fedballot/core/plugins.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from fedballot.core import plugins
from fedballot.core.errors import SettingsError
from fedballot.datasets.copies import Augment
from fedballot.learners.base import Learner
from fedballot.learners.options import LearnerOptions, Role

GROUP = "fedballot.learners"

Shapes = Literal["images", "any"]
Make = Callable[[str, LearnerOptions], Learner]
Parameters = Callable[[LearnerOptions], dict[str, Any]]


@dataclass(frozen=True)
class LearnerInfo:
    """What a learner is, and how it is built.

    Attributes
    ----------
    summary : one line.
    make : its name, and the options -> an untrained one.
    needs_torch : whether the processes that build it may import torch.
    shapes : which inputs it takes.
    """

    summary: str
    make: Make
    needs_torch: bool = False
    shapes: Shapes = "any"


def _make_scikit(kind: Callable[[], Any], parameters: dict[str, Any], name: str, options: LearnerOptions) -> Learner:
    from fedballot.learners.binary_relevance import BinaryRelevance
    from fedballot.learners.estimators import new_estimator
    from fedballot.learners.sklearn_learner import ScikitLearner

    estimator = new_estimator(name, kind, parameters, options.seed)
    return (BinaryRelevance if options.multi_label else ScikitLearner)(name, options, estimator)


def _make_torch(factory: Callable[..., Any] | None, name: str, options: LearnerOptions) -> Learner:
    try:
        from fedballot.learners.torch_learner import TorchLearner
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("torch", "torchvision"):
            raise
        without = ", ".join(other for other, info in LEARNERS.items() if not info.needs_torch)
        raise SettingsError(
            f"learner {name!r} needs torch: pip install 'fedballot[torch]'. Without torch these work: {without}"
        ) from error
    return TorchLearner(name, options, factory)


def _torch(summary: str, shapes: Shapes = "images") -> LearnerInfo:
    return LearnerInfo(summary, partial(_make_torch, None), needs_torch=True, shapes=shapes)


def _scikit(summary: str, path: str, parameters: Parameters = lambda options: {}) -> LearnerInfo:
    def make(name: str, options: LearnerOptions) -> Learner:
        return _make_scikit(plugins.load(path, group=GROUP), parameters(options), name, options)

    return LearnerInfo(summary, make)


LEARNERS: dict[str, LearnerInfo] = {
    "cnn-small": _torch("two convolutions and a hidden layer: quick to train"),
    "cnn": _torch("three convolutions, batch norm, dropout: a student for small images"),
    "resnet8": _torch("ResNet with three residual blocks, for 32x32 images"),
    "cnn-gn": _torch("cnn with group norm, whose weights can be averaged"),
    "resnet8-gn": _torch("resnet8 with group norm, whose weights can be averaged"),
    "shufflenet-v2": _torch("torchvision's ShuffleNet-V2 x0.5 with a stride-1 stem"),
    "mobilenet-v2": _torch("torchvision's MobileNet-V2 with a stride-1 stem"),
    "mlp-torch": _torch("one hidden layer of 128, for feature vectors", "any"),
    "linear-torch": _torch("one linear layer: few weights, so little noise on them", "any"),
    "logistic-regression": _scikit(
        "scikit-learn's LogisticRegression",
        "sklearn.linear_model:LogisticRegression",
        lambda options: {"max_iter": 200},
    ),
    "random-forest": _scikit(
        "scikit-learn's RandomForestClassifier, 100 trees", "sklearn.ensemble:RandomForestClassifier"
    ),
    "gradient-boosting": _scikit(
        "scikit-learn's HistGradientBoostingClassifier",
        "sklearn.ensemble:HistGradientBoostingClassifier",
        lambda options: {"early_stopping": False},
    ),
    "mlp": _scikit(
        "scikit-learn's MLPClassifier, one hidden layer of 100",
        "sklearn.neural_network:MLPClassifier",
        lambda options: {
            "max_iter": max(1, options.epochs),
            "batch_size": options.batch_size,
            "learning_rate_init": options.lr,
        },
    ),
    "knn": _scikit("scikit-learn's KNeighborsClassifier, 5 neighbours", "sklearn.neighbors:KNeighborsClassifier"),
}


def get_learner(name: str) -> LearnerInfo:
    """The learner of this name: ours, one that a package adds, or what stands at ``package.module:NAME``.

    That may be a `LearnerInfo`; a class with ``fit`` and ``predict`` in the manner of scikit-learn; or a function that
    returns a torch module, see `make_learner`.

    Raises
    ------
    SettingsError
        If there is none, or it is nothing of that kind.
    """
    target: Any = plugins.get(name, LEARNERS, GROUP)
    if isinstance(target, LearnerInfo):
        return target
    if isinstance(target, type) and hasattr(target, "fit") and hasattr(target, "predict"):
        return LearnerInfo(name, partial(_make_scikit, target, {}))
    if callable(target):
        return LearnerInfo(name, partial(_make_torch, target), needs_torch=True)
    raise SettingsError(
        f"learner {name!r} is of type {type(target).__name__}; expected a LearnerInfo, a class with fit and predict, "
        "or a function that returns a torch module"
    )


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
    role: Role = "client",
    multi_label: bool = False,
    augment: Augment = "usual",
) -> Learner:
    """Build an untrained learner.

    Parameters
    ----------
    name
        A key of ``LEARNERS``, a name that a package adds, or ``package.module:NAME``: any scikit-learn classifier's
        class; or a function that returns a torch module when called with ``n_classes`` and ``input_shape``. The module
        gets float32 images (n, channels, h, w) in [0, 1], or features (n, d), and returns logits (n, n_classes).
    n_classes, input_shape, seed, device, epochs, batch_size, lr, role, multi_label, augment
        See `LearnerOptions`.

    Raises
    ------
    SettingsError
        For an unknown name, a value out of range, an input shape that the learner cannot take, or missing torch.

    Examples
    --------
    >>> forest = make_learner("random-forest", n_classes=10, input_shape=(8, 8), seed=0, epochs=1, batch_size=8, lr=0.1)
    >>> forest.fit(x, y).predict_logits(x).shape  # doctest: +SKIP
    (1797, 10)
    """
    options = LearnerOptions(n_classes, input_shape, seed, epochs, batch_size, lr, device, role, multi_label, augment)
    info = get_learner(name)
    if info.shapes == "images" and len(input_shape) == 1:
        fitting = ", ".join(other for other, entry in LEARNERS.items() if entry.shapes == "any")
        raise SettingsError(
            f"learner {name!r} takes images, but the data are vectors of {input_shape[0]} features; use {fitting}"
        )
    return info.make(name, options)
