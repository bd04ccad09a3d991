"""The cost of a noise-free sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from fedballot.core import numbers
from fedballot.core.errors import SettingsError
from fedballot.privacy.accounting.cost import Cost, register_cost


@register_cost
@dataclass(frozen=True)
class DeltaCost(Cost):
    """A release that is exactly (0, delta)-DP: with probability delta everything about one unit may come out."""

    delta: float

    noisy: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.delta) and 0 <= self.delta <= 1):
            raise SettingsError(f"delta = {self.delta}: must lie in [0, 1].")

    @property
    def mass(self) -> float:
        """See :attr:`Cost.mass`."""
        return self.delta

    def times(self, count: int) -> NoReturn:
        """See :meth:`Cost.times`."""
        raise SettingsError("a sample is charged once, however often it is used.")

    def words(self) -> str:
        """See :meth:`Cost.words`."""
        return f"a sample of the records: δ = {numbers.delta(self.delta)}, once"
