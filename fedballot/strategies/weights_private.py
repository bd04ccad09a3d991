"""The server's side of the private methods that share weights.

Papers: McMahan et al. 2018, "Learning differentially private recurrent language models", Algorithm 1; Abadi et al.
2016, "Deep learning with differential privacy".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.common import FitIns, Parameters
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy

from fedballot.core.errors import RunError
from fedballot.privacy.guarantee import SELF, TRUSTED_AGGREGATOR, Guarantee
from fedballot.privacy.ledger.ledger import Costs
from fedballot.privacy.noise.randomness import secret_noise
from fedballot.settings.weights import (
    DpFedavgSettings,
    DpFedsgdSettings,
    client_mechanism,
    record_mechanism,
    round_mechanism,
)
from fedballot.strategies.base import Answer
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

    def cohort(self, server_round: int, proxies: list[ClientProxy]) -> list[ClientProxy]:
        settings = self.settings
        if settings.sampling == "fixed" and len(proxies) != settings.clients:
            raise RunError(
                f"{len(proxies)} of {settings.clients} clients are connected, and sampling=fixed accounts for a cohort "
                "drawn from all of them: wait for the others, or set sampling=poisson"
            )
        drawn = self.mechanism.cohort(secret_noise(settings.noise_seed, server_round, COHORT))
        return [proxies[index] for index in drawn if index < len(proxies)]

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        asked = super().configure_fit(server_round, parameters, client_manager)
        if not asked:  # an empty cohort is a round like any other: Flower would skip it, and its noise with it
            self.aggregate_fit(server_round, [], [])
        return asked

    def average(self, answers: Sequence[Answer]) -> npt.NDArray[np.float64]:
        """Noisy sum of the clipped differences over the expected cohort (d,): a client that failed counts as zero."""
        total = np.zeros(self.weights.size, dtype=np.int64)
        for answer in answers:
            total += self.mechanism.in_steps(answer.ballot[None])[0]
        noise = secret_noise(self.settings.noise_seed, len(self.round_records) + 1, NOISE)
        return self.mechanism.noisy(total, noise) / self.settings.divisor

    def charge(self, client_id: int) -> Costs:
        return {"difference": self.mechanism.cost_if_drawn()}

    @property
    def better_than_charged(self) -> bool:
        """Cohorts are secret; a client that was drawn knows it, and is charged for that."""
        return True

    def guarantees(self) -> list[Guarantee]:
        settings, mechanism = self.settings, self.mechanism
        whole = settings.sampling == "poisson" and settings.participation == 1
        who = "all clients" if whole else f"a secret {settings.sampling} cohort of {settings.divisor:g} clients"
        return [
            Guarantee(
                mechanism=f"Gaussian noise of {mechanism.multiplier:.4g} clips, by the server, on the sum of {who}",
                unit="client",
                adjacency=settings.adjacency,
                epsilon=mechanism.epsilon(settings.delta),
                delta=settings.delta,
                view="output only",
                trust=TRUSTED_AGGREGATOR,
                status="proved" if settings.noise_seed is None else "seeded",
                accountant=mechanism.accountant,
                n=settings.clients,
                composition=f"{settings.rounds} rounds, the model after each of them",
            )
        ]

    def outcome(self) -> Mapping[str, Any]:
        warnings = [SIZES_WARNING] if self.settings.participation < 1 and self.settings.sampling == "poisson" else []
        return {**super().outcome(), "warnings": warnings}


class DpFedsgdStrategy(WeightsStrategy[DpFedsgdSettings]):
    """The plain average: the clients' answers are private already."""

    def charge(self, client_id: int) -> Costs:
        return {"difference": round_mechanism(self.settings, self.weights.size).cost()}

    def guarantees(self) -> list[Guarantee]:
        settings = self.settings
        mechanism = record_mechanism(settings, self.weights.size)
        return [
            Guarantee(
                mechanism=f"Gaussian noise of {mechanism.multiplier:.4g} clips on the gradients of each Poisson batch",
                unit="record",
                adjacency="add-remove",
                epsilon=mechanism.epsilon(settings.delta),
                delta=settings.delta,
                view="server's view",
                trust=SELF,
                status="proved" if settings.noise_seed is None else "seeded",
                accountant=mechanism.accountant,
                n=self.data.largest,
                composition=f"{settings.rounds} rounds of {settings.steps} noisy steps each",
            )
        ]
