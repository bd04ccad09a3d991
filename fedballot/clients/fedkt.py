"""The client's side of FedKT: teachers on parts of its records, students of their votes, one vote where students agree.

Paper: "Practical one-shot federated learning for cross-silo setting" (FedKT), Algorithm 1. There a client sends its
students, of which the server only asks votes on the public records; here it sends these votes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedballot.clients.featured import featured
from fedballot.clients.voting import VotingClient
from fedballot.clients.workspace import EVALUATED, Workspace
from fedballot.core.metrics import confusion_matrix
from fedballot.core.seeds import Stream, generator
from fedballot.datasets.examples import Examples
from fedballot.distillation.aggregation import votes_of
from fedballot.learners.base import Inputs, Learner
from fedballot.settings.voting import FedktSettings

Ints = npt.NDArray[np.integer]


def consistent_votes(labels: Ints, n_classes: int) -> npt.NDArray[np.int32]:
    """One-hot votes (Q, C) where all students (s, Q) say the same class, and none elsewhere (consistent voting).

    The paper counts s votes for each client that is of one mind, which is the same for all and left out.
    """
    return votes_of(np.where((labels == labels[0]).all(axis=0), labels[0], n_classes), n_classes)


class FedktClient(VotingClient[FedktSettings]):
    """One party of Algorithm 1."""

    def __init__(self, workspace: Workspace[FedktSettings]) -> None:
        super().__init__(featured(workspace))

    def votes(self, queries: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        data, settings = self.workspace.data, self.workspace.settings
        asked, own = np.asarray(data.public_x[queries]), self.workspace.private()
        students = [self.student(number, own, asked) for number in range(settings.partitions)]
        self._measure(students)
        labels = [student.predict_logits(asked).argmax(axis=1) for student in students]
        return consistent_votes(np.asarray(labels), len(data.classes))

    def student(self, number: int, own: Examples, asked: Inputs) -> Learner:
        """A model trained on what the teachers of one partition vote for, the smaller class where they are even."""
        workspace, subsets = self.workspace, self.workspace.settings.subsets
        rng = generator(workspace.settings.seed, Stream.SUBSETS, workspace.client_id, number)
        tally = np.zeros((len(asked), len(workspace.data.classes)), dtype=np.int64)
        for index, rows in enumerate(np.array_split(rng.permutation(len(own.y)), min(subsets, len(own.y)))):
            teacher = self._learner(number, 1 + index).fit(own.x[rows], own.y[rows])
            tally += votes_of(teacher.predict_logits(asked).argmax(axis=1), tally.shape[1])
        return self._learner(number, 0).fit(asked, tally.argmax(axis=1))

    def _learner(self, partition: int, index: int) -> Learner:
        settings, number = self.workspace.settings, self.workspace.client_id
        return self.workspace.new_learner(
            settings.client_models[number % len(settings.client_models)],
            epochs=settings.epochs,
            batch_size=settings.batch_size,
            lr=settings.lr,
            streams=(partition, index),
        )

    def _measure(self, students: list[Learner]) -> None:
        """Measure the students' majority on test records, for the client's folder only."""
        workspace = self.workspace
        if not workspace.settings.evaluate_clients or workspace.folder.figures() is not None:
            return
        x, truth = np.asarray(workspace.data.test_x[:EVALUATED]), workspace.data.test_y[:EVALUATED]
        classes = len(workspace.data.classes)
        tally = sum((votes_of(one.predict_logits(x).argmax(axis=1), classes) for one in students), np.zeros(1))
        workspace.folder.note({"confusion": confusion_matrix(truth, tally.argmax(axis=1), classes).tolist()})
