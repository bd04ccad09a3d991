"""A cost of somebody else's package: the winner among noisy scores, as in report-noisy-max."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fedballot.core.errors import SettingsError
from fedballot.privacy.accounting import Cost, register_cost

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    from numpy.typing import NDArray


@register_cost
@dataclass(frozen=True)
class WinnerCost(Cost):
    """`count` winners of scores that each have Gumbel noise: the exponential mechanism.

    It is epsilon-DP with epsilon = 2/scale and has a bounded range, so it is (epsilon^2 / 8)-concentrated. Source:
    Cesar and Rogers, "Bounding, concentrating, and truncating: unifying privacy loss composition for data
    analytics" (2021).

    Parameters
    ----------
    scale : float
        Of the noise, in units of what a score can change by.
    count : int
    """

    scale: float
    count: int = 1

    def __post_init__(self) -> None:
        if not self.scale > 0:
            raise SettingsError(f"scale = {self.scale}: must be above 0.")

    def rdp(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        epsilon = 2 / self.scale
        return self.count * np.minimum(orders * epsilon**2 / 8, epsilon)

    def pld(self) -> PrivacyLossDistribution:
        from dp_accounting.pld import privacy_loss_distribution as pld
        from dp_accounting.pld.common import DifferentialPrivacyParameters

        return pld.from_privacy_parameters(DifferentialPrivacyParameters(2 / self.scale, 0.0)).self_compose(self.count)

    def times(self, count: int) -> WinnerCost:
        return replace(self, count=self.count * count)

    def words(self) -> str:
        return f"{self.count} winners of noisy scores"
