"""Answers that combine by their median or trimmed mean."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from fedballot.distillation.robust import median, trimmed_mean
from fedballot.settings.robust import RobustAggregation
from fedballot.strategies.shelf import Answer


def combined(settings: RobustAggregation, answers: Iterable[Answer], first: int = 0) -> npt.NDArray[np.float64]:
    """What the settings make of the answers' ballots, from row ``first`` on, coordinate by coordinate."""
    ballots = [answer.ballot[first:] for answer in answers]
    return median(ballots) if settings.aggregation == "median" else trimmed_mean(ballots, settings.trim)
