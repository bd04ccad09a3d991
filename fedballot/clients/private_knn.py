"""The client's side of Private-kNN-FL (Algorithm 2, lines 2-6): the classes of each query's nearest private records.

Paper: "Voting-based approaches for differentially private federated learning".
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from fedballot.clients.voting import VotingClient
from fedballot.clients.workspace import EVALUATED
from fedballot.core.metrics import confusion_matrix
from fedballot.learners.base import FloatArray
from fedballot.learners.extractors import Extractor, make_extractor
from fedballot.learners.neighbours import nearest, neighbour_votes
from fedballot.settings.voting import KnnSettings


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
