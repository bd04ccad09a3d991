"""The Learner protocol."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from fedballot.learners.checks import FloatArray, Inputs, IntArray
from fedballot.learners.objectives import Objective

__all__ = ["Combine", "FloatArray", "Inputs", "IntArray", "Learner", "Loss", "Progress"]

Progress = Callable[[int, int], None]
Combine = Callable[[NDArray[np.float32]], NDArray[np.floating]]
Loss = Literal["cross-entropy", "mae", "l2", "binary"]

WEIGHT_LEARNERS = (
    "cnn-small",
    "cnn-gn",
    "resnet8-gn",
    "mlp-torch",
    "linear-torch",
)  # those whose weights can be averaged


class Learner(Protocol):
    """A classifier over a label set that all clients agree on.

    Inputs ``x`` are raw: uint8 images (n, h, w) or (n, h, w, 3), or float32 features (n, d). Labels are int64
    (n,) in [0, n_classes). ``fit`` and ``distill`` return the learner itself; torch learners go on from their
    present weights (``warm_start``), scikit-learn learners start anew. ``epochs`` and ``batch_size`` of one call
    replace the learner's own; scikit-learn learners have none to replace.

    A multi-label learner takes int8 labels (n, n_classes) of 1, 0 and -1 (unknown, not trained on), and its logits are
    those of a logistic function for each label; its soft labels go with the loss "binary", and rows have any sum.
    """

    n_classes: int
    warm_start: bool

    def fit(
        self,
        x: Inputs,
        y: IntArray,
        *,
        objective: Objective | None = None,
        epochs: int | None = None,
    ) -> Self:
        """Train on labelled examples.

        Parameters
        ----------
        objective
            What to minimise beside the loss of the labels, such as ``Proximal(weights, mu)``; see
            ``learners/objectives.py``. Scikit-learn learners take those only that need no gradients.

        Raises
        ------
        SettingsError
            If x is empty, or a shape, dtype or label does not fit, or the learner cannot follow the objective.

        Examples
        --------
        >>> learner.fit(own.x, own.y, objective=Abstain(public_x))  # doctest: +SKIP
        """
        ...

    def sgd_steps(self, x: Inputs, y: IntArray, batches: Iterable[IntArray], combine: Combine) -> Self:
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
        """Logits (n, n_classes), or (n, n_classes + 1) after a fit with ``Abstain``; always finite.

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
        progress: Progress | None = None,
    ) -> Self:
        """Train on what others predict (n, n_classes), optionally weighted per example.

        Targets are soft labels whose rows sum to 1, or logits for the losses "mae" and "l2" (mean absolute or squared
        difference of logits); scikit-learn learners take the softmax of such logits. The cross-entropy is that of the
        softmax of logits / temperature; scikit-learn learners predict at the temperature of their targets.
        ``progress`` is called as by ``semi_supervise``.
        """
        ...

    def semi_supervise(
        self,
        x: Inputs,
        labels: IntArray,
        confidence: FloatArray | None,
        *,
        self_train: bool,
        prior: FloatArray | None = None,
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
        prior
            Share of each class (n_classes,) that its own labels are aligned to; None: classes are even.
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
