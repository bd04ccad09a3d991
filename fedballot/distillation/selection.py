"""Which public records an ensemble has said something clear about."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import entr

Ambiguity = Literal["entropy", "l2"]


def ambiguity(rows: npt.NDArray[np.floating], measure: Ambiguity) -> npt.NDArray[np.float64]:
    """How far ensemble predictions (Q, C) are from sure, (Q,): 0 for one-hot rows, 1 for even ones.

    Source: "Selective knowledge sharing for privacy-preserving federated distillation without a good teacher", whose
    server drops ambiguous predictions. Entropy over log C, or the Euclidean distance to the one-hot row of the
    largest class over sqrt(1 - 1/C).
    """
    values, classes = rows.astype(np.float64), rows.shape[1]
    if measure == "entropy":
        return np.asarray(entr(values).sum(axis=1) / np.log(classes))
    surest = np.eye(classes)[values.argmax(axis=1)]
    return np.asarray(np.linalg.norm(values - surest, axis=1) / np.sqrt(1 - 1 / classes))
