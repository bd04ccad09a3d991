"""FedAUXfdp's class sums where the server needs only the sum over clients, and each adds a share of one noise.

Source: ours. Twenty releases with noise of their own have twenty times the variance of one release about all records;
shares that make up the noise of one cost nobody more, as long as only their sum is opened (secure aggregation).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fedballot.clients.base import Arrays, Part, Release, Terms
from fedballot.clients.fedaux import FedauxfdpClient, FedauxfdpSettings
from fedballot.clients.private_heads import HeadQuestion, record_terms
from fedballot.clients.summed import SummedClient, SummedSettings
from fedballot.core.errors import SettingsError
from fedballot.datasets.federation import FederatedData
from fedballot.datasets.own import SITES
from fedballot.privacy.guarantee import Unit
from fedballot.privacy.mechanisms.class_sums import ClassSums
from fedballot.settings.parts import setting
from fedballot.wire.secagg import Form


@dataclass(frozen=True)
class FedauxfdpSumSettings(FedauxfdpSettings, SummedSettings):
    """Settings of FedAUXfdp with one noise for all clients."""

    epsilon: float = setting(0.5, "privacy target of the sum over clients", above=0, site_limit=(1e-3, 1000.0))
    records: int = setting(
        0, "most records that a client holds, public; 0: the largest of the partition", low=0, site_limit=(0, 1_000_000)
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
        contributors=settings.required_clients,
        colluders=settings.colluders,
    )


def sums_form(settings: FedauxfdpSumSettings, data: FederatedData) -> Form:
    """Form of a client's integers (C, 1 + d), from public numbers."""
    classes = len(data.classes)
    noisy = shared_mechanism(settings, classes)
    return Form((classes, 1 + settings.landmarks), noisy.largest(most_records(settings, data)))


def most_records(settings: FedauxfdpSumSettings, data: FederatedData) -> int:
    """Most records that a client may hold."""
    return settings.records or max(part.size for part in data.parts)


class FedauxfdpSumClient(SummedClient[FedauxfdpSumSettings], FedauxfdpClient[FedauxfdpSumSettings]):
    """A client whose class sums, with a share of the noise, are added to the others' before anybody sees them."""

    def form(self) -> Form:
        return sums_form(self.workspace.settings, self.workspace.data)

    def terms(self, question: Any) -> Terms:
        settings = self.workspace.settings
        return record_terms(settings, [shared_mechanism(settings, self.classes).cost()])

    def parts(self, question: HeadQuestion, unit: Unit) -> dict[str, Part]:
        """Counts and sums (C, 1 + d) with a share of the noise, in grid steps."""
        noisy = shared_mechanism(self.workspace.settings, self.classes)
        return {
            "sums": Part(
                noisy.cost(self.workspace.counted(unit)), lambda own, noise: noisy.steps(own[0], own[1], noise)
            )
        }

    def exact(self, question: HeadQuestion) -> dict[str, Any]:
        """The first records only, where the client holds more than the largest number that was agreed on."""
        z, y = super().exact(question)["sums"]
        most = most_records(self.workspace.settings, self.workspace.data)
        return {"sums": (z[:most], y[:most])}

    def pack(self, question: Any, release: Release) -> Arrays:
        return SummedClient.pack(self, question, release)
