"""The client's side of a poll: in which public cells its records lie, and which are far from all public records."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fedballot.clients.base import Arrays
from fedballot.clients.summed import SummedClient
from fedballot.clients.workspace import Refusal
from fedballot.datasets.federation import FederatedData
from fedballot.learners.base import FloatArray
from fedballot.learners.cover import place
from fedballot.learners.extractors import Extractor, make_extractor
from fedballot.settings.poll import PART, PollSettings, poll_form
from fedballot.wire.messages import Config
from fedballot.wire.secagg import Form


@lru_cache(maxsize=1)  # the clients of a process share it
def public_view(settings: PollSettings, data: FederatedData, device: str) -> tuple[Extractor, FloatArray]:
    """The extractor, fitted on the public pool, and the pool's features (P, d)."""
    made = make_extractor(
        settings.extractor, input_shape=data.public_x.shape[1:], components=settings.components, device=device
    )
    return made.fit(data.public_x), made.transform(data.public_x)


@dataclass(frozen=True, eq=False)
class PollQuestion:
    """The cell of each public record (P,), and how far from it a record is still near (P,)."""

    cells: npt.NDArray[np.int64]
    reach: npt.NDArray[np.float64]


class PollClient(SummedClient[PollSettings]):
    """Counts its records by cell and by class; whatever cells a server asks about, each record has one place."""

    @property
    def classes(self) -> int:
        return len(self.data.classes)

    def form(self) -> Form:
        return poll_form(self.settings, self.classes)

    def question(self, arrays: Arrays, config: Config) -> PollQuestion:
        pool = (self.settings.public_size,)
        if [array.shape for array in arrays] != [pool, pool]:
            raise Refusal("request", "a request must hold a cell and a distance for each public record")
        cells, reach = arrays
        if cells.dtype.kind not in "iu" or cells.min() < 0 or cells.max() >= self.settings.cell_count:
            raise Refusal("request", f"cells must be integers from 0 to {self.settings.cell_count - 1}")
        if reach.dtype.kind != "f" or not np.isfinite(reach).all() or reach.min() < 0:
            raise Refusal("request", "distances must be finite numbers from 0 on")
        return PollQuestion(cells.astype(np.int64), reach.astype(np.float64))

    def exact(self, question: PollQuestion) -> dict[str, npt.NDArray[np.int64]]:
        """Counts (B + 1 + 2 C,): by cell, and far from all; near by class, and far by class."""
        own, most = self.workspace.private(), self.settings.records
        extractor, pool = public_view(self.settings, self.data, self.workspace.device)
        cells, far = place(extractor.total(own.x[:most]), pool, question.cells, question.reach)
        labels = one_class(own.y[:most], self.classes)
        count, steps = self.settings.cell_count, self.settings.steps
        lists = (
            np.bincount(np.where(far, count, cells), minlength=count + 1),
            np.bincount(labels + self.classes * far, minlength=2 * self.classes),
        )
        return {PART[self.settings.unit]: np.concatenate([scaled(one, steps) if steps else one for one in lists])}

    def blank(self, question: PollQuestion) -> dict[str, npt.NDArray[np.int64]]:
        return {PART[self.settings.unit]: np.zeros(self.form().shape, dtype=np.int64)}


def one_class(y: npt.NDArray[np.integer], classes: int) -> npt.NDArray[np.int64]:
    """One class (n,) of each record, a function of that record alone: of several labels the first, of none the last."""
    if y.ndim == 1:
        return np.asarray(np.clip(y, 0, classes - 1), dtype=np.int64)
    positive = y == 1
    return np.asarray(np.where(positive.any(axis=1), positive.argmax(axis=1), classes - 1), dtype=np.int64)


def scaled(counts: npt.NDArray[np.integer], steps: int) -> npt.NDArray[np.int64]:
    """Counts in proportion, as integers that add up to ``steps``; those that lose most by rounding get what is left."""
    total = int(counts.sum())
    out = counts.astype(np.int64) * steps
    rest, out = out % total, out // total
    out[np.argsort(-rest, kind="stable")[: steps - int(out.sum())]] += 1
    return out
