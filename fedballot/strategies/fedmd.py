"""The server's side of FedMD: draw public records, average what the clients predict on them, send it back.

Paper: "Federated model distillation with noise-free differential privacy", Algorithm 1, lines 9, 11 and 22.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fedballot.clients.fedmd import answer_codec, consensus_codec
from fedballot.core.errors import SettingsError
from fedballot.core.files import write_arrays
from fedballot.core.folders import RunFolder
from fedballot.core.seeds import Stream, generator
from fedballot.datasets.own import SITES
from fedballot.distillation.aggregation import WeightedMean, confidence, to_simplex
from fedballot.privacy.ledger.samples import SAMPLE
from fedballot.privacy.mechanism import Facts
from fedballot.privacy.mechanisms.nfdp import NfdpSample
from fedballot.settings.fedmd import ConsensusSettings, LdpSettings, NfdpSettings
from fedballot.settings.robust import RobustAggregation
from fedballot.strategies.base import Answer, Arrays, BallotStrategy
from fedballot.strategies.folds import Fold
from fedballot.strategies.robust import combined
from fedballot.wire.codec import Singles

S = TypeVar("S", bound=ConsensusSettings)
SHOWN = 64  # public images kept for the report


class FedmdStrategy(BallotStrategy[S], Generic[S]):
    """First predictions, then R rounds; each sends the last consensus with its public records, and the next ones."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.rounds = self.settings.rounds + 1
        self.consensus: npt.NDArray[np.float64] | None = None
        if self.settings.weights == "size" and self.settings.dataset == SITES:
            raise SettingsError("weights=size needs sizes that are public, but sites keep theirs: set weights=equal")
        if self.settings.pretrain_epochs and (self.data.public_y < 0).all():
            raise SettingsError(
                f"pretrain_epochs={self.settings.pretrain_epochs} learns the labels of public records, and they have "
                "none of these classes (public_labels=ignored): set pretrain_epochs=0"
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (Q, C) of an answer."""
        return self.settings.query_count, len(self.data.classes)

    def queries(self, server_round: int) -> npt.NDArray[np.int64]:
        """Public records of a round, sorted (line 11)."""
        order = generator(self.settings.seed, Stream.ROUND_QUERIES, server_round).permutation(self.settings.public_size)
        return np.sort(order[: self.settings.query_count])

    def request(self, server_round: int) -> Arrays:
        asked = self.queries(server_round).astype(np.int32)
        if self.consensus is None:
            return [asked]
        former = self.agreed_on(server_round - 1).astype(np.int32)
        return [asked, former, *consensus_codec(self.settings, self.shape).pack(self.consensus)]

    def agreed_on(self, server_round: int) -> npt.NDArray[np.int64]:
        """Public records that the consensus of the round just done is about: all that were asked about."""
        return self.queries(server_round)

    def read(self, arrays: Arrays) -> npt.NDArray[Any]:
        return answer_codec(self.settings, self.shape).read(arrays)

    def fold(self, server_round: int) -> Fold[dict[str, Any]]:
        return self.averaging().then(partial(self.agree, server_round))

    def combine(self, server_round: int, answers: Sequence[Answer]) -> dict[str, Any]:
        return self.fold(server_round).of(answers)

    def agree(self, server_round: int, consensus: npt.NDArray[np.float64]) -> dict[str, Any]:
        """Go on with this consensus (Q, C); returns the round's metrics."""
        self.consensus = consensus
        if not self.same_task:
            return {}
        truth = np.asarray(self.data.public_y[self.agreed_on(server_round)])
        return {"consensus_accuracy": float(np.mean(self.consensus.argmax(axis=1) == truth))}

    @property
    def same_task(self) -> bool:
        """Whether the public records are of the classes that are tested, so that their labels measure the consensus."""
        return bool(np.isin(np.unique(self.data.test_y), np.unique(self.data.public_y)).all())

    def averaging(self) -> Fold[npt.NDArray[np.float64]]:
        """The consensus (Q, C) of a round's answers (lines 9 and 22)."""
        settings = self.settings
        if isinstance(settings, RobustAggregation) and settings.robust:
            robust = self.everyone().then(partial(combined, settings))
            return robust if settings.share == "logits" else robust.then(to_simplex)
        mean = WeightedMean(self.shape)
        return Fold(lambda answer: mean.add(answer.ballot, self._weight(answer)), mean.value)

    def _weight(self, answer: Answer) -> float | npt.NDArray[np.floating]:
        """Of an answer, or of each of its queries (Q,)."""
        settings = self.settings
        if settings.weights == "size":
            return float(self.data.parts[answer.client_id].size)
        if settings.weights == "confidence":
            return confidence(answer.ballot, logits=settings.share == "logits")
        return 1.0

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        return {} if self.consensus is None else {"consensus": self.consensus}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self.consensus = state["consensus"]

    def outcome(self) -> Mapping[str, Any]:
        return {
            "metrics": {"label_accuracy": self.round_records[-1]["metrics"].get("consensus_accuracy")},
            "distill_s": 0.0,
        }

    def save(self, folder: RunFolder) -> None:
        """Keep the last consensus, with the public records that it is about."""
        if self.consensus is None:
            return
        rows = self.agreed_on(self.rounds)
        release: dict[str, npt.NDArray[Any]] = {
            "query_indices": rows,
            "consensus": self.consensus,
            "labels": self.consensus.argmax(axis=1),
        }
        if self.same_task:
            release["true_labels"] = np.asarray(self.data.public_y[rows])
        if self.data.public_x.ndim >= 3:
            release["images"] = np.asarray(self.data.public_x[rows[:SHOWN]])
            release["image_rows"] = np.arange(len(rows[:SHOWN]))
        write_arrays(folder.release, release)


class NfdpStrategy(FedmdStrategy[NfdpSettings]):
    """FedMD-NFDP's server: the same, with the guarantee of the clients' samples."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.sample.delta < 1:
            raise SettingsError(
                f"k={self.sample.k} takes every one of a client's {self.sample.n} records, which protects none of "
                "them: set a smaller k, or run fedmd"
            )

    @property
    def sample(self) -> NfdpSample:
        """The sample of the smallest client, whose records run the largest risk."""
        return self.settings.sample(self.facts().records)

    def facts(self, client_id: int | None = None) -> Facts:
        facts = super().facts(client_id)
        if client_id is not None:
            return facts
        return replace(facts, records=min((part.size for part in self.data.parts if part.size), default=1))

    def charged_as(self, server_round: int) -> str:
        """All rounds rest on one sample."""
        return SAMPLE


class LdpStrategy(FedmdStrategy[LdpSettings]):
    """FedMD-LDP's server: averages noisy predictions, and brings the average back to probabilities."""

    def read(self, arrays: Arrays) -> npt.NDArray[np.float32]:
        return Singles(self.shape).read(arrays)

    def averaging(self) -> Fold[npt.NDArray[np.float64]]:
        mean = super().averaging()
        return mean if self.settings.share == "logits" else mean.then(to_simplex)
