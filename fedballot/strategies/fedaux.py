"""The server's side of FedAUXfdp and its baselines: pretrain and send the extractor, weigh what comes back, distil.

Paper: "FedAUXfdp: Differentially private one-shot federated distillation", equation 1 and section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from fedballot.clients.class_sums import class_axes
from fedballot.clients.frozen import PublicFeatures, public_features
from fedballot.clients.private_heads import head_codec
from fedballot.core.files import write_arrays
from fedballot.core.folders import RunFolder
from fedballot.core.metrics import share_right
from fedballot.datasets.embedding import Embedding, Space, fit_embedding, fit_landmarks
from fedballot.datasets.federation import FederatedData
from fedballot.distillation.aggregation import WeightedMean
from fedballot.distillation.certainty import certainty, discriminants, pooled, score, soft_labels
from fedballot.distillation.students import probabilities
from fedballot.learners.base import Learner
from fedballot.learners.tryout import try_as
from fedballot.privacy.guarantee import Guarantee
from fedballot.privacy.mechanism import Facts
from fedballot.privacy.mechanisms.heads import prepare
from fedballot.settings.class_sums import ClassSumSettings, sums_mechanism
from fedballot.settings.fedaux import FedauxfdpSettings, FedauxFSettings
from fedballot.settings.heads import STUDENT_FEATURES, DistilledHeadSettings, FrozenSettings, FrozenStudent
from fedballot.strategies.base import Answer, Arrays
from fedballot.strategies.folds import Fold
from fedballot.strategies.one_shot import Kept, Learned, OneShotStrategy, measured

H = TypeVar("H", bound=FrozenSettings)
S = TypeVar("S", bound=FrozenStudent)
D = TypeVar("D", bound=DistilledHeadSettings)
A = TypeVar("A", bound=ClassSumSettings)
Floats = npt.NDArray[np.float64]

SCORE_FLOOR = 1e-3  # lowest certainty that counts: one that rounds to 0 everywhere would leave a record without a vote
NOMINAL = 1000  # records for which costs are stated where clients keep their numbers: costs hardly depend on them


class FrozenStrategy(OneShotStrategy[H], Generic[H]):
    """One round on frozen features; a subclass says how answers are read and what the server learns."""

    @cached_property
    def public(self) -> PublicFeatures:
        """The public pool's features; a contrastive extractor is trained here, at the server."""
        return public_features(self.settings, self.data, self.device)

    @property
    def classes(self) -> int:
        """Size of the global label set, C."""
        return len(self.data.classes)

    @property
    def width(self) -> int:
        """Features of a head, the constant included, p."""
        return int(self.public.features.shape[1]) + 1

    def request(self, server_round: int) -> Arrays:
        """The weights of the extractor, where the server has trained one."""
        network = self.public.extractor.network
        return [] if network is None else [network]

    def prepared(self, features: npt.NDArray[np.float32]) -> Floats:
        """Features (n, p - 1) as heads take them (n, p)."""
        return prepare(features, self.public.bound)

    def test_features(self) -> npt.NDArray[np.float32]:
        """Features of the test records."""
        return self.public.extractor.transform(np.asarray(self.data.test_x))

    def facts(self, client_id: int | None = None) -> Facts:
        """Of all clients: costs for the mean number of records, as solving for epsilon levels it out."""
        facts = super().facts(client_id)
        told = facts_of_heads(facts, self.data, self.public)
        return told if client_id is None else replace(told, records=facts.records)


def facts_of_heads(facts: Facts, data: FederatedData, public: PublicFeatures) -> Facts:
    """The facts with what heads on frozen features depend on, for the mean number of records."""
    mean = round((data.records or 0) / len(data.parts)) or NOMINAL
    return replace(facts, records=mean, features=public.features.shape[1], negatives=len(public.auxiliary))


