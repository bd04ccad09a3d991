"""Averages of answers that a minority cannot move beyond what the others said, coordinate by coordinate.

Source: Yin et al. 2018, "Byzantine-robust distributed learning: towards optimal statistical rates", Definitions 1, 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def median(answers: Sequence[npt.NDArray[np.floating]]) -> npt.NDArray[np.float64]:
    """Median of K arrays of one shape, coordinate by coordinate; of an even number the middle of the two middle ones.

    Fewer than K / 2 of them cannot move it out of the range of the others.

    Raises
    ------
    ValueError
        If there is none, or shapes differ.

    Examples
    --------
    >>> median([np.array([1.0, 5.0]), np.array([2.0, 3.0]), np.array([999.0, -999.0])]).tolist()
    [2.0, 3.0]
    """
    return np.asarray(np.median(_stacked(answers), axis=0), dtype=np.float64)


def trimmed_mean(answers: Sequence[npt.NDArray[np.floating]], trim: int) -> npt.NDArray[np.float64]:
    """Mean of K arrays of one shape without the ``trim`` largest and smallest values of each coordinate.

    So many of them, or fewer than K / 2, cannot move it out of the range of the others. Where it would leave nothing
    (clients that dropped out), less is left out, down to the median.

    Raises
    ------
    ValueError
        If there is none, or shapes differ.

    Examples
    --------
    >>> trimmed_mean([np.array([value]) for value in (1.0, 2.0, 4.0, 999.0)], 1).tolist()
    [3.0]
    """
    ordered = np.sort(_stacked(answers), axis=0)
    cut = min(trim, (len(ordered) - 1) // 2)
    return np.asarray(ordered[cut : len(ordered) - cut].mean(axis=0, dtype=np.float64))


def _stacked(answers: Sequence[npt.NDArray[np.floating]]) -> npt.NDArray[np.floating]:
    if not answers:
        raise ValueError("there is nothing to combine")
    return np.stack(answers)
