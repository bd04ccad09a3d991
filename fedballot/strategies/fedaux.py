"""The server's side of FedAUXfdp and its baselines: pretrain and send the extractor, weigh what comes back, distil.

Paper: "FedAUXfdp: Differentially private one-shot federated distillation", equation 1 and section 5.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from fedballot.clients.fedaux import class_axes
from fedballot.clients.frozen import PublicFeatures, new_extractor, public_features
from fedballot.clients.private_heads import unpack
from fedballot.core.files import write_arrays
from fedballot.core.folders import RunFolder
from fedballot.core.metrics import accuracy, accuracy_per_class, confusion_matrix
from fedballot.datasets.embedding import Embedding, fit_embedding, fit_landmarks
from fedballot.datasets.federation import FederatedData
from fedballot.distillation.aggregation import average_vectors, weighted_average
from fedballot.distillation.certainty import certainty, discriminants, pooled, score, soft_labels
from fedballot.learners.base import Learner
from fedballot.learners.registry import make_learner
from fedballot.privacy.accounting.costs import Cost
from fedballot.privacy.guarantee import SELF, Guarantee
from fedballot.privacy.ledger.ledger import Costs
from fedballot.privacy.mechanisms.heads import prepare
from fedballot.settings.fedaux import FedauxfdpSettings, FedauxFSettings, sums_mechanism
from fedballot.settings.heads import FeddSettings, HeadSettings, head_costs, together
from fedballot.strategies.base import Answer, Arrays, BallotStrategy

H = TypeVar("H", bound=HeadSettings)
D = TypeVar("D", bound=FeddSettings)
A = TypeVar("A", bound=FedauxfdpSettings)
Floats = npt.NDArray[np.float64]

STUDENT_FEATURES = 256  # principal components that the student sees
SCORE_FLOOR = 1e-3  # lowest certainty that counts: one that rounds to 0 everywhere would leave a record without a vote
NOMINAL = 1000  # records for which costs are stated where clients keep their numbers: costs hardly depend on them
SHOWN = 64  # public images kept for the report


class FrozenStrategy(BallotStrategy[H], Generic[H]):
    """One round on frozen features; a subclass says how answers are read and what the server learns."""

    def __init__(self, *args: Any, data: FederatedData, device: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.data, self.device = data, device
        new_extractor(self.settings, data, device)  # one that cannot work fails before clients are asked
        self._outcome: dict[str, Any] = {}
        self._release: dict[str, npt.NDArray[Any]] = {}
        self._student: Learner | None = None

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

    def charge(self, client_id: int) -> Costs | None:
        records, negatives = max(1, self.data.parts[client_id].size), len(self.public.auxiliary)
        return head_costs(self.settings, records, negatives, self.width, self.classes) or None

    def costs(self) -> list[Cost]:
        """What a client's releases cost, stated for the mean number of records: solving for epsilon levels it out."""
        records = round(sum(part.size for part in self.data.parts) / len(self.data.parts)) or NOMINAL
        return [*head_costs(self.settings, records, len(self.public.auxiliary), self.width, self.classes).values()]

    def guarantees(self) -> list[Guarantee]:
        """What the method promises; the first is the headline."""
        settings, costs = self.settings, self.costs()
        private = not math.isinf(settings.epsilon) and not (settings.with_scores and math.isinf(settings.score_target))
        epsilon, delta = together(settings, costs) if private else (math.inf, 0.0)
        proved = Guarantee(
            mechanism=self.mechanism_words(),
            unit="record",
            adjacency="replace-one",
            epsilon=epsilon,
            delta=delta,
            view="server's view",
            trust=SELF,
            status="none" if not private else "proved" if settings.noise_seed is None else "seeded",
            accountant="exact" if private else "none",
            n=self.data.largest,
            composition=f"{'one release' if len(costs) == 1 else f'{len(costs)} releases, composed'}; how many records "
            "a client holds is public, and extractor, clipping bound and dimension come from public data and numbers",
        )
        if not private or settings.mechanism != "paper":
            return [proved]
        targets = [settings.epsilon, *([settings.score_target] if settings.with_scores else [])]
        claim = Guarantee(
            **{
                **vars(proved),
                "epsilon": math.fsum(targets),
                "delta": settings.delta * len(targets),
                "status": "paper's claim" if settings.noise_seed is None else "seeded",
                "accountant": "Theorem 1 and the classical Gaussian, added up",
            }
        )
        return [claim, proved]

    def mechanism_words(self) -> str:
        """What is released, in words."""
        heads = "class and score head" if self.settings.with_scores else "class head"
        noise = "without class noise" if math.isinf(self.settings.epsilon) else "with Gaussian noise on the weights"
        return f"Logistic {heads} of each client {noise}"

    @abstractmethod
    def learn(self, answers: list[Answer]) -> dict[str, Any]:
        """Train on a round's answers; returns metrics, ``server_accuracy`` among them."""

    def combine(self, server_round: int, answers: list[Answer]) -> dict[str, Any]:
        clock = time.perf_counter()
        metrics = self.learn(answers)
        self._outcome = {
            "metrics": metrics,
            "distill_s": time.perf_counter() - clock,
        }
        return {key: value for key, value in metrics.items() if isinstance(value, float)}

    def measured(self, predicted: npt.NDArray[np.int64]) -> dict[str, Any]:
        """Metrics of predicted classes of the test records."""
        matrix = confusion_matrix(self.data.test_y, predicted, self.classes)
        return {"server_accuracy": accuracy(matrix), "server_accuracy_per_class": accuracy_per_class(matrix)}

    def outcome(self) -> Mapping[str, Any]:
        return self._outcome

    def save(self, folder: RunFolder) -> None:
        """Keep what was learned from, and the server's model."""
        write_arrays(folder.release, self._release)
        if self._student is not None:
            self._student.save(folder.path / "server-model-0")


