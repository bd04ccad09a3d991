"""FedAUXfdp's class sums where the server needs only the sum over clients, and each adds a share of one noise.

Source: ours. Twenty releases with noise of their own have twenty times the variance of one release about all records;
shares that make up the noise of one cost nobody more, as long as only their sum is opened (secure aggregation).
"""

from __future__ import annotations

from typing import Any

from fedballot.clients.base import Arrays, BallotClient, Release
from fedballot.clients.class_sums import SumsClient
from fedballot.clients.private_heads import HeadQuestion
from fedballot.clients.summed import SummedClient
from fedballot.privacy.mechanism import Facts
from fedballot.settings.class_sums import FedauxfdpSumSettings, most_records, sums_form
from fedballot.wire.secagg import Form


class FedauxfdpSumClient(SummedClient[FedauxfdpSumSettings], SumsClient[FedauxfdpSumSettings]):
    """A client whose class sums, with a share of the noise, are added to the others' before anybody sees them."""

    def form(self) -> Form:
        return sums_form(self.workspace.settings, self.workspace.data)

    def facts(self, question: Any) -> Facts:
        """The noise depends on nothing that a request brings."""
        return BallotClient.facts(self, question)

    def exact(self, question: HeadQuestion) -> dict[str, Any]:
        """The first records only, where the client holds more than the largest number that was agreed on."""
        z, y = super().exact(question)["sums"]
        most = most_records(self.workspace.settings, self.workspace.data)
        return {"sums": (z[:most], y[:most])}

    def pack(self, question: Any, release: Release) -> Arrays:
        return SummedClient.pack(self, question, release)