class DistillingStrategy(FrozenStrategy[S], Generic[S]):
    """Soft labels of public records, from whatever came back, and students that learn them."""

    def ready(self) -> list[Guarantee]:
        """As always, once a student of features has been tried on them."""
        if self.settings.student_reads == "features":
            seen = self.space.transform(self.public.features[self.public.distil])
            instead = "" if self.rounds_done else "student_reads=records"  # which a run that is taken up keeps
            try_as("server_model", self.settings.server_model, seen, self.data, instead=instead)
        return super().ready()

    @cached_property
    def space(self) -> Space:
        """What the student sees of frozen features: their principal components."""
        most = min(STUDENT_FEATURES, self.public.features.shape[1], len(self.public.features) - 1)
        return Space.plain(fit_embedding(self.public.features, most))

    def seen(self) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
        """What a student reads of the records that are distilled on (Q, ...), and of the test records (n, ...)."""
        rows = self.public.distil
        if self.settings.student_reads == "records":
            return np.asarray(self.data.public_x[rows]), np.asarray(self.data.test_x)
        return self.space.transform(self.public.features[rows]), self.space.transform(self.test_features())

    def distill(self, soft: Floats) -> Learned:
        """Students of soft labels (Q, C), each after the first of those of the one before, and their average."""
        rows = self.public.distil
        labels, truth = soft.argmax(axis=1), np.asarray(self.data.public_y[rows])
        inputs, test = self.seen()
        taught, students = soft, list[Learner]()
        progress = self.steps("server: student", self.settings.server_epochs, self.settings.students)
        for number in range(self.settings.students):
            if students:
                taught = probabilities(students[-1:], inputs)
            student = self.new_student(inputs.shape[1:], number)
            students.append(student.distill(inputs, taught.astype(np.float32), progress=progress))
        scores = probabilities(students, test)
        right = {"label_accuracy": share_right(labels, truth)}
        return Learned(
            scores,
            models=students,
            release={
                "query_indices": rows,
                "soft_labels": soft.astype(np.float32),
                "labels": labels,
                "true_labels": truth,
            },
            rows=rows,
            metrics=right,
            round_metrics=accuracy_of(self.data, scores) | right,
        )

    def save(self, folder: RunFolder) -> None:
        """As always, and beside a student of features what it takes a record's features for."""
        super().save(folder)
        if self.learned is not None and self.learned.models and self.settings.student_reads == "features":
            network = self.public.extractor.network
            write_arrays(folder.space, {**self.space.arrays(), **({} if network is None else {"network": network})})


class EnsembleStrategy(DistillingStrategy[D], Generic[D]):
    """FedD+P and FedAUX: soft labels of the public records from all heads, and a student that learns them."""

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of what a client tells."""
        rows = self.width if self.settings.sends == "heads" else len(self.public.distil)
        if self.settings.sends == "heads":
            return [(self.classes, rows), *([(rows,)] if self.settings.with_scores else [])]
        return [(rows, self.classes), *([(rows,)] if self.settings.with_scores else [])]

    def read(self, arrays: Arrays) -> npt.NDArray[Any]:
        """Logits of the public records (Q, C), and after them the certainty of each (Q, 1)."""
        first, *certain = head_codec(self.settings, self.shapes).read(arrays)
        logits: npt.NDArray[np.floating] = first
        weights: npt.NDArray[np.floating] = certain[0] if certain else np.ones(len(self.public.distil))
        if self.settings.sends == "heads":
            x = self._distil_rows
            logits = x @ first.T
            weights = score(x, certain[0]) if certain else weights
        return np.column_stack([logits, np.maximum(weights, SCORE_FLOOR)])

    @cached_property
    def _distil_rows(self) -> Floats:
        return self.prepared(self.public.features[self.public.distil])

    def keeping(self) -> Fold[Kept]:
        return self.ensemble().then(lambda soft: {"soft_labels": soft})

    def keep(self, answers: Sequence[Answer]) -> Kept:
        return self.keeping().of(answers)

    def ensemble(self) -> Fold[Floats]:
        """Soft labels (Q, C): sum_i f_i(x) g_i(x) / sum_i f_i(x), on probabilities or logits (equation 1)."""
        on_logits = self.settings.weighting == "logits"
        mean = WeightedMean((len(self.public.distil), self.classes))

        def add(answer: Answer) -> None:
            logits = answer.ballot[:, :-1].astype(np.float64)
            mean.add(logits if on_logits else softmax(logits, axis=1), answer.ballot[:, -1])

        return Fold(add, lambda: np.asarray(softmax(mean.value(), axis=1)) if on_logits else mean.value())

    def learn(self, kept: Kept) -> Learned:
        return self.distill(kept["soft_labels"])


def accuracy_of(data: FederatedData, scores: npt.NDArray[np.floating]) -> dict[str, float]:
    """The server's accuracy, for the round's own record."""
    return {"server_accuracy": measured(data, scores)["server_accuracy"]}


class FedauxFStrategy(EnsembleStrategy[FedauxFSettings]):
    """FedAUX with a frozen extractor: private scores weigh predictions that have no noise."""

    def ready(self) -> list[Guarantee]:
        """As always, once the clients' learners have been tried on the features."""
        for name in dict.fromkeys(self.settings.client_models):
            try_as("client_models", name, self._distil_rows.astype(np.float32), self.data)
        return super().ready()


