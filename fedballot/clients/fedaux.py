"""The party's side of FedAUXfdp, and of FedAUX with a frozen extractor: what leaves is about frozen features.

Paper: "FedAUXfdp: Differentially private one-shot federated distillation", Algorithm 1 and section 3.
`head = "logistic"` is the paper's: a score head against public negatives and a class head, each with its own budget.
`head = "class-sums"` is ours: class counts and sums in one release.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Generic, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt

from fedballot.clients.base import EVALUATED, Refusal
from fedballot.clients.frozen import PublicFeatures
from fedballot.clients.private_heads import Features, FeddSettings, Floats, HeadClient
from fedballot.datasets.embedding import AXES, Embedding, fit_embedding
from fedballot.datasets.examples import Examples
from fedballot.datasets.federation import FederatedData
from fedballot.datasets.own import SITES
from fedballot.errors import SettingsError
from fedballot.learners.base import FloatArray
from fedballot.learners.registry import make_learner
from fedballot.privacy import gaussian
from fedballot.privacy.class_sums import ClassSums, class_sums
from fedballot.privacy.randomness import NoiseSource
from fedballot.settings import setting
from fedballot.strategies.certainty import planned_dimension, score

LANDMARKS = 512  # of class sums, where the public pool is large enough
PER_LANDMARK = 10  # least public records for a landmark
FARTHEST = 1e6  # largest coordinate of a landmark: larger ones would not leave an embedding finite


@dataclass(frozen=True)
class FedauxfdpSettings(FeddSettings):
    """Settings of FedAUXfdp."""

    head: Literal["class-sums", "logistic"] = setting(
        "class-sums",
        "what is released: class counts and sums at once, or the paper's score and class heads",
        site_limit=("class-sums", "logistic"),
    )
    score_epsilon: float = setting(
        0.1,
        "privacy target of the score head (head=logistic); `inf`: no noise",
        above=0,
        infinite=True,
        site_limit=(1e-3, 1000.0),
    )
    embedding: Literal["landmarks", "pca"] = setting(
        "landmarks", "space of the class sums, fitted on the public pool", site_limit=("landmarks", "pca")
    )
    dimension: int = setting(
        0,
        "coordinates of that space; 0: 512 landmarks, or components by the noise and the numbers of records",
        low=0,
        site_limit=(0, 4096),
    )
    records: int = setting(
        0,
        "about how many records a party holds (embedding=pca), public; 0: the mean of the partition",
        low=0,
        site_limit=(0, 1_000_000),
    )

    def check(self) -> None:
        super().check()
        if self.head == "class-sums" and self.mechanism == "paper":
            raise SettingsError("mechanism=paper is the noise of logistic heads: set head=logistic with it")
        if self.head == "class-sums" and self.share == "predictions":
            raise SettingsError(
                "share=predictions: the server adds class sums up before it can say what they tell of a record, and "
                "they are smaller: leave it out, or set head=logistic"
            )
        planned = self.head == "class-sums" and self.embedding == "pca" and not self.dimension
        if planned and self.dataset == SITES and not self.records:
            raise SettingsError(
                "records=0, but sites keep their numbers to themselves, and the dimension is planned for a number: "
                "set records to about what a site holds, or set dimension"
            )

    @property
    def logistic(self) -> bool:
        return self.head == "logistic"

    @property
    def with_scores(self) -> bool:
        return self.logistic

    @property
    def with_landmarks(self) -> bool:
        """Whether the server sends landmarks, in which class sums are told."""
        return not self.logistic and self.embedding == "landmarks"

    @property
    def landmarks(self) -> int:
        """How many."""
        return self.dimension or min(LANDMARKS, max(2, self.public_size // PER_LANDMARK))

    @property
    def score_target(self) -> float:
        return self.score_epsilon if self.logistic else math.inf


@dataclass(frozen=True)
class FedauxFSettings(FeddSettings):
    """Settings of FedAUX with a frozen extractor: private scores, class heads without noise."""

    client_models: tuple[str, ...] = setting(
        ("linear-torch",), "learners of the agents' class heads, on frozen features", reads="site"
    )
    epochs: int = setting(40, "epochs of a class head", low=0, site_limit=(1, 500))
    epsilon: float = setting(
        math.inf, "`inf`: the class head has no noise", above=0, infinite=True, site_limit=(1e-3, 1000.0)
    )
    share: Literal["heads", "predictions"] = setting(
        "predictions", "what a party tells: predictions", site_limit=("heads", "predictions")
    )
    weighting: Literal["probabilities", "logits"] = setting(
        "probabilities", "what of the heads is averaged", reads="server"
    )
    score_epsilon: float = setting(
        0.1, "privacy target of the score head; `inf`: no noise", above=0, infinite=True, site_limit=(1e-3, 1000.0)
    )

    def check(self) -> None:
        super().check()
        if not math.isinf(self.epsilon):
            raise SettingsError(
                f"epsilon={self.epsilon:g}, but fedaux-f adds no noise to class heads: leave it out, or run fedauxfdp"
            )
        if self.share != "predictions":
            raise SettingsError(
                "share=heads: a class head of fedaux-f may be any model, so it is not told: leave it out"
            )

    @property
    def with_scores(self) -> bool:
        return True

    @property
    def score_target(self) -> float:
        return self.score_epsilon


A = TypeVar("A", bound=FedauxfdpSettings)
Drawn = TypeVar("Drawn", npt.NDArray[np.float64], npt.NDArray[np.int64])


@lru_cache(maxsize=4)
def sums_mechanism(settings: FedauxfdpSettings, classes: int, dimension: int) -> ClassSums | None:
    """Noise of the class sums; None: no noise."""
    if math.isinf(settings.epsilon):
        return None
    signed = settings.embedding == "pca"
    return ClassSums.solve(settings.epsilon, settings.delta, classes=classes, features=dimension, signed=signed)


@lru_cache(maxsize=1)  # the parties of a process share it
def class_axes(settings: FedauxfdpSettings, data: FederatedData, public: PublicFeatures) -> Embedding:
    """Principal components: the space of the class sums, or that of their landmarks. Public data and numbers alone."""
    most = min(len(public.features) - 1, public.features.shape[1])
    if settings.with_landmarks:
        return fit_embedding(public.features, min(AXES, most))
    records = settings.records or max(1.0, sum(part.size for part in data.parts) / settings.agents)
    multiplier = 0.0 if math.isinf(settings.epsilon) else gaussian.sigma(1.0, settings.epsilon, settings.delta)
    wanted = settings.dimension or planned_dimension(records, settings.agents, len(data.classes), multiplier)
    return fit_embedding(public.features, min(wanted, most))


class FedauxfdpClient(HeadClient[A], Generic[A]):
    """A party of FedAUXfdp: class sums, or the paper's heads."""

    @property
    def landmarked(self) -> bool:
        return self.party.settings.with_landmarks

    def told(self, public: PublicFeatures, own: Examples, request: str, landmarks: FloatArray | None) -> list[Floats]:
        """Heads or what they say of the public records, or class sums [(C, 1 + d)]."""
        settings = self.party.settings
        if settings.logistic:
            return super().told(public, own, request, landmarks)
        embedding = self.embedding(public, landmarks)
        noisy = sums_mechanism(settings, len(self.party.data.classes), embedding.dimension)
        if noisy is None:
            z = embedding.transform(public.extractor.transform(own.x))
            return [class_sums(z, own.y, len(self.party.data.classes))]
        return [self.drawn(noisy, noisy.release, embedding, public, own, request)]

    def embedding(self, public: PublicFeatures, landmarks: FloatArray | None) -> Embedding:
        """Where the class sums are told."""
        settings = self.party.settings
        axes = class_axes(settings, self.party.data, public)
        if not settings.with_landmarks:
            return axes
        shape = (settings.landmarks, axes.axes.shape[1])
        if landmarks is None or landmarks.shape != shape or np.abs(landmarks).max() > FARTHEST:
            raise Refusal("request", f"a request must hold {shape[0]} landmarks in {shape[1]} components")
        return replace(axes, landmarks=landmarks)

    def drawn(
        self,
        noisy: ClassSums,
        release: Callable[[FloatArray, npt.NDArray[np.integer], NoiseSource], Drawn],
        embedding: Embedding,
        public: PublicFeatures,
        own: Examples,
        request: str,
    ) -> Drawn:
        """A release of class sums from the ledger: charged before its noise is drawn."""

        def embedded() -> FloatArray:
            return embedding.transform(public.extractor.transform(own.x))

        request = f"{request}/sums"
        ledger = self.open([noisy.cost()])
        z = embedded() if ledger.stored(request) is None else None  # before the charge: what fails costs nothing
        noise = self.noise(request)

        def draw() -> dict[str, Drawn]:
            return {"release": release(embedded() if z is None else z, own.y, noise)}

        kept = ledger.release(request, noisy.cost(), draw, seeded=not noise.private)
        return cast(Drawn, kept["release"])


