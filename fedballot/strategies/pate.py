"""The server's side of PATE-FL and Private-kNN-FL: ask for votes, add them up, learn from the tally.

Paper: "Voting-based approaches for differentially private federated learning", Algorithm 1, lines 3, 7 and 9, which are
lines 1, 7 and 9 of Algorithm 2.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.core.files import write_arrays
from fedballot.core.folders import RunFolder
from fedballot.core.metrics import accuracy, accuracy_per_class, confusion_matrix
from fedballot.datasets.federation import FederatedData
from fedballot.distillation.aggregation import votes_of
from fedballot.distillation.propagation import argmax_labels
from fedballot.distillation.students import predict, train_student
from fedballot.learners.base import Learner
from fedballot.learners.extractors import Extractor, make_extractor
from fedballot.learners.registry import make_learner
from fedballot.privacy.guarantee import TRUSTED_AGGREGATOR, Guarantee
from fedballot.privacy.ledger.ledger import Costs
from fedballot.settings.voting import VotingSettings, ballot_form, mechanism
from fedballot.strategies.base import Arrays, one_array
from fedballot.strategies.summed import SummedStrategy
from fedballot.wire.packing import unpack_integers, unpack_labels
from fedballot.wire.secagg import Form

SHOWN = 64  # public images kept for the report


class PateStrategy(SummedStrategy[VotingSettings]):
    """One round: the queries go out, noisy votes come back, the server trains its student on their sum."""

    def __init__(self, *args: Any, data: FederatedData, device: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        settings = self.settings
        self.data, self.device = data, device
        self.mechanism = mechanism(settings)
        made = partial(
            make_extractor, input_shape=data.public_x.shape[1:], components=settings.components, device=device
        )
        self.graph = made(settings.graph_features)
        self.view: Extractor | None = None
        if settings.server_features:
            self.view = made(settings.server_features).fit(data.public_x)
        order = np.random.default_rng([settings.seed, 1]).permutation(settings.public_size)
        self.queries = np.sort(order[: settings.query_count])
        self.histogram: npt.NDArray[np.int64] | None = None
        self._contributors = 0
        self.learners: list[Learner] = []
        self._outcome: dict[str, Any] = {}
        self._release: dict[str, npt.NDArray[Any]] = {}

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (Q, C) of a ballot."""
        return len(self.queries), len(self.data.classes)

    @property
    def form(self) -> Form:
        return ballot_form(self.settings, self.shape[1])

    def request(self, server_round: int) -> Arrays:
        return [self.queries.astype(np.int32)]

    def read(self, arrays: Arrays) -> npt.NDArray[np.int32]:
        array, (n_queries, n_classes) = one_array(arrays), self.shape
        if self.mechanism is None and self.settings.votes_per_query is None:
            return votes_of(unpack_labels(array, n_queries, n_classes + 1), n_classes)
        return unpack_integers(array, self.shape)

    def combine_sum(self, server_round: int, total: npt.NDArray[np.int64], contributors: int) -> dict[str, Any]:
        clock = time.perf_counter()
        self.histogram, self._contributors = total, contributors
        histogram = total
        settings, data = self.settings, self.data
        self.progress.start("server: student", settings.server_epochs * settings.passes)
        done = 0

        def advance(epoch: int, epochs: int) -> None:
            nonlocal done
            self.progress.advance(1)
            done += 1

        pool, test = (self.view.transform(x) if self.view else x for x in (data.public_x, data.test_x))
        learners, known = train_student(
            partial(self._new_student, pool.shape[1:]),
            np.asarray(pool),
            histogram,
            self.queries,
            self_train=settings.student == "self-train",
            passes=settings.passes,
            graph=None if settings.student == "argmax" else self.graph.fit(data.public_x).transform(data.public_x),
            neighbours=settings.neighbours,
            spread=settings.spread,
            progress=advance,
        )
        self.learners = learners
        matrix = confusion_matrix(data.test_y, predict(learners, test), self.shape[1])
        noisy, margins = argmax_labels(histogram.astype(np.float64))
        truth = np.asarray(data.public_y)
        on_queries = np.searchsorted(known.rows, self.queries)
        released = known.labels[on_queries]
        share = self.mechanism.share_sigma if self.mechanism else 0.0
        full = contributors * len(self.queries) * (settings.votes_per_query or 1)
        sigma = float(share * np.sqrt(contributors))
        cast = float(histogram.sum() / full)  # noisy, like the sums it comes from
        warning = settings.turnout_warning(cast, 4 * sigma * math.sqrt(histogram.size) / full)
        self._release = {
            "query_indices": self.queries,
            "histogram": histogram,
            "labels": released,
            "noisy_labels": noisy,
            "margins": margins if known.confidence is None else known.confidence[on_queries],
            "true_labels": truth[self.queries],
            "images": np.asarray(data.public_x[self.queries[:SHOWN]]),
            "image_rows": np.arange(min(SHOWN, len(self.queries))),
        }
        if data.public_x.ndim < 3:
            del self._release["images"], self._release["image_rows"]
        self._outcome = {
            "metrics": {
                "server_accuracy": accuracy(matrix),
                "server_accuracy_per_class": accuracy_per_class(matrix),
                "label_accuracy": float(np.mean(known.labels == truth[known.rows])),
                "noisy_label_accuracy": float(np.mean(noisy == truth[self.queries])),
                "released_noise_sigma": sigma,
                "votes_cast_share": cast,
            },
            "warnings": [warning] if warning else [],
            "distill_s": time.perf_counter() - clock,
        }
        return {"label_accuracy": self._outcome["metrics"]["label_accuracy"]}

    def _new_student(self, input_shape: tuple[int, ...], index: int) -> Learner:
        settings = self.settings
        return make_learner(
            settings.server_model,
            n_classes=self.shape[1],
            input_shape=input_shape,
            seed=int(np.random.SeedSequence([settings.seed, 2, index]).generate_state(1)[0]),
            device=self.device,
            epochs=settings.server_epochs,
            batch_size=settings.server_batch_size,
            lr=settings.server_lr,
            role="student",
        )

    def charge(self, client_id: int) -> Costs | None:
        return {"votes": self.mechanism.cost(self.settings.unit)} if self.mechanism else None

    def guarantees(self) -> list[Guarantee]:
        """Of the last round's sum; the target's comes first."""
        settings, contributors = self.settings, self._contributors
        if self.mechanism is None:
            return [
                Guarantee(
                    mechanism="votes without noise",
                    unit="client",
                    adjacency="zero-out",
                    epsilon=float("inf"),
                    delta=settings.delta,
                    view="output only",
                    trust=TRUSTED_AGGREGATOR,
                    status="none",
                    accountant="none",
                    n=settings.clients,
                )
            ]
        stated = self.mechanism.guarantees(
            settings.delta,
            secure=settings.secure_aggregation,
            arrived=contributors if settings.secure_aggregation else None,
            seeded=settings.noise_seed is not None,
            clients=settings.clients,
            records=self.data.records,
            largest=self.data.largest,
        )
        aimed = next(guarantee for guarantee in stated if guarantee.unit == settings.unit)
        return [aimed, *(guarantee for guarantee in stated if guarantee is not aimed)]  # reports lead with the target

    def outcome(self) -> Mapping[str, Any]:
        return self._outcome

    def save(self, folder: RunFolder) -> None:
        """Keep the tally with its labels, and the server's model."""
        write_arrays(folder.release, self._release)
        for index, learner in enumerate(self.learners):
            learner.save(folder.path / f"server-model-{index}")
