"""Baselines that share nothing: every agent by itself, and one model on all private data pooled."""

from __future__ import annotations

import numpy as np
from flwr.common import Scalar

from fedballot.clients.base import Arrays, PartyClient
from fedballot.settings import CommonSettings


class StandaloneClient(PartyClient[CommonSettings]):
    """An agent that trains on its own records only; what it answers is a measurement, not a release."""

    def answer(self, arrays: Arrays, config: dict[str, Scalar]) -> Arrays:
        """Confusion matrix (C, C) of the agent's own model on the test records."""
        party = self.party
        figures = party.folder.figures()
        if figures is None:
            private = party.private()
            learner = party.own_learner().fit(private.x, private.y)
            learner.save(party.folder.model)
            figures = {"confusion": party.confusion(learner).tolist()}
            party.folder.note(figures)
        return [np.asarray(figures["confusion"], dtype=np.int64)]


class CentralizedClient(PartyClient[CommonSettings]):
    """One party that holds every agent's records: what training on all of them at once would reach."""

    def answer(self, arrays: Arrays, config: dict[str, Scalar]) -> Arrays:
        """Confusion matrix (C, C) on the test records of the server's model, trained on all private records."""
        party, settings = self.party, self.party.settings
        figures = party.folder.figures()
        if figures is None:
            rows = np.sort(np.concatenate(party.data.parts))
            private = party.data.private
            learner = party.new_learner(
                settings.server_model,
                epochs=settings.server_epochs,
                batch_size=settings.server_batch_size,
                lr=settings.server_lr,
            )
            learner.fit(np.asarray(private.x[rows]), np.asarray(private.y[rows]))
            learner.save(party.folder.model)
            figures = {"confusion": party.confusion(learner).tolist()}
            party.folder.note(figures)
        return [np.asarray(figures["confusion"], dtype=np.int64)]