class FedauxFClient(HeadClient[FedauxFSettings]):
    """A party of FedAUX with a frozen extractor: its class head is any learner, trained without noise."""

    def told(self, public: PublicFeatures, own: Examples, request: str, landmarks: FloatArray | None) -> list[Floats]:
        """Predictions of the class learner on the public records (Q, C), and private scores (Q,)."""
        party, settings, features = self.party, self.party.settings, Features(public, own)
        names = settings.client_models
        learner = make_learner(
            names[party.agent % len(names)],
            n_classes=len(party.data.classes),
            input_shape=(features.width,),
            seed=int(np.random.SeedSequence([settings.seed, party.agent]).generate_state(1)[0]),
            device=party.device,
            epochs=settings.epochs,
            batch_size=settings.batch_size,
            lr=settings.lr,
            role="teacher",
        ).fit(features.private.astype(np.float32), own.y)
        if settings.evaluate_agents:
            test = features.prepared(np.asarray(party.data.test_x[:EVALUATED])).astype(np.float32)
            self.note(learner.predict_logits(test).argmax(axis=1))
        logits = learner.predict_logits(features.distil.astype(np.float32)).astype(np.float64)
        scores = score(features.distil, self.score_head(features, request))
        return [logits - logits.mean(axis=1, keepdims=True), scores]
