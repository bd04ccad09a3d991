"""The server's side of the private methods that share weights.

Papers: McMahan et al. 2018, "Learning differentially private recurrent language models", Algorithm 1; Abadi et al.
2016, "Deep learning with differential privacy".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.core.errors import RunError
from fedballot.distillation.aggregation import Sum
from fedballot.privacy.mechanism import Facts
from fedballot.privacy.noise.randomness import secret_noise
from fedballot.settings.weights_private import DpFedavgSettings, DpFedsgdSettings, client_mechanism
from fedballot.strategies.folds import Fold
from fedballot.strategies.hooks import Name
from fedballot.strategies.weights import MomentumStrategy, WeightsStrategy

COHORT, NOISE = 1, 2  # streams of seeded noise
SIZES_WARNING = (
    "the guarantee counts on nobody but the server knowing who took part in which round: the numbers of clients, bytes "
    "and seconds of each round in this result tell how many did; keep it with the server, or set participation=1"
)


class DpFedavgStrategy(MomentumStrategy[DpFedavgSettings]):
    """Clip each difference, add them up, add noise, divide by the expected size of the cohort."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.mechanism = client_mechanism(self.settings, self.weights.size)

    def cohort(self, server_round: int, connected: list[Name]) -> list[Name]:
        settings = self.settings
        if settings.sampling == "fixed" and len(connected) != settings.clients:
            raise RunError(
                f"{len(connected)} of {settings.clients} clients are connected, and sampling=fixed accounts for a "
                "cohort drawn from all of them: wait for the others, or set sampling=poisson"
            )
        drawn = self.mechanism.cohort(secret_noise(settings.noise_seed, server_round, COHORT))
        return [connected[index] for index in drawn if index < len(connected)]

    def averaging(self) -> Fold[npt.NDArray[np.float64]]:
        """Noisy sum of the clipped differences over the expected cohort (d,): a client that failed counts as zero."""
        steps = Sum((self.weights.size,))
        return Fold(
            lambda answer: steps.add(self.mechanism.in_steps(answer.ballot[None])[0]),
            lambda: self._noisy(steps),
            ordered=False,
        )

    def _noisy(self, steps: Sum) -> npt.NDArray[np.float64]:
        noise = secret_noise(self.settings.noise_seed, len(self.round_records) + 1, NOISE)
        return self.mechanism.noisy(steps.total, noise) / self.settings.divisor

    def facts(self, client_id: int | None = None) -> Facts:
        return replace(super().facts(client_id), weights=self.weights.size)

    def outcome(self) -> Mapping[str, Any]:
        warnings = [SIZES_WARNING] if self.settings.participation < 1 and self.settings.sampling == "poisson" else []
        return {**super().outcome(), "warnings": warnings}


class DpFedsgdStrategy(WeightsStrategy[DpFedsgdSettings]):
    """The plain average: the clients' answers are private already."""

    def facts(self, client_id: int | None = None) -> Facts:
        return replace(super().facts(client_id), weights=self.weights.size)
