"""Settings of methods whose ballots are added up: in the clear, or under masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedballot.core.errors import SettingsError
from fedballot.core.setting import setting, where
from fedballot.privacy.guarantee import TRUSTED_AGGREGATOR, Trust, secure_aggregation
from fedballot.privacy.mechanism import Facts
from fedballot.settings.parts import CommonSettings
from fedballot.wire import secagg
from fedballot.wire.secagg import Plan


@dataclass(frozen=True)
class SummedSettings(CommonSettings):
    """Settings of every method whose ballots are added up; ``min_clients`` is the fewest whose sum may be opened."""

    secure_aggregation: bool = setting(
        False,
        "add ballots up under masks, so that the server sees the sum only; `fedballot submit` sets it",
        site_limit=(False, True),
    )
    colluders: int = setting(
        0,
        "clients that may pool what they know with the server: noise, shares of keys",
        low=0,
        site_limit=(0, 1_000_000),
    )
    mask_neighbours: int = setting(
        0,
        "clients with which each one shares masks, an even number; 0: as few as are safe",
        low=0,
        site_limit=(0, 1_000_000),
        read_if=where("secure_aggregation", True),
    )
    share_threshold: int = setting(
        0,
        "shares that open a client's mask; 0: as few as are safe",
        low=0,
        site_limit=(0, 1_000_000),
        read_if=where("secure_aggregation", True),
    )

    def check(self) -> None:
        super().check()
        if self.colluders >= self.min_clients:
            raise SettingsError(
                f"colluders={self.colluders} leaves no honest client among the {self.min_clients} that must answer"
            )
        if self.secure_aggregation:
            _ = self.plan

    @property
    def plan(self) -> Plan:
        """Who must be there and who holds shares."""
        return secagg.make_plan(
            self.clients, self.min_clients, self.colluders, self.mask_neighbours, self.share_threshold
        )

    @property
    def trust(self) -> Trust:
        """Whom a client trusts with its ballot: without masks, the server sees each."""
        if not self.secure_aggregation:
            return TRUSTED_AGGREGATOR
        return secure_aggregation(self.min_clients, self.colluders)

    def seen(self, facts: Facts) -> dict[str, Any]:
        """What a mechanism's ``guarantees`` ask about who sees the sum: whose noise came is sure under masks alone."""
        return {"secure": self.secure_aggregation, "arrived": facts.arrived if self.secure_aggregation else None}
