"""Averages that a few malicious clients cannot move far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from fedballot.core.errors import SettingsError
from fedballot.core.setting import setting, where
from fedballot.settings.parts import CommonSettings


@dataclass(frozen=True)
class RobustAggregation(CommonSettings):
    """Of methods whose server sees every answer as it is, and may average by the median."""

    aggregation: Literal["mean", "median", "trimmed-mean"] = setting(
        "mean",
        "how answers combine, coordinate by coordinate; malicious clients, if few, do not move median and trimmed-mean "
        "far",
        reads="server",
    )
    trim: int = setting(
        1,
        "largest and smallest answers that are left out of each coordinate, so many of each: malicious clients borne",
        low=1,
        reads="server",
        read_if=where("aggregation", "trimmed-mean"),
    )

    @property
    def robust(self) -> bool:
        """Whether the median or a trimmed mean replaces the mean."""
        return self.aggregation != "mean"

    def check(self) -> None:
        super().check()
        weights: Any = getattr(self, "weights", "equal")
        if self.robust and weights != "equal":
            raise SettingsError(f"aggregation={self.aggregation} counts all clients alike: set weights=equal")
        if self.aggregation == "trimmed-mean" and 2 * self.trim >= self.answers_expected:
            raise SettingsError(
                f"trim={self.trim} leaves none of {self.answers_expected} answers: set trim below half of them, or "
                "aggregation=median"
            )

    @property
    def answers_expected(self) -> int:
        """Answers in a round."""
        return self.clients
