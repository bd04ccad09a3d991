"""The server's side of FedKD: ask once, average the logits, distil them into its own model.

Paper: "Preserving privacy in federated learning with ensemble cross-domain knowledge distillation", Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax

from fedballot.clients.fedkd import KdAnswer
from fedballot.core.errors import SettingsError, named
from fedballot.core.metrics import auc_per_class, mean_of, share_right
from fedballot.core.seeds import Stream, generator
from fedballot.datasets.copies import check_images, public_copy
from fedballot.distillation.aggregation import class_weights
from fedballot.distillation.evenness import UNEVEN, shares, unevenness
from fedballot.distillation.pairwise import pairwise_consensus
from fedballot.distillation.propagation import half_borne_out, propagate
from fedballot.learners.base import Learner
from fedballot.learners.extractors import make_extractor
from fedballot.privacy.mechanisms.laplace import NoisyValues
from fedballot.privacy.noise.randomness import secret_noise
from fedballot.settings.fedkd import EnsembleSettings, FedkdDpSettings, FedkdSettings, ballot_form, mechanism
from fedballot.strategies.base import Answer, Arrays
from fedballot.strategies.one_shot import SERVER, Kept, Learned, OneShotStrategy
from fedballot.strategies.robust import combined
from fedballot.strategies.summed import SummedStrategy
from fedballot.wire.packing import pack_labels
from fedballot.wire.secagg import Form

S = TypeVar("S", bound=EnsembleSettings)
Floats = npt.NDArray[np.float64]
NO_GUARANTEE = (
    "FedKD as printed promises nothing: {told} leave each client as they are, and the server sees them before its "
    "noise of scale 1/gamma is added, which is too little for logits without a bound; fewer levels protect nobody. "
    "fedkd-dp is the variant with a proof."
)


class EnsembleStrategy(OneShotStrategy[S], Generic[S]):
    """One round: the queries go out, logits come back, the server learns from their average."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        check_images(self.data.public_x.shape[1:], self.settings.answers)
        if self.settings.student == "propagated" and self.data.multi_label:
            raise SettingsError(
                "student=propagated is for one label per record, these have several: set student=distilled"
            )
        order = generator(self.settings.seed, Stream.QUERIES).permutation(self.settings.public_size)
        self.queries = np.sort(order[: self.settings.record_count])
        self.graph = self._graph() if self.settings.student == "propagated" else None

    def _graph(self) -> npt.NDArray[np.float32]:
        """What the graph compares of each record asked about (records, d); made before anybody is asked."""
        settings, pool = self.settings, self.data.public_x
        with named("graph_features", settings.graph_features):
            extractor = make_extractor(
                settings.graph_features,
                input_shape=pool.shape[1:],
                components=settings.components,
                device=self.device,
            )
            return extractor.fit(pool).transform(pool[self.queries])

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (Q, C) of the logits, of one copy of all records after the other."""
        return self.settings.query_count, len(self.data.classes)

    def request(self, server_round: int) -> Arrays:
        return [self.queries.astype(np.int32)]

    def warnings(self) -> list[str]:
        """What a reader of the result has to know."""
        return []

    def learn_from(self, consensus: Floats) -> Learned:
        """Distil the ensemble's logits (Q, C), noise included."""
        data, rows, right, uneven = self.data, self.queries, None, list[str]()
        release: Kept = {"query_indices": rows, "consensus": consensus}
        if data.multi_label:
            learner = self.distill(consensus)
        else:
            logits, truth = self.per_record(consensus), np.asarray(data.public_y[rows])
            labels, uneven = self.labels(logits), self.uneven(logits)
            release |= {"labels": labels, **({"true_labels": truth} if (truth >= 0).all() else {})}
            right = share_right(labels, truth)
            learner = self.distill(consensus) if self.graph is None else self.learn_labels(consensus, labels)
        return Learned(
            scores=learner.predict_logits(data.test_x),
            models=[learner],
            release=release,
            rows=rows,
            metrics={
                "label_accuracy": right,
                "float64_bytes_up": 8 * consensus.size * self.counts.answered,
            },
            round_metrics=self.quality(consensus),
            warnings=[*self.warnings(), *uneven],
        )

    def uneven(self, logits: Floats) -> list[str]:
        """What to tell whoever lets neighbours decide where classes are not even, as far as the ensemble knows."""
        if self.graph is None:
            return []
        share = shares(logits.argmax(axis=1), len(self.data.classes))
        if unevenness(share) <= UNEVEN:
            return []
        most = int(share.argmax())
        return [
            "student=propagated takes classes to be about even in the public pool, but by the ensemble's answers "
            f"{100 * share[most]:.0f} % of it are {self.data.classes[most]}: the student may give records to classes "
            "that are rare there; compare student=distilled"
        ]

    def quality(self, consensus: Floats) -> dict[str, float | None]:
        """How good the ensemble's logits are, as far as the public records have labels."""
        truth, logits = self.data.public_y[self.queries], self.per_record(consensus)
        if self.data.multi_label:
            return {"consensus_auc": mean_of(auc_per_class(truth, logits))}
        return {"consensus_accuracy": share_right(logits.argmax(axis=1), truth)}

    def per_record(self, consensus: Floats) -> Floats:
        """Mean logits (records, C) of all answers (Q, C) about a record."""
        return np.asarray(consensus.reshape(self.settings.answers, len(self.queries), -1).mean(axis=0))

    def labels(self, logits: Floats) -> npt.NDArray[np.int64]:
        """Class of each record (records,): what its mean logits (records, C) say, or what its neighbours bear out."""
        if self.graph is None:
            return np.asarray(logits.argmax(axis=1))
        settings, said = self.settings, self.said(logits)
        return propagate(self.graph, said, neighbours=settings.neighbours, alpha=settings.spread)[0]

    def said(self, logits: Floats) -> Floats:
        """What goes over the graph of an ensemble's logits (records, C)."""
        return np.asarray(softmax(logits, axis=1))

    def learn_labels(self, consensus: Floats, labels: npt.NDArray[np.int64]) -> Learner:
        """The server's model, trained on what is said of each answer and on the labels (records,), half of each."""
        answers = consensus.reshape(self.settings.answers, len(labels), -1)
        soft = half_borne_out(answers, labels)
        return self._distilled(soft.reshape(consensus.shape))

    def distill(self, consensus: Floats) -> Learner:
        """The server's model, trained on the consensus (equation 7, or 5 and 6)."""
        loss, tau = self.settings.distill_loss, self.settings.temperature
        if loss != "kl":
            return self._distilled(consensus.astype(np.float32), loss=loss)
        if self.data.multi_label:
            return self._distilled(expit(consensus / tau).astype(np.float32), loss="binary", temperature=tau)
        return self._distilled(softmax(consensus / tau, axis=1).astype(np.float32), temperature=tau)

    def _distilled(self, targets: npt.NDArray[np.float32], **words: Any) -> Learner:
        """A model that learns a target (Q, C) for each answer."""
        settings, data = self.settings, self.data
        copies = (
            public_copy(data.public_x, self.queries, number, settings.seed, mirror=data.mirror)
            for number in range(settings.answers)
        )
        return self.new_student(data.public_x.shape[1:]).distill(
            np.concatenate(list(copies)),
            targets,
            progress=self.steps("server: distillation", settings.server_epochs),
            **words,
        )


