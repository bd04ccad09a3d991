"""The learners by name: ours, those that installed packages add, and any by import path, with parameters of their own.

A package adds its own by entry points of the group ``fedballot.learners``, see ``fedballot/core/plugins.py``.
"""

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from fedballot.core import plugins
from fedballot.core.calls import read_name, write_name
from fedballot.core.errors import SettingsError
from fedballot.core.files import with_home
from fedballot.datasets.copies import Augment
from fedballot.datasets.encoders.encoder import is_encoder
from fedballot.datasets.encoders.sources import holds_images
from fedballot.learners import factories
from fedballot.learners.base import Learner
from fedballot.learners.options import LearnerOptions, Optimizer, Role

GROUP = "fedballot.learners"
TEXT = "hf:"  # how a learner is called that is a folder of Hugging Face's
TIMM = "timm:create_model"  # no network's name, but timm's own function
SCIKIT_MODULES = ("fedballot.learners.sklearn_learner", "fedballot.core.skops_io")  # the second where it is stored
PREDICTS = ("predict", "predict_proba", "decision_function")

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
    in_epochs : whether it may read the options' ``epochs``, ``batch_size`` and ``lr``.
    shapes : which inputs it takes.
    takes_parameters : whether ``make`` reads the options' ``parameters``.
    package : which it imports when it is built, beside fedballot's own.
    foreign : whether it is somebody else's: tried on a few records before anything depends on it.
    """

    summary: str
    make: Make
    needs_torch: bool = False
    in_epochs: bool = True
    shapes: Shapes = "any"
    takes_parameters: bool = False
    foreign: bool = False
    package: str = ""


def _make_scikit(kind: Callable[..., Any], defaults: dict[str, Any], name: str, options: LearnerOptions) -> Learner:
    from fedballot.learners.estimators import new_estimator

    return _around(new_estimator(name, kind, defaults, options.parameters, options.seed), name, options)


def _around(estimator: Any, name: str, options: LearnerOptions) -> Learner:
    from fedballot.learners.binary_relevance import BinaryRelevance
    from fedballot.learners.sklearn_learner import ScikitLearner

    return (BinaryRelevance if options.multi_label else ScikitLearner)(name, options, estimator)


def _make_foreign(factory: Callable[..., Any], name: str, options: LearnerOptions) -> Learner:
    """What a function of the user's returns: an object with ``fit``, or a torch module."""
    from fedballot.learners.estimators import is_model, prepared

    build = partial(factories.call, name, factory, options.parameters, input_shape=options.input_shape)
    model = build(n_classes=options.n_classes)  # a network is built again for each training, from the learner's seed
    if is_model(model):
        return _around(prepared(model, options.parameters, options.seed), name, options)
    return _make_torch(build, name, options)


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


def _make_finetuned(name: str, options: LearnerOptions) -> Learner:
    """An encoder's network with a new last layer: `timm:resnet18(size=128)`."""

    def factory(n_classes: int) -> object:
        from fedballot.learners.augment import augmentation_of
        from fedballot.learners.finetuned import build

        colour = len(options.input_shape) == 3
        mirror = options.augment != "none" and augmentation_of(options.augment, colour=colour, elastic=False).flip
        return build(name, n_classes, mirror=mirror)

    return _make_torch(factory, name, options)


def _make_folder(name: str, options: LearnerOptions) -> Learner:
    """A classifier of Hugging Face's, from a folder: of images, or of texts as `hf:/models/bert(max_tokens=64)`."""
    path, parameters = read_name(name)
    if holds_images(with_home(path.removeprefix(TEXT))):
        return _make_finetuned(name, options)
    if strange := [word for word in parameters if word != "max_tokens"]:
        raise factories.unknown_parameter(name, strange[0], ["max_tokens"])

    def factory(n_classes: int) -> object:
        from fedballot.learners.hf_text import build

        return build(path.removeprefix(TEXT), n_classes, **parameters)

    return _make_torch(factory, name, options)


def _torch(summary: str, shapes: Shapes = "images") -> LearnerInfo:
    return LearnerInfo(summary, partial(_make_torch, None), needs_torch=True, shapes=shapes)


def _scikit(
    summary: str, path: str, parameters: Parameters = lambda options: {}, *, in_epochs: bool = False
) -> LearnerInfo:
    def make(name: str, options: LearnerOptions) -> Learner:
        return _make_scikit(plugins.load(path, group=GROUP), parameters(options), name, options)

    package = path.partition(":")[0]
    return LearnerInfo(summary, make, in_epochs=in_epochs, takes_parameters=True, package=package)