class SumsStrategy(DistillingStrategy[A], Generic[A]):
    """Certainty-weighted distillation from class sums."""

    @cached_property
    def embedding(self) -> Embedding:
        """Where the class sums are told."""
        axes = class_axes(self.settings, self.data, self.public)
        if not self.settings.with_landmarks:
            return axes
        found = fit_landmarks(axes, self.public.features, self.settings.coordinates, self.settings.seed)
        return replace(axes, landmarks=found)

    def request(self, server_round: int) -> Arrays:
        """The extractor's weights as far as the server has trained them, and the landmarks of the class sums."""
        landmarks = None if self.settings.logistic else self.embedding.landmarks
        return [*super().request(server_round), *([] if landmarks is None else [landmarks])]

    @cached_property
    def space(self) -> Space:
        """That of the sums, in which the soft labels are linear, centred, with variances near 1.

        But for components that FedAUXfdp has planned by the noise, which may be few: a student sees more of them.
        """
        if self.settings.logistic or not (self.settings.with_landmarks or self.settings.dimension):
            return super().space
        centre = self.embedding.transform(self.public.features).mean(axis=0)
        return Space(self.embedding, centre, float(np.sqrt(self.embedding.dimension)))

    def weighed(self, told: Floats, count_variance: float, variance: float) -> Floats:
        """Soft labels from counts and sums (K, C, 1 + d) and the variances of their noise."""
        weights = certainty(told[:, :, 0], count_variance)
        means, variances = pooled(told[:, :, 1:], weights, variance)
        embedded = self.embedding.transform(self.public.features)
        covariance = np.cov(embedded.T.astype(np.float64))
        return soft_labels(discriminants(embedded[self.public.distil], means, variances, np.atleast_2d(covariance)))

    def facts(self, client_id: int | None = None) -> Facts:
        facts = super().facts(client_id)
        return facts if self.settings.logistic else replace(facts, features=self.embedding.dimension)


class FedauxfdpStrategy(SumsStrategy[FedauxfdpSettings], EnsembleStrategy[FedauxfdpSettings]):
    """FedAUXfdp: certainty-weighted distillation from class sums, or from the paper's heads."""

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        if self.settings.logistic:
            return super().shapes
        return [(self.classes, 1 + self.embedding.dimension)]

    def read(self, arrays: Arrays) -> npt.NDArray[Any]:
        """With class sums: counts and sums (C, 1 + d)."""
        return (
            super().read(arrays) if self.settings.logistic else head_codec(self.settings, self.shapes).read(arrays)[0]
        )

    def ensemble(self) -> Fold[Floats]:
        """With class sums, which are small and wait for each other: what they say together."""
        return super().ensemble() if self.settings.logistic else self.everyone().then(self._of_sums)

    def _of_sums(self, answers: Sequence[Answer]) -> Floats:
        """Certainty, a matched filter over the clients, one head, and its soft labels."""
        noisy = sums_mechanism(self.settings, self.classes, self.embedding.dimension)
        told = np.stack([answer.ballot for answer in answers]).astype(np.float64)
        return self.weighed(told, noisy.count_variance if noisy else 0.0, noisy.variance if noisy else 0.0)
