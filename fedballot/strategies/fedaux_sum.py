"""The server's side of FedAUXfdp with one noise for all clients: it learns from the sum of the class sums alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.privacy.guarantee import Guarantee
from fedballot.privacy.ledger.ledger import Costs
from fedballot.privacy.mechanisms.class_sums import ClassSums
from fedballot.settings.fedaux import FedauxfdpSumSettings, shared_mechanism, sums_form
from fedballot.strategies.base import Answer, Arrays, one_array
from fedballot.strategies.fedaux import FedauxfdpStrategy, Floats
from fedballot.strategies.summed import SummedStrategy
from fedballot.wire.packing import unpack_integers
from fedballot.wire.secagg import Form


class FedauxfdpSumStrategy(SummedStrategy[FedauxfdpSumSettings], FedauxfdpStrategy[FedauxfdpSumSettings]):
    """As FedAUXfdp with class sums, the clients taken as one."""

    _arrived = 0

    @property
    def noisy(self) -> ClassSums:
        """The release, of which each client adds a share of the noise."""
        return shared_mechanism(self.settings, self.classes)

    @property
    def form(self) -> Form:
        return sums_form(self.settings, self.data)

    def read(self, arrays: Arrays) -> npt.NDArray[np.int32]:
        return unpack_integers(one_array(arrays), self.form.shape)

    def combine_sum(self, server_round: int, total: npt.NDArray[np.int64], contributors: int) -> dict[str, Any]:
        self._arrived = contributors
        return super(SummedStrategy, self).combine(server_round, [Answer(0, self.noisy.read(total), 0.0, 0.0)])

    def soft(self, answers: list[Answer]) -> Floats:
        """Soft labels from the sum; every share that came has its noise in it."""
        noisy, (answer,) = self.noisy, answers
        more = self._arrived / (noisy.contributors - noisy.colluders)
        return self.weighed(answer.ballot[None], more * noisy.count_variance, more * noisy.variance)

    def charge(self, client_id: int) -> Costs:
        return {"sums": self.noisy.cost()}

    def guarantees(self) -> list[Guarantee]:
        settings = self.settings
        return self.noisy.guarantees(
            settings.delta,
            secure=settings.secure_aggregation,
            arrived=(self._arrived or None) if settings.secure_aggregation else None,
            seeded=settings.noise_seed is not None,
            records=self.data.records,
            largest=self.data.largest,
        )
