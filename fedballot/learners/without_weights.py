"""What learners answer about weights that have none to share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from fedballot.core.errors import SettingsError
from fedballot.learners.base import WEIGHT_LEARNERS, Combine
from fedballot.learners.checks import FloatArray, Inputs, IntArray


class WithoutWeights:
    """The part of a learner that shares weights, for those that have none to share."""

    name: str

    def sgd_steps(self, x: Inputs, y: IntArray, batches: Iterable[IntArray], combine: Combine) -> Self:
        """Refuse; see ``Learner.sgd_steps``."""
        raise self._no_weights()

    def get_weights(self) -> list[FloatArray]:
        """Refuse; see ``Learner.get_weights``."""
        raise self._no_weights()

    def set_weights(self, weights: list[FloatArray]) -> Self:
        """Refuse; see ``Learner.set_weights``."""
        raise self._no_weights()

    def head(self) -> tuple[FloatArray, FloatArray]:
        """Refuse; see ``Learner.head``."""
        raise self._no_weights()

    def _no_weights(self) -> SettingsError:
        return SettingsError(
            f"learner {self.name!r} is scikit-learn's and shares no weights: use one of "
            f"{', '.join(WEIGHT_LEARNERS)}, or a torch module by import path"
        )
