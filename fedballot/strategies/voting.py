"""The server's side of PATE-FL and Private-kNN-FL: ask for votes, add them up, learn from the tally.

Paper: "Voting-based approaches for differentially private federated learning", Algorithm 1, lines 3, 7 and 9, which are
lines 1, 7 and 9 of Algorithm 2.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.core.errors import DataError
from fedballot.core.metrics import share_right
from fedballot.core.seeds import Stream, generator
from fedballot.distillation.propagation import argmax_labels
from fedballot.distillation.students import probabilities, train_student
from fedballot.learners.base import Learner
from fedballot.learners.extractors import make_extractor
from fedballot.learners.seen import seen_by
from fedballot.privacy.mechanisms.ballots import check_votes
from fedballot.privacy.mechanisms.weighted import WeightedVotes
from fedballot.settings.client_targets import of_client
from fedballot.settings.voting import FULL_VOTES, VotingSettings, ballot_codec, ballot_form, mechanism
from fedballot.strategies.base import Arrays
from fedballot.strategies.one_shot import Kept, Learned
from fedballot.strategies.summed import SummedStrategy
from fedballot.wire.packing import WireError
from fedballot.wire.secagg import Form


class VotingStrategy(SummedStrategy[VotingSettings]):
    """One round: the queries go out, noisy votes come back, the server trains its student on their sum."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        settings, data = self.settings, self.data
        shape = data.public_x.shape[1:]
        self.graph = make_extractor(
            settings.graph_features, input_shape=shape, components=settings.components, device=self.device
        )
        self.seen = seen_by(settings.server_features, data, settings.components, self.device)
        order = generator(settings.seed, Stream.QUERIES).permutation(settings.public_size)
        self.queries = np.sort(order[: settings.query_count])

    @property
    def form(self) -> Form:
        return ballot_form(self.settings, len(self.data.classes))

    def request(self, server_round: int) -> Arrays:
        return [self.queries.astype(np.int32)]

    def read(self, arrays: Arrays) -> npt.NDArray[np.int32]:
        settings = self.settings
        votes = ballot_codec(settings, len(self.data.classes)).read(arrays)
        if mechanism(settings) is None:  # noise would hide what is too much
            try:
                check_votes(votes, len(self.queries), settings.max_votes, settings.votes_per_query)
            except DataError as error:
                raise WireError("range", str(error)) from error
        return votes

    def keep_sum(self, total: npt.NDArray[np.int64], clients: Collection[int]) -> Kept:
        """The sum, and where votes are weighed the weights of those that answered, in full votes."""
        kept, full = super().keep_sum(total, clients), mechanism(self.settings)
        return {**kept, "weights": self._weights(sorted(clients))} if isinstance(full, WeightedVotes) else kept

    def _weights(self, clients: Collection[int]) -> npt.NDArray[np.float64]:
        """What a vote of each of these clients counts, in full votes."""
        full = mechanism(self.settings)
        if full is None:
            return np.ones(len(clients))
        return np.array([of_client(self.settings, full, one).swaps("client") / full.ballot for one in clients])

    def learn(self, kept: Kept) -> Learned:
        return self.learn_from_sum(kept["total"], int(kept["arrived"]), kept.get("weights"))

    def learn_from_sum(
        self, total: npt.NDArray[np.int64], arrived: int, weights: npt.NDArray[np.float64] | None = None
    ) -> Learned:
        """Label the pool from the tally (Q, C), and train the student (line 9).

        ``weights`` (arrived,) are those of the ballots in full votes; None: nobody knows whose they are, so as of all.
        """
        settings, data, queries = self.settings, self.data, self.queries
        weights = self._weights(range(settings.clients)) if weights is None else weights
        pool, test = self.seen.public_x, self.seen.test_x
        tally, sigma, cast, off, warnings = self._turnout(total, arrived, arrived * float(weights.mean()))
        students, labelled = train_student(
            partial(self._new_student, pool.shape[1:]),
            np.asarray(pool),
            tally,
            queries,
            self_train=settings.student == "self-train",
            passes=settings.passes,
            graph=None if settings.student == "argmax" else self.graph.fit(data.public_x).transform(data.public_x),
            neighbours=settings.neighbours,
            spread=settings.spread,
            sigma=sigma,
            # of counts of neighbours nobody abstains, and far ones count as well
            complete=settings.votes_per_query is None and cast - off > FULL_VOTES,
            progress=self.steps("server: student", settings.server_epochs, settings.passes),
        )
        winners, margins = argmax_labels(tally.astype(np.float64))
        truth, on_queries = np.asarray(data.public_y), np.searchsorted(labelled.rows, queries)
        right = share_right(labelled.labels, truth[labelled.rows])
        return Learned(
            scores=probabilities(students, test),
            models=students,
            release={
                "query_indices": queries,
                "histogram": tally,
                "labels": labelled.labels[on_queries],
                "noisy_labels": winners,
                "margins": margins if labelled.confidence is None else labelled.confidence[on_queries],
                "true_labels": truth[queries],
            },
            rows=queries,
            metrics={
                "label_accuracy": right,
                "noisy_label_accuracy": share_right(winners, truth[queries]),
                "released_noise_sigma": sigma,
                "votes_cast_share": cast,
                **({"vote_weight": float(np.sum(weights**2) / weights.sum())} if weights.min() < 1 else {}),
            },
            round_metrics={"label_accuracy": right},
            warnings=warnings,
        )

    def _turnout(
        self, total: npt.NDArray[np.int64], arrived: int, weight: float
    ) -> tuple[npt.NDArray[Any], float, float, float, list[str]]:
        """The tally and the noise on each sum, in votes; the share of votes cast, how far noise moves it, warnings."""
        noisy, each = mechanism(self.settings), self.settings.votes_per_query or 1
        steps = noisy.ballot // each if noisy else 1  # to a vote; more than one where votes are weighed
        tally = total if steps == 1 else total / steps
        full = weight * len(self.queries) * each
        sigma = float((noisy.share_sigma if noisy else 0.0) * np.sqrt(arrived)) / steps
        cast = float(tally.sum() / full)
        off = 4 * sigma * math.sqrt(total.size) / full
        warning = self.settings.turnout_warning(cast, off)
        return tally, sigma, cast, off, [warning] if warning else []

    def _new_student(self, input_shape: tuple[int, ...], number: int) -> Learner:
        return self.new_student(input_shape, number)
