"""Checks of arrays that every learner shares."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import SettingsError

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]
Inputs = NDArray[Any]

CONFIDENT_SHARE = 0.8
PSEUDO_LABEL_THRESHOLD = 0.8


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
