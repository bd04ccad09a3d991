"""The server's side of FedAUXfdp with one noise for all clients: it learns from the sum of the class sums alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedballot.privacy.mechanisms.class_sums import ClassSums
from fedballot.settings.class_sums import FedauxfdpSumSettings, shared_mechanism, sums_form
from fedballot.strategies.fedaux import SumsStrategy
from fedballot.strategies.one_shot import Learned
from fedballot.strategies.summed import SummedStrategy
from fedballot.wire.secagg import Form


class FedauxfdpSumStrategy(SummedStrategy[FedauxfdpSumSettings], SumsStrategy[FedauxfdpSumSettings]):
    """As FedAUXfdp with class sums, the clients taken as one."""

    @property
    def noisy(self) -> ClassSums:
        """The release, of which each client adds a share of the noise."""
        return shared_mechanism(self.settings, self.classes)

    @property
    def form(self) -> Form:
        return sums_form(self.settings, self.data)

    def learn_from_sum(self, total: npt.NDArray[np.int64], arrived: int) -> Learned:
        """Soft labels from the sum, every share that came having its noise in it; then a student."""
        noisy = self.noisy
        more = arrived / (noisy.min_clients - noisy.colluders)
        sums = noisy.read(total)[None]
        return self.distill(self.weighed(sums, more * noisy.count_variance, more * noisy.variance))