def _boosted(summary: str, path: str, trees: str = "") -> LearnerInfo:
    """A class of another library; ``trees``: by which parameter it gets 100 of them, where that is not its default."""
    package = path.partition(":")[0]

    def make(name: str, options: LearnerOptions) -> Learner:
        if importlib.util.find_spec(package) is None:
            raise SettingsError(f"learner {name!r} needs {package}: pip install 'fedballot[boosting]'")
        unset = trees and not {trees, "n_estimators", "num_boost_round", "num_trees"} & {*options.parameters}
        return _make_scikit(plugins.load(path, group=GROUP), {trees: 100} if unset else {}, name, options)

    return LearnerInfo(summary, make, in_epochs=False, takes_parameters=True, foreign=True, package=package)


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
        in_epochs=True,
    ),
    "knn": _scikit("scikit-learn's KNeighborsClassifier, 5 neighbours", "sklearn.neighbors:KNeighborsClassifier"),
    "xgboost": _boosted("XGBoost's classifier, 100 trees", "xgboost:XGBClassifier"),
    "lightgbm": _boosted("LightGBM's classifier, 100 trees", "lightgbm:LGBMClassifier"),
    "catboost": _boosted("CatBoost's classifier, 100 trees", "catboost:CatBoostClassifier", "iterations"),
}


def in_epochs(names: Sequence[str]) -> bool:
    """Whether any learner of these names may train in epochs; nothing is imported, so others' learners may."""
    known = (LEARNERS.get(read_name(name)[0]) for name in names)
    return any(info is None or info.in_epochs for info in known)


def modules_of(name: str) -> list[str]:
    """What a process imports that is to train one of fedballot's learners, parameters left out of account.

    Nothing of a model at an import path, or that a package adds: those are imported where they are used, not before.
    """
    info = LEARNERS.get(read_name(name)[0])
    if info is None:
        return []
    ours = ["fedballot.learners.torch_learner"] if info.needs_torch else list(SCIKIT_MODULES)
    return [*ours, *filter(None, [info.package])]


def get_learner(name: str) -> LearnerInfo:
    """The learner of this name: ours, a package's, a pretrained network, what stands at ``package.module:NAME``.

    That may be a `LearnerInfo`; a class with ``fit`` and ``predict`` or scores of classes, in the manner of
    scikit-learn; or a function that returns an object of such a class or a torch module, see `make_learner`. Parameters
    behind the name are left out of account.

    Raises
    ------
    SettingsError
        If there is none, or it is nothing of that kind.
    """
    name, parameters = read_name(name)
    if name.startswith(TEXT):
        words = "a classifier of Hugging Face's, of texts or images"
        return LearnerInfo(words, _make_folder, needs_torch=True, takes_parameters=True, foreign=True)
    if name not in (*LEARNERS, TIMM) and plugins.find(name, GROUP) is None and is_encoder(name):
        words = "a pretrained network of images that is trained on"
        return LearnerInfo(words, _make_finetuned, True, shapes="images", takes_parameters=True, foreign=True)
    target: Any = plugins.get(name, LEARNERS, GROUP)
    if isinstance(target, LearnerInfo):
        return target
    if isinstance(target, type) and hasattr(target, "fit") and any(hasattr(target, word) for word in PREDICTS):
        return LearnerInfo(name, partial(_make_scikit, target, {}), takes_parameters=True, foreign=True)
    if callable(target):
        torch = factories.uses_torch(target, parameters)
        make = partial(_make_foreign, target)
        return LearnerInfo(name, make, needs_torch=torch, takes_parameters=True, foreign=True)
    raise SettingsError(
        f"learner {name!r} is of type {type(target).__name__}; expected a LearnerInfo, a class with fit and predict, "
        "or a function that returns such an object or a torch module"
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
    optimizer: Optimizer = "adamw",
) -> Learner:
    """Build an untrained learner.

    Parameters
    ----------
    name
        A key of ``LEARNERS``; an encoder of images, whose network is trained on; ``hf:FOLDER``; a name that a package
        adds; or ``package.module:NAME``: the class of any classifier with
        ``fit`` and ``predict_proba`` or ``decision_function``; or a function that returns such an object or a torch
        module, called with those of ``n_classes`` or ``num_classes``, ``input_shape``, ``in_chans``, ``n_features`` and
        so on (``factories.sizes``) that it names. The module gets float32 images (n, channels, h, w) in [0, 1], or
        features (n, d), and returns logits (n, n_classes). Parameters may follow: ``xgboost(max_depth=4)``.
    n_classes, input_shape, seed, device, epochs, batch_size, lr, role, multi_label, augment, optimizer
        See `LearnerOptions`.

    Raises
    ------
    SettingsError
        For an unknown name or parameter, a value out of range, an input shape that the learner cannot take, or a
        missing library.

    Examples
    --------
    >>> forest = make_learner("random-forest", n_classes=10, input_shape=(8, 8), seed=0, epochs=1, batch_size=8, lr=0.1)
    >>> forest.fit(x, y).predict_logits(x).shape  # doctest: +SKIP
    (1797, 10)
    """
    base, parameters = read_name(name)
    name = write_name(base, parameters)
    options = LearnerOptions(
        n_classes, input_shape, seed, epochs, batch_size, lr, device, role, multi_label, augment, optimizer, parameters
    )
    info = get_learner(name)
    if parameters and not info.takes_parameters:
        raise factories.unknown_parameter(name, next(iter(parameters)), [])
    if info.shapes == "images" and len(input_shape) == 1:
        fitting = ", ".join(other for other, entry in LEARNERS.items() if entry.shapes == "any")
        raise SettingsError(
            f"learner {name!r} takes images, but the data are vectors of {input_shape[0]} features; use {fitting}"
        )
    return info.make(name, options)