class HeadAverageStrategy(FrozenStrategy[HeadSettings]):
    """FedAVG+P: the average of the clients' private heads is the server's head."""

    def read(self, arrays: Arrays) -> npt.NDArray[np.float32]:
        return unpack(arrays, [(self.classes, self.width)], self.settings)[0]

    def learn(self, answers: list[Answer]) -> dict[str, Any]:
        head = average_vectors((answer.ballot for answer in answers), [1.0] * len(answers))
        self._release = {"head": head}
        return self.measured((self.prepared(self.test_features()) @ head.T).argmax(axis=1))


class EnsembleStrategy(FrozenStrategy[D], Generic[D]):
    """FedD+P and FedAUX: soft labels of the public records from all heads, and a student that learns them."""

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of what a client tells."""
        rows = self.width if self.settings.told == "heads" else len(self.public.distil)
        if self.settings.told == "heads":
            return [(self.classes, rows), *([(rows,)] if self.settings.with_scores else [])]
        return [(rows, self.classes), *([(rows,)] if self.settings.with_scores else [])]

    def read(self, arrays: Arrays) -> npt.NDArray[Any]:
        """Logits of the public records (Q, C), and after them the certainty of each (Q, 1)."""
        first, *certain = unpack(arrays, self.shapes, self.settings)
        logits: npt.NDArray[np.floating] = first
        weights: npt.NDArray[np.floating] = certain[0] if certain else np.ones(len(self.public.distil))
        if self.settings.told == "heads":
            x = self._distil_rows
            logits = x @ first.T
            weights = score(x, certain[0]) if certain else weights
        return np.column_stack([logits, np.maximum(weights, SCORE_FLOOR)])

    @cached_property
    def _distil_rows(self) -> Floats:
        return self.prepared(self.public.features[self.public.distil])

    def soft(self, answers: list[Answer]) -> Floats:
        """Soft labels (Q, C): sum_i f_i(x) g_i(x) / sum_i f_i(x), on probabilities or logits (equation 1)."""
        on_logits = self.settings.weighting == "logits"
        ballots = [answer.ballot[:, :-1].astype(np.float64) for answer in answers]
        told = ballots if on_logits else [softmax(logits, axis=1) for logits in ballots]
        shape = (len(self.public.distil), self.classes)
        mean = weighted_average(told, [answer.ballot[:, -1] for answer in answers], shape)
        return np.asarray(softmax(mean, axis=1)) if on_logits else mean

    def learn(self, answers: list[Answer]) -> dict[str, Any]:
        settings, rows = self.settings, self.public.distil
        soft = self.soft(answers)
        labels, truth = soft.argmax(axis=1), np.asarray(self.data.public_y[rows])
        self._release = {"query_indices": rows, "soft_labels": soft.astype(np.float32), "labels": labels}
        self._release["true_labels"] = truth
        if self.data.public_x.ndim >= 3:
            self._release["images"] = np.asarray(self.data.public_x[rows[:SHOWN]])
            self._release["image_rows"] = np.arange(len(rows[:SHOWN]))
        most = min(STUDENT_FEATURES, self.public.features.shape[1], len(self.public.features) - 1)
        space = fit_embedding(self.public.features, most)
        inputs = space.transform(self.public.features[rows])
        self.progress.start("server: student", 1)
        self._student = make_learner(
            settings.server_model,
            n_classes=self.classes,
            input_shape=inputs.shape[1:],
            seed=int(np.random.SeedSequence([settings.seed, 2, 0]).generate_state(1)[0]),
            device=self.device,
            epochs=settings.server_epochs,
            batch_size=settings.server_batch_size,
            lr=settings.server_lr,
            role="student",
        ).distill(inputs, soft.astype(np.float32))
        self.progress.advance(1)
        predicted = self._student.predict_logits(space.transform(self.test_features())).argmax(axis=1)
        return {**self.measured(predicted), "label_accuracy": float(np.mean(labels == truth))}


class FedauxFStrategy(EnsembleStrategy[FedauxFSettings]):
    """FedAUX with a frozen extractor: private scores weigh predictions that have no noise."""


class FedauxfdpStrategy(EnsembleStrategy[A], Generic[A]):
    """FedAUXfdp: certainty-weighted distillation from class sums, or from the paper's heads."""

    @cached_property
    def embedding(self) -> Embedding:
        """Where the class sums are told."""
        axes = class_axes(self.settings, self.data, self.public)
        if not self.settings.with_landmarks:
            return axes
        found = fit_landmarks(axes, self.public.features, self.settings.landmarks, self.settings.seed)
        return replace(axes, landmarks=found)

    def request(self, server_round: int) -> Arrays:
        """The extractor's weights as far as the server has trained them, and the landmarks of the class sums."""
        landmarks = self.embedding.landmarks if self.settings.with_landmarks else None
        return [*super().request(server_round), *([] if landmarks is None else [landmarks])]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        if self.settings.logistic:
            return super().shapes
        return [(self.classes, 1 + self.embedding.dimension)]

    def read(self, arrays: Arrays) -> npt.NDArray[Any]:
        """With class sums: counts and sums (C, 1 + d)."""
        return super().read(arrays) if self.settings.logistic else unpack(arrays, self.shapes, self.settings)[0]

    def soft(self, answers: list[Answer]) -> Floats:
        """With class sums: certainty, a matched filter over the clients, one head, and what it says."""
        if self.settings.logistic:
            return super().soft(answers)
        noisy = sums_mechanism(self.settings, self.classes, self.embedding.dimension)
        told = np.stack([answer.ballot for answer in answers]).astype(np.float64)
        return self.weighed(told, noisy.count_variance if noisy else 0.0, noisy.variance if noisy else 0.0)

    def weighed(self, told: Floats, count_variance: float, variance: float) -> Floats:
        """Soft labels from counts and sums (K, C, 1 + d) and the variances of their noise."""
        weights = certainty(told[:, :, 0], count_variance)
        means, variances = pooled(told[:, :, 1:], weights, variance)
        embedded = self.embedding.transform(self.public.features)
        covariance = np.cov(embedded.T.astype(np.float64))
        return soft_labels(discriminants(embedded[self.public.distil], means, variances, np.atleast_2d(covariance)))

    def charge(self, client_id: int) -> Costs | None:
        if self.settings.logistic:
            return super().charge(client_id)
        noisy = sums_mechanism(self.settings, self.classes, self.embedding.dimension)
        return {"sums": noisy.cost()} if noisy else None

    def costs(self) -> list[Cost]:
        return super().costs() if self.settings.logistic else [*(self.charge(0) or {}).values()]

    def mechanism_words(self) -> str:
        if self.settings.logistic:
            return super().mechanism_words()
        noise = "without noise" if math.isinf(self.settings.epsilon) else "with Gaussian noise, in one release"
        return f"Class counts and sums of each client {noise}"
