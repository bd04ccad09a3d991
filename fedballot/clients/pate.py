"""The client's side of PATE-FL (Algorithm 1, lines 1-6): train a teacher, and let it vote on the queries.

Paper: "Voting-based approaches for differentially private federated learning".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedballot.clients.voting import VotingClient
from fedballot.clients.workspace import EVALUATED
from fedballot.learners.base import Learner
from fedballot.learners.objectives import Abstain, DomainAdversarial, Objective
from fedballot.privacy.mechanisms.ballots import limit_votes
from fedballot.settings.voting import PateSettings

BATCHES = 9  # of a client's own records in an epoch; teachers trained in fewer steps abstain nearly everywhere
SMALLEST_BATCH = 10


def teacher_batch(largest: int, records: int) -> int:
    """Batch size of a teacher: ``largest``, or less where that would leave an epoch with fewer than `BATCHES` batches.

    Training ends in ballots that are capped and noised whatever it did, so this may hang on private facts.
    """
    return min(largest, max(SMALLEST_BATCH, records // BATCHES))


class PateClient(VotingClient[PateSettings]):
    """One client of Algorithm 1."""

    _teacher: Learner | None = None

    def teacher(self) -> Learner:
        """The trained teacher (line 2), trained once and taken from the client's folder after that."""
        workspace, settings = self.workspace, self.workspace.settings
        if self._teacher is not None:
            return self._teacher
        if workspace.folder.model.exists():
            self._teacher = workspace.own_learner().load(workspace.folder.model)
            return self._teacher
        private = workspace.private()
        learner = workspace.own_learner(teacher_batch(settings.batch_size, len(private.x)))
        learner.fit(private.x, private.y, objective=self._objective())
        if settings.evaluate_clients:  # before the model: whoever has one is not measured again
            workspace.folder.note({"confusion": workspace.confusion(learner, EVALUATED).tolist()})
        learner.save(workspace.folder.model)
        self._teacher = learner
        return learner

    def _objective(self) -> Objective | None:
        pool, strength = np.asarray(self.workspace.data.public_x), self.workspace.settings.domain_adaptation
        if self.workspace.settings.abstain:
            return Abstain(pool)
        return DomainAdversarial(pool, strength) if strength else None

    def votes(self, queries: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
        """The teacher's votes (Q, C) within the cap, before noise (line 5's first term)."""
        logits = self.teacher().predict_logits(self.workspace.data.public_x[queries])
        return limit_votes(logits, self.workspace.settings.max_votes, n_classes=len(self.workspace.data.classes))
