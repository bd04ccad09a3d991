"""The client's side of DS-FL and Selective-FD: FedMD's, on features if wished, and answering about some records only.

Paper: "Selective knowledge sharing for privacy-preserving federated distillation without a good teacher".
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from fedballot.clients.base import Arrays, Release
from fedballot.clients.featured import featured
from fedballot.clients.fedmd import FedmdClient, Floats, Indices, Task, answer_codec, states_folder
from fedballot.clients.workspace import Workspace
from fedballot.core.files import read_arrays, write_arrays
from fedballot.core.seeds import Stream, generator
from fedballot.datasets.examples import Examples
from fedballot.learners.base import FloatArray, Learner
from fedballot.learners.density import density_ratio, kernel_width
from fedballot.learners.seen import seen_through
from fedballot.settings.selective import DistilledSettings, SelectiveSettings
from fedballot.wire.partial import Partial

S = TypeVar("S", bound=DistilledSettings)
Bools = npt.NDArray[np.bool_]


class DistilledClient(FedmdClient[S], Generic[S]):
    """FedMD's client, whose models may learn from features."""

    def __init__(self, workspace: Workspace[S]) -> None:
        super().__init__(featured(workspace))
        self.raw = workspace


def ballot(settings: SelectiveSettings, shape: tuple[int, int]) -> Partial:
    """How a client's predictions (Q, C) on the records that it answers are sent."""
    return Partial(shape, lambda some: answer_codec(settings, some))


class SelectiveClient(DistilledClient[SelectiveSettings]):
    """A client that answers about public records that are like its own, and digests what the server has kept."""

    def exact(self, question: Task) -> dict[str, Any]:
        """Logits (Q, C) of the public records asked about, and which of them are answered (Q,)."""
        return {**super().exact(question), "answered": self.selected(question)[question.asked]}

    def pack(self, question: Task, release: Release) -> Arrays:
        settings, logits = self.workspace.settings, release["predictions"]
        return ballot(settings, logits.shape).pack((release["answered"], softmax(logits, axis=1)))

    def _former(self, array: npt.NDArray[Any]) -> Indices:
        """Those public records that the server has kept, perhaps none."""
        return self._rows(array, fewest=0)

    def _go_on(self, task: Task, learner: Learner, own: Examples, rows: Indices, consensus: Floats) -> None:
        """Digest, measure as the paper does, revisit."""
        if not len(rows):
            learner.fit(own.x, own.y, epochs=self.workspace.settings.revisit_epochs)
        elif learner.warm_start:
            self._digest(learner, rows, consensus)
            self._note(task.round, learner)
            learner.fit(own.x, own.y, epochs=self.workspace.settings.revisit_epochs)
        else:
            super()._go_on(task, learner, own, rows, consensus)

    def selected(self, question: Task) -> Bools:
        """Which records of the pool (public_size,) the client answers; found once in a run."""
        path = states_folder(self.workspace.folder, question.request) / "selected.npz"
        if not path.exists():
            write_arrays(path, {"selected": self._select()})
        return np.asarray(read_arrays(path)["selected"], dtype=bool)

    def _select(self) -> Bools:
        """Records whose density ratio, of one of the client's classes, exceeds a quantile of its own records'."""
        settings, (own, pool) = self.workspace.settings, self._compared
        rng = generator(settings.seed, Stream.SELECTOR, self.workspace.client_id)
        count, labels = settings.selector_records, self.workspace.private().y
        if settings.selector_against == "pool":
            below = np.asarray(pool[rng.permutation(len(pool))[:count]], dtype=np.float64)
        else:
            below = rng.uniform(pool.min(axis=0), pool.max(axis=0), (count, pool.shape[1]))
        width, out = kernel_width(pool), np.zeros(len(pool), dtype=bool)
        for label in np.unique(labels):
            rows = own[rng.permutation(np.flatnonzero(labels == label))]
            known = min(count, len(rows) // 2)  # the others tell what ratios to expect of the class
            if not known:
                continue
            ratios = density_ratio(np.concatenate([rows[known:], pool]), rows[:known], below, width)
            held = len(rows) - known
            out |= ratios[held:] > np.quantile(ratios[:held], settings.leave_out)
        return out

    @cached_property
    def _compared(self) -> tuple[FloatArray, FloatArray]:
        """Own records (n, d) and the public pool (public_size, d) as densities are estimated of them."""
        settings, raw = self.workspace.settings, self.raw
        if settings.client_features and not settings.selector_features:
            return self.workspace.private().x, self.workspace.data.public_x
        name = settings.selector_features or "auto"
        extractor, data = seen_through(name, raw.data, settings.components, raw.device)
        return extractor.total(raw.private().x), data.public_x
