"""The client's side of both voting methods: votes on public queries, a noise share, one release from the ledger.

Paper: "Voting-based approaches for differentially private federated learning", Algorithms 1 and 2, which differ only in
how a client comes by its votes.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fedballot.clients.base import Arrays, Release, query_rows
from fedballot.clients.summed import SummedClient
from fedballot.settings.voting import VotingSettings, ballot_codec, ballot_form
from fedballot.wire.messages import Config
from fedballot.wire.secagg import Form

V = TypeVar("V", bound=VotingSettings)


class VotingClient(SummedClient[V], Generic[V]):
    """One client of Algorithms 1 and 2; a method says how it comes by its votes."""

    @abstractmethod
    def votes(self, queries: npt.NDArray[np.int64]) -> npt.NDArray[np.integer]:
        """The client's votes (Q, C) before noise (line 5's first term)."""

    def form(self) -> Form:
        return ballot_form(self.workspace.settings, len(self.workspace.data.classes))

    def question(self, arrays: Arrays, config: Config) -> npt.NDArray[np.int64]:
        """The public rows that are voted on."""
        return query_rows(arrays, self.workspace.settings.query_count, self.workspace.settings.public_size)

    def exact(self, question: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.integer]]:
        return {"votes": self.votes(question)}

    def blank(self, question: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.integer]]:
        return {"votes": np.zeros((len(question), len(self.workspace.data.classes)), dtype=np.int8)}

    def pack(self, question: npt.NDArray[np.int64], release: Release) -> Arrays:
        return ballot_codec(self.workspace.settings, len(self.workspace.data.classes)).pack(self.ballot(release))
