"""The client's side of Private-kNN-FL (Algorithm 2, lines 2-6): the classes of each query's nearest private records.

Paper: "Voting-based approaches for differentially private federated learning".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from fedballot.clients.base import EVALUATED
from fedballot.clients.voting import VotingClient, VotingSettings
from fedballot.core.metrics import confusion_matrix
from fedballot.learners.base import FloatArray
from fedballot.learners.extractors import Extractor, make_extractor, split_steps
from fedballot.learners.neighbours import nearest, neighbour_votes
from fedballot.settings.parts import EXTRACTORS, setting

FULL_VOTES = 0.95


@dataclass(frozen=True)
class KnnSettings(VotingSettings):
    """Settings of Private-kNN-FL."""

    delta: float = setting(
        1e-5, "added to e^epsilon times any probability; below 1/n", above=0, below=1, site_limit=(1e-15, 0.1)
    )
    unit: Literal["client", "record"] = setting("record", "whom the target protects", site_limit=("client", "record"))
    k: int = setting(
        10,
        "nearest private records of each client that vote on a query; public, the same for all",
        low=1,
        site_limit=(1, 10_000),
    )
    extractor: str = setting(
        "auto", "public features in which records are compared: steps such as hog+pca+l2", site_limit=EXTRACTORS
    )

    def check(self) -> None:
        super().check()
        split_steps(self.extractor)

    @property
    def votes_per_query(self) -> int:
        """Neighbours that vote on a query."""
        return self.k

    def turnout_warning(self, cast: float, off: float) -> str | None:
        """See :meth:`VotingSettings.turnout_warning`."""
        if cast + off > FULL_VOTES:
            return None
        return (
            f"clients had only about {100 * max(0.0, cast):.0f} % of k={self.k} neighbours each: some hold fewer "
            "records, and all of those vote on every query alike, which tells the server nothing; lower k"
        )


class KnnClient(VotingClient[KnnSettings]):
    """One client of Algorithm 2."""

    @cached_property
    def extractor(self) -> Extractor:
        """The public feature extractor (phi), fitted on the public pool."""
        data, settings = self.workspace.data, self.workspace.settings
        made = make_extractor(
            settings.extractor,
            input_shape=data.public_x.shape[1:],
            components=settings.components,
            device=self.workspace.device,
        )
        return made.fit(data.public_x)

    @cached_property
    def records(self) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        """Features (line 3) and labels of the client's own records."""
        private = self.workspace.private()
        return self.extractor.total(private.x), private.y

    def measure(self) -> None:
        """Measure the client's own neighbours on test records, for its folder only."""
        workspace = self.workspace
        if workspace.settings.evaluate_clients and workspace.folder.figures() is None:
            counts = self._counts(np.asarray(workspace.data.test_x[:EVALUATED]))
            truth = workspace.data.test_y[:EVALUATED]
            matrix = confusion_matrix(truth, counts.argmax(axis=1), counts.shape[1])
            workspace.folder.note({"confusion": matrix.tolist()})

    def votes(self, queries: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Classes of the k nearest records, counted for each query (Q, C) (lines 4 and 5, times k).

        A client with fewer than k records counts them all, so that replacing one still moves one count by one.
        """
        self.measure()
        return self._counts(np.asarray(self.workspace.data.public_x[queries]))

    def _counts(self, x: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
        features, labels = self.records
        found = nearest(features, self.extractor.transform(x), min(self.workspace.settings.k, len(labels)))
        return neighbour_votes(labels, found, len(self.workspace.data.classes))