class FedkdStrategy(EnsembleStrategy[FedkdSettings]):
    """FedKD as printed: weights from class counts, Laplace noise from the server."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        if self.settings.pairwise and self.data.multi_label:
            raise SettingsError("ensemble=pairwise is for one label per record, these have several: set ensemble=mean")

    def request(self, server_round: int) -> Arrays:
        """A bit for each public record, unless the rows themselves are shorter.

        No ledger keeps this request's digest, so another version may send another form; of fedkd-dp's request one does.
        """
        (rows,) = super().request(server_round)
        bits = pack_labels(np.isin(np.arange(self.settings.public_size), rows).astype(np.int64), 2)
        return [bits if bits.nbytes < rows.nbytes else rows]

    def read(self, arrays: Arrays) -> npt.NDArray[np.float32]:
        """Class counts in the first row, the logits of the queries in the others: (1 + Q, C)."""
        logits, counts = KdAnswer(self.shape, self.settings).read(arrays)
        return np.vstack([counts.astype(np.float32), logits])

    def keep(self, answers: Sequence[Answer]) -> Kept:
        return {"consensus": self.average(answers)}

    def learn(self, kept: Kept) -> Learned:
        return self.learn_from(kept["consensus"])

    def average(self, answers: Sequence[Answer]) -> Floats:
        """The weighted average (Q, C), or median, with noise that is drawn here, and never again (equation 2)."""
        settings = self.settings
        counts = np.array([answer.ballot[0] for answer in answers]).astype(np.int64)
        if settings.robust:
            total = combined(settings, answers, first=1)
        elif settings.pairwise:
            total = pairwise_consensus((answer.ballot[1:] for answer in answers), counts)
        else:
            total = np.zeros(self.shape)
            for answer, weight in zip(answers, class_weights(counts), strict=True):
                total += weight * answer.ballot[1:]
        if math.isinf(settings.gamma):
            return total
        noise = NoisyValues(1 / settings.gamma, 1 / settings.gamma, total.size)  # of its grid; no promise rests on it
        return noise.release(total, secret_noise(settings.noise_seed, SERVER))

    def warnings(self) -> list[str]:
        told = ["logits, to the nearest level"]
        told += [] if self.settings.logit_bound else ["the largest logit"]
        told += ["the exact number of records of each class"] if self.settings.weights == "class-counts" else []
        return [NO_GUARANTEE.format(told=" and ".join([", ".join(told[:-1]), told[-1]]) if told[1:] else told[0])]


class FedkdDpStrategy(SummedStrategy[FedkdDpSettings], EnsembleStrategy[FedkdDpSettings]):
    """The sound variant: only the noisy sum of clipped logits counts, and all clients weigh the same."""

    @property
    def form(self) -> Form:
        return ballot_form(self.settings, self.shape[1])

    def said(self, logits: Floats) -> Floats:
        """Noise and all, for neighbours average that out; a softmax would be sure of what noise alone says."""
        return logits

    def learn_from_sum(self, total: npt.NDArray[np.int64], arrived: int) -> Learned:
        grid = mechanism(self.settings, self.shape[1]).mechanism.grid
        return self.learn_from(np.asarray(total * (grid / arrived)))
