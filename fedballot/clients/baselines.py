"""Baselines that share nothing: every client by itself, and one model on all private data pooled."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np

from fedballot.clients.base import Arrays, BallotClient, Release
from fedballot.clients.workspace import Refusal
from fedballot.datasets.examples import Array
from fedballot.settings.baselines import PooledSettings, StandaloneSettings
from fedballot.settings.parts import CommonSettings
from fedballot.wire.messages import Config

S = TypeVar("S", bound=CommonSettings)


class MeasuringClient(BallotClient[S], Generic[S]):
    """A client that answers any request with how well its model does: a measurement, not a release."""

    def question(self, arrays: Arrays, config: Config) -> None:
        """Nothing is asked."""

    def pack(self, question: None, release: Release) -> Arrays:
        """A confusion matrix, int64 (C, C); or AUCs, float64 (L,), -1 where a label has none."""
        return list(release.values())


class StandaloneClient(MeasuringClient[StandaloneSettings]):
    """A client that trains on its own records only."""

    def exact(self, question: None) -> Release:
        """Confusion matrix (C, C) of the client's own model on the test records, or AUC (L,) of several labels."""
        workspace = self.workspace
        figures = workspace.folder.figures()
        if figures is None:
            private = workspace.private()
            learner = workspace.own_learner().fit(private.x, private.y)
            learner.save(workspace.folder.model)
            figures = workspace.measured(learner)
            workspace.folder.note(figures)
        return told(figures)


class CentralizedClient(MeasuringClient[PooledSettings]):
    """One client that holds every client's records: what training on all of them at once would reach."""

    def exact(self, question: None) -> Release:
        """As a client by itself, of the server's model, trained on what :meth:`records` gives."""
        workspace, settings = self.workspace, self.workspace.settings
        figures = workspace.folder.figures()
        if figures is None:
            learner = workspace.new_learner(
                settings.server_model,
                epochs=settings.server_epochs,
                batch_size=settings.server_batch_size,
                lr=settings.server_lr,
            )
            learner.fit(*self.records())
            learner.save(workspace.folder.model)
            figures = workspace.measured(learner)
            workspace.folder.note(figures)
        return told(figures)

    def records(self) -> tuple[Array, Array]:
        """All private records and their labels."""
        private, rows = self.workspace.data.private, np.sort(np.concatenate(self.workspace.data.parts))
        return np.asarray(private.x[rows]), np.asarray(private.y[rows])


class PublicOnlyClient(CentralizedClient):
    """The server by itself: its model trained on the public pool with its labels."""

    def records(self) -> tuple[Array, Array]:
        """The public records and their labels.

        Raises
        ------
        Refusal
            If they have none.
        """
        data = self.workspace.data
        if (data.public_y < 0).all():
            raise Refusal("settings", "the public records have no labels of this task")
        return data.public_x, data.public_y


def told(figures: dict[str, Any]) -> Release:
    """Figures as an array, see :meth:`MeasuringClient.pack`."""
    if "confusion" in figures:
        return {"confusion": np.asarray(figures["confusion"], dtype=np.int64)}
    return {"auc": np.array([-1 if value is None else value for value in figures["auc"]], dtype=np.float64)}
