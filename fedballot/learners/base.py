"""The Learner protocol, and the checks of arrays that every learner shares."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import SettingsError

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]
Inputs = NDArray[Any]
Progress = Callable[[int, int], None]
Combine = Callable[[NDArray[np.float32]], NDArray[np.floating]]
Loss = Literal["cross-entropy", "mae", "l2", "binary"]

UNKNOWN_WEIGHT = 0.5
CONFIDENT_SHARE = 0.8
PSEUDO_LABEL_THRESHOLD = 0.8
WEIGHT_LEARNERS = (
    "cnn-small",
    "cnn-gn",
    "resnet8-gn",
    "mlp-torch",
    "linear-torch",
)  # those whose weights can be averaged


@dataclass(frozen=True)
class Replay:
    """Generated features beside one's own records: the generator's weights (g,), the share (C,) of each label, and how
    much their loss counts. See ``learners/latent.py``.
    """

    generator: FloatArray
    shares: FloatArray
    strength: float


class Learner(Protocol):
    """A classifier over a label set that all clients agree on.

    Inputs ``x`` are raw: uint8 images (n, h, w) or (n, h, w, 3), or float32 features (n, d). Labels are int64
    (n,) in [0, n_classes). ``fit`` and ``distill`` return the learner itself; torch learners go on from their
    present weights (``goes_on``), scikit-learn learners start anew. ``epochs`` and ``batch_size`` of one call replace
    the learner's own; scikit-learn learners have none to replace.

    A multi-label learner takes int8 labels (n, n_classes) of 1, 0 and -1 (unknown, not trained on), and its logits are
    those of a logistic function for each label; its soft labels go with the loss "binary", and rows have any sum.
    """

    n_classes: int
    goes_on: bool

    def fit(
        self,
        x: Inputs,
        y: IntArray,
        *,
        unknown: Inputs | None = None,
        epochs: int | None = None,
        pull: float = 0.0,
        target: Inputs | None = None,
        adaptation: float = 0.0,
        replay: Replay | None = None,
    ) -> Self:
        """Train on labelled examples.

        With ``unknown`` (public inputs), the learner also learns to abstain: a last class, "unknown", is
        trained on as many random public inputs as there are private ones, drawn anew each epoch, at half
        weight.

        Torch learners alone know ``pull``, the strength mu of FedProx's pull towards the weights before the fit, and
        ``adaptation``, above 0 the strength of domain-adversarial training with the public inputs ``target``; and
        ``replay``, for the last layer to learn from generated features as well.

        Raises
        ------
        SettingsError
            If x is empty, or a shape, dtype or label does not fit, or the learner does not know what is asked.
        """
        ...

    def descend(self, x: Inputs, y: IntArray, batches: Iterable[IntArray], combine: Combine) -> Self:
        """Take one plain gradient step for each batch, with a gradient that the caller makes of each record's own.

        A record's gradient depends on it and the weights only, to the last bit: nothing is augmented or dropped.

        Parameters
        ----------
        batches
            Rows of each step, possibly none.
        combine
            Gradients of the records in a batch, float32 (m, d), in the order of ``get_weights`` -> the step's (d,).

        Raises
        ------
        SettingsError
            As ``get_weights``: what has no weights has no gradients; if records meet in the network.
        """
        ...

    def predict_logits(self, x: Inputs) -> FloatArray:
        """Logits (n, n_classes), or (n, n_classes + 1) after a fit with ``unknown``; always finite.

        Classes that the learner has never seen have a column too, with a low logit.
        """
        ...

    def distill(
        self,
        x: Inputs,
        targets: FloatArray,
        *,
        weights: FloatArray | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        loss: Loss = "cross-entropy",
        temperature: float = 1.0,
    ) -> Self:
        """Train on what others predict (n, n_classes), optionally weighted per example.

        Targets are soft labels whose rows sum to 1, or logits for the losses "mae" and "l2" (mean absolute or squared
        difference of logits); scikit-learn learners take the softmax of such logits. The cross-entropy is that of the
        softmax of logits / temperature; scikit-learn learners predict at the temperature of their targets.
        """
        ...

    def semi_supervise(
        self,
        x: Inputs,
        labels: IntArray,
        confidence: FloatArray | None,
        *,
        self_train: bool,
        progress: Progress | None = None,
    ) -> Self:
        """Train on a pool whose labels are partly wrong.

        Parameters
        ----------
        x, labels
            The whole pool and its labels.
        confidence
            (n,), larger is surer; the 80 % surest labels are believed. None: all are.
        self_train
            After a third of the epochs, go on with the learner's own aligned and thresholded pseudo-labels.
        progress
            Called with (epochs done, epochs in all).
        """
        ...

    def features(self, x: Inputs) -> FloatArray:
        """Features (n, d) in which examples of a class lie close together; rows have L2 norm 1."""
        ...

    def get_weights(self) -> list[FloatArray]:
        """Weights, float32, in a fixed order; the initial ones before the first training.

        Raises
        ------
        SettingsError
            If the learner has no weights that could be averaged: scikit-learn's, and networks with batch norm.
        """
        ...

    def set_weights(self, weights: list[FloatArray]) -> Self:
        """Go on from these weights.

        Raises
        ------
        SettingsError
            As :meth:`get_weights`.
        DataError
            If their shapes are others or a value is not finite.
        """
        ...

    def head(self) -> tuple[FloatArray, FloatArray]:
        """Weights (n_classes, d) and bias (n_classes,) of the last layer, which maps ``d`` features to logits.

        Raises
        ------
        SettingsError
            As :meth:`get_weights`, and if the network does not end in a linear layer, or has nothing below it.
        """
        ...

    def save(self, path: Path) -> None:
        """Write the state to one file, atomically; never a pickle."""
        ...

    def load(self, path: Path) -> Self:
        """Read a state that a learner of the same kind has saved.

        Raises
        ------
        DataError
            If the file is missing, damaged, or of another learner.
        """
        ...


def check_inputs(x: Inputs, input_shape: tuple[int, ...], *, what: str = "x") -> None:
    """Refuse inputs whose shape, dtype or values a learner for ``input_shape`` cannot take."""
    if x.ndim != len(input_shape) + 1 or tuple(x.shape[1:]) != input_shape:
        raise SettingsError(f"{what} has shape {x.shape}, but this learner takes (n, {_sizes(input_shape)})")
    if len(input_shape) > 1 and x.dtype != np.uint8:
        raise SettingsError(f"{what} has dtype {x.dtype}, but images are uint8, 0 to 255")
    if len(input_shape) == 1:
        if not np.issubdtype(x.dtype, np.floating):
            raise SettingsError(f"{what} has dtype {x.dtype}, but feature vectors are float32")
        finite = np.isfinite(x).all(axis=1)
        if not finite.all():
            raise SettingsError(f"{what} has a value that is not finite, first in row {int(finite.argmin())}")


def check_labels(y: IntArray, n: int, n_classes: int, *, what: str = "y") -> None:
    """Refuse labels that are not n integers in [0, n_classes), and an empty training set."""
    if n == 0:
        raise SettingsError("the training set is empty: a learner needs at least 1 example")
    if y.shape != (n,) or not np.issubdtype(y.dtype, np.integer):
        raise SettingsError(f"{what} has shape {y.shape} and dtype {y.dtype}, but must be {n} integers")
    wrong = (y < 0) | (y >= n_classes)
    if wrong.any():
        row = int(wrong.argmax())
        raise SettingsError(f"{what}[{row}] is {y[row]}, but labels run from 0 to {n_classes - 1}")


def check_multi_labels(y: NDArray[Any], n: int, n_classes: int, *, what: str = "y") -> None:
    """Refuse labels that are not (n, n_classes) of -1, 0 and 1, and an empty training set."""
    if n == 0:
        raise SettingsError("the training set is empty: a learner needs at least 1 example")
    if y.shape != (n, n_classes) or not np.isin(y, (-1, 0, 1)).all():
        raise SettingsError(f"{what} has shape {y.shape}, but must be ({n}, {n_classes}) of -1, 0 and 1")


def check_probabilities(targets: FloatArray, n: int, n_classes: int) -> None:
    """Refuse probabilities of several labels that cannot be trained on."""
    check_logits(targets, n, n_classes)
    if not ((targets >= 0) & (targets <= 1)).all():
        raise SettingsError("targets must be probabilities: between 0 and 1")


def check_targets(targets: FloatArray, n: int, n_classes: int, weights: FloatArray | None) -> NDArray[np.float64]:
    """Refuse soft labels or weights that cannot be trained on; return the targets times the weights."""
    if n == 0:
        raise SettingsError("the training set is empty: a learner needs at least 1 example")
    if targets.shape != (n, n_classes):
        raise SettingsError(f"targets have shape {targets.shape}, but must be ({n}, {n_classes})")
    if not (np.isfinite(targets).all() and (targets >= 0).all() and np.allclose(targets.sum(1), 1, atol=1e-3)):
        raise SettingsError("targets must be soft labels: finite, at least 0, every row with sum 1")
    if weights is None:
        return np.asarray(targets, dtype=np.float64)
    if weights.shape != (n,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise SettingsError(f"weights must be {n} finite numbers of at least 0")
    if not weights.any():
        raise SettingsError("all weights are 0: there is nothing to train on")
    return np.asarray(targets * weights[:, None], dtype=np.float64)


def check_logits(targets: FloatArray, n: int, n_classes: int) -> None:
    """Refuse logits that cannot be trained on."""
    if n == 0:
        raise SettingsError("the training set is empty: a learner needs at least 1 example")
    if targets.shape != (n, n_classes) or not np.isfinite(targets).all():
        raise SettingsError(f"logits must be finite and of shape ({n}, {n_classes}), but have shape {targets.shape}")


def most_confident(confidence: FloatArray | None, n: int) -> NDArray[np.bool_]:
    """Mask (n,) of the 80 % surest labels, at least one; of ties the first. All, without confidence."""
    mask = np.ones(n, dtype=bool)
    if confidence is None:
        return mask
    if confidence.shape != (n,) or not np.isfinite(confidence).all():
        raise SettingsError(f"confidence must be {n} finite numbers, but has shape {confidence.shape}")
    keep = max(1, round(CONFIDENT_SHARE * n))
    mask[np.argsort(-confidence, kind="stable")[keep:]] = False
    return mask


def _sizes(shape: tuple[int, ...]) -> str:
    return ", ".join(str(size) for size in shape)
