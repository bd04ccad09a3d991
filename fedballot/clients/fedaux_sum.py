"""FedAUXfdp's class sums where the server needs only the sum over parties, and each adds a share of one noise.

Source: ours. Twenty releases with noise of their own have twenty times the variance of one release about all records;
shares that make up the noise of one cost nobody more, as long as only their sum is opened (secure aggregation).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from flwr.common import Scalar

from fedballot.clients.base import Arrays, Refusal
from fedballot.clients.fedaux import FedauxfdpClient, FedauxfdpSettings
from fedballot.clients.frozen import public_features
from fedballot.clients.summed import SummedClient, SummedSettings
from fedballot.datasets.federation import FederatedData
from fedballot.datasets.own import SITES
from fedballot.errors import SettingsError
from fedballot.privacy.class_sums import ClassSums
from fedballot.secagg import Form
from fedballot.settings import setting


@dataclass(frozen=True)
class FedauxfdpSumSettings(FedauxfdpSettings, SummedSettings):
    """Settings of FedAUXfdp with one noise for all parties."""

    epsilon: float = setting(0.5, "privacy target of the sum over parties", above=0, site_limit=(1e-3, 1000.0))
    records: int = setting(
        0, "most records that a party holds, public; 0: the largest of the partition", low=0, site_limit=(0, 1_000_000)
    )

    def check(self) -> None:
        super().check()
        for name, only in (("head", "class-sums"), ("embedding", "landmarks"), ("precision", "float16")):
            if getattr(self, name) != only:
                raise SettingsError(f"{name}={getattr(self, name)}: fedauxfdp-sum adds up class sums: leave it out")
        if self.dataset == SITES and not self.records:
            raise SettingsError(
                "records=0, but sites keep their numbers to themselves, and sums need a largest number: set records to "
                "the most that a site holds"
            )


@lru_cache(maxsize=4)
def shared_mechanism(settings: FedauxfdpSumSettings, classes: int) -> ClassSums:
    """The noisy sum with the least noise that the settings allow."""
    return ClassSums.solve(
        settings.epsilon,
        settings.delta,
        classes=classes,
        features=settings.landmarks,
        signed=False,
        contributors=settings.required_agents,
        colluders=settings.colluders,
    )


def sums_form(settings: FedauxfdpSumSettings, data: FederatedData) -> Form:
    """Form of a party's integers (C, 1 + d), from public numbers."""
    classes = len(data.classes)
    noisy = shared_mechanism(settings, classes)
    return Form((classes, 1 + settings.landmarks), noisy.largest(most_records(settings, data)))


def most_records(settings: FedauxfdpSumSettings, data: FederatedData) -> int:
    """Most records that a party may hold."""
    return settings.records or max(part.size for part in data.parts)


class FedauxfdpSumClient(SummedClient[FedauxfdpSumSettings], FedauxfdpClient[FedauxfdpSumSettings]):
    """A party whose class sums, with a share of the noise, are added to the others' before anybody sees them."""

    def form(self) -> Form:
        return sums_form(self.party.settings, self.party.data)

    def prepare(self, arrays: Arrays, config: dict[str, Scalar]) -> None:
        """Check the request, and extract the public features."""
        network, landmarks = self.asked(arrays)
        self.embedding(public_features(self.party.settings, self.party.data, self.party.device, network), landmarks)

    def integers(self, arrays: Arrays, config: dict[str, Scalar]) -> npt.NDArray[np.integer]:
        """Counts and sums (C, 1 + d) with a share of the noise, in grid steps; the same for the same request."""
        party, own = self.party, self.party.private()
        network, landmarks = self.asked(arrays)
        public = public_features(party.settings, party.data, party.device, network)
        noisy = shared_mechanism(party.settings, len(party.data.classes))
        most = most_records(party.settings, party.data)
        if len(own.y) > most:
            raise Refusal("records", f"this party holds more than records={most}")
        embedding = self.embedding(public, landmarks)
        return self.drawn(noisy, noisy.steps, embedding, public, own, str(config["request"]))
