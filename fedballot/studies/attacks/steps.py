"""What a difference of weights says of a record: how far it went down the record's own gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.learners.base import Learner

Floats = npt.NDArray[np.float32]

BLOCK = 64  # records whose gradients are made at once
RIDGE = 1e-3  # of the mean squared norm, added to the gradients' covariance; chosen on digits with linear-torch, seed 0


def gradients(learner: Learner, x: npt.NDArray[Any], y: npt.NDArray[np.int64]) -> Floats:
    """Gradient (P, d) of each record's loss at the learner's weights, which stay as they are."""
    found: list[Floats] = []

    def keep(each: Floats) -> Floats:
        found.append(np.array(each))
        return np.zeros(each.shape[1], np.float32)

    rows = [np.arange(start, min(start + BLOCK, len(y))) for start in range(0, len(y), BLOCK)]
    learner.sgd_steps(x, y, rows, keep)
    return np.concatenate(found)


def matched(each: Floats, step: Floats, others: Floats) -> npt.NDArray[np.float64]:
    """Matched filter (P,) of each record's gradient in a step, in deviations of the noise that other records make.

    Were the step minus a sum of gradients of records like ``others``, this would be the best test of whether one more
    is in it: -g C^-1 step / sqrt(g C^-1 g), C their second moment, inverted in the span of the others (Woodbury).

    Parameters
    ----------
    each : (P, d)
        Gradients of the records.
    step : (d,)
    others : (z, d)
        Gradients of records that are not in it.
    """
    z = len(others)
    gram = (others @ others.T).astype(np.float64)
    ridge = RIDGE * max(float(gram.trace()) / z, 1e-12)
    both = np.column_stack([(others @ step).astype(np.float64), (others @ each.T).astype(np.float64)])
    solved = np.linalg.solve(gram + z * ridge * np.eye(z), both)
    across = both[:, 1:]
    along = (each @ step).astype(np.float64) - across.T @ solved[:, 0]
    norm = np.einsum("ij,ij->i", each, each, dtype=np.float64) - np.einsum("zp,zp->p", across, solved[:, 1:])
    return np.asarray(-along / np.sqrt(np.maximum(norm, 1e-12)))
