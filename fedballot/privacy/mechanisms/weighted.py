"""Noisy votes of clients that allow different losses: all add the same noise, and a careful client's vote counts less.

Source: Boenisch et al. 2022, "Individualized PATE: differentially private machine learning with individual privacy
guarantees", whose weighting this is, with whole weights for integer noise and with exact accounting.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import SettingsError
from fedballot.privacy.accounting import check_records, largest_count
from fedballot.privacy.guarantee import Unit
from fedballot.privacy.mechanisms.votes import NoisyVotes
from fedballot.privacy.noise.randomness import NoiseSource

WHOLE = 64  # steps of a full vote: finer than anybody's noise, for 6 more bits of each number


@dataclass(frozen=True)
class WeightedVotes(NoisyVotes):
    """`NoisyVotes` in steps of 1/64 vote, of a client whose vote adds `weight` of them.

    Noise and the largest integer are the same for every weight: shares add up to sigma whoever answers, and the masks
    fit all.

    Parameters
    ----------
    weight : int
        What a vote of this client adds to its count, 1 to 64, in steps; the full vote is that of the clients that allow
        most, for which sigma is solved.

    Raises
    ------
    SettingsError
        As `NoisyVotes`; for another weight, and for neighbours, whose votes are counts already.
    """

    weight: int = WHOLE

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.weight <= WHOLE:
            raise SettingsError(f"weight = {self.weight}: must lie between 1 and {WHOLE}.")
        if self.k is not None:
            raise SettingsError(f"k = {self.k}: votes of neighbours have no weight; leave one of them out.")

    @property
    def ballot(self) -> int:
        """Steps of a full vote."""
        return WHOLE

    def swaps(self, unit: Unit, records_per_person: int = 1) -> int:
        """Return the weight, whatever the unit: one record may turn a vote."""
        check_records(records_per_person)
        return self.weight

    def largest_weight(self, epsilon: float, delta: float, unit: Unit = "client") -> int:
        """Return the largest weight whose epsilon is at most the target; 0: none is."""

        def fits(weight: int) -> bool:
            return replace(self, weight=weight).epsilon(delta, unit) <= epsilon

        return largest_count(fits, limit=WHOLE)

    def release(self, votes: NDArray[np.integer], noise: NoiseSource) -> NDArray[np.int32]:
        """Weigh one client's votes, one-hot and blank rows as for `NoisyVotes`, and add its noise share."""
        once = super().release(votes, noise)
        return (once + (self.weight - 1) * np.asarray(votes, dtype=np.int32)).astype(np.int32)
