"""The server's side of a poll: part the pool into cells, ask who is near, and say whether the pool fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.clients.poll import public_view
from fedballot.core.seeds import Stream, seed_of
from fedballot.datasets.schema.prepare import feature_names
from fedballot.distillation.pool_fit import PoolFit, advice, pool_fit
from fedballot.learners.cover import FAR, Cover, cover, likeness
from fedballot.settings.poll import PollSettings, histogram, poll_form
from fedballot.strategies.base import Arrays
from fedballot.strategies.one_shot import Learned
from fedballot.strategies.summed import SummedStrategy
from fedballot.wire.secagg import Form


class PollStrategy(SummedStrategy[PollSettings]):
    """One round; nothing is trained."""

    @cached_property
    def cover(self) -> Cover:
        """Cells and reach of the pool."""
        _, features = public_view(self.settings, self.data, self.device)
        return cover(features, self.settings.cell_count, seed_of(self.settings.seed, Stream.CELLS))

    @property
    def form(self) -> Form:
        return poll_form(self.settings, len(self.data.classes))

    def request(self, server_round: int) -> Arrays:
        return [self.cover.cells, self.cover.reach]

    def learn_from_sum(self, total: npt.NDArray[np.int64], arrived: int) -> Learned:
        """Say how the pool fits; all from the sum (B + 1 + 2 C,)."""
        settings, cells = self.settings, self.settings.cell_count
        unit, sigma = settings.steps or 1, histogram(settings, len(self.data.classes)).share_sigma * math.sqrt(arrived)
        fit = pool_fit(total / unit, sigma / unit, np.bincount(self.cover.cells, minlength=cells), FAR)
        who = "an average client's records" if settings.steps else "the clients' records"
        rows, likes = self.cover.examples[self.cover.examples >= 0], self.likes()
        return Learned(
            scores=None,
            release={"query_indices": rows, "tally": total, "pool_cells": self.cover.cells},
            rows=rows,
            metrics={
                "poll": {
                    **described(fit, self.cover, likes),
                    "advice": advice(fit, self.data.classes, who, likes),
                }
            },
        )

    def likes(self) -> list[str]:
        """What records of each cell are like, in words; empty texts for images, which a picture shows."""
        data, count = self.data, self.settings.cell_count
        if data.public_x.ndim > 2:
            return [""] * count
        names = [f"feature {number}" for number in range(1, data.public_x.shape[1] + 1)]
        if data.schema is not None and data.preparation is not None:
            names = feature_names(data.schema, data.preparation)
        return likeness(data.public_x, self.cover.cells, count, names)


def described(fit: PoolFit, pool: Cover, likes: Sequence[str]) -> dict[str, Any]:
    """The result of a poll as plain values, see ``docs/result.md``."""
    out = asdict(fit)
    for cell, row, like in zip(out["cells"], pool.examples.tolist(), likes, strict=True):
        cell |= {"row": row if row >= 0 else None, "like": like}
    return {**out, "cells": list(out["cells"]), "classes": list(out["classes"]), "far_classes": fit.far_classes}
