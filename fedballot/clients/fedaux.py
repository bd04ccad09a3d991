"""The party's side of FedAUXfdp and its baselines: what leaves is one noisy release about frozen features.

Paper: "FedAUXfdp: Differentially private one-shot federated distillation", Algorithm 1 and section 3.
`head = "logistic"` is the paper's: a score head against public negatives and a class head, each with its own budget.
`head = "class-sums"` is ours: class counts and sums in one release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Generic, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt
from flwr.common import Scalar

from fedballot.clients.base import EVALUATED, Arrays, PartyClient, Refusal
from fedballot.clients.frozen import FrozenSettings, PublicFeatures, public_features
from fedballot.datasets.embedding import AXES, Embedding, fit_embedding
from fedballot.datasets.examples import Examples
from fedballot.datasets.federation import FederatedData
from fedballot.datasets.own import SITES
from fedballot.errors import SettingsError
from fedballot.learners.base import FloatArray
from fedballot.learners.registry import make_learner
from fedballot.metrics import confusion_matrix
from fedballot.privacy import accounting, gaussian, papers
from fedballot.privacy.class_sums import ClassSums, class_sums
from fedballot.privacy.costs import Cost
from fedballot.privacy.heads import Head, PrivateHead, fit_head, prepare
from fedballot.privacy.ledger import Ledger
from fedballot.privacy.randomness import NoiseSource, secret_noise
from fedballot.settings import setting
from fedballot.strategies.certainty import planned_dimension, score
from fedballot.wire import WireError, pack_halves, pack_levels, unpack_halves, unpack_levels

Floats = npt.NDArray[np.float64]

LANDMARKS = 512  # of class sums, where the public pool is large enough
PER_LANDMARK = 10  # least public records for a landmark
FARTHEST = 1e6  # largest coordinate of a landmark: larger ones would not leave an embedding finite


@dataclass(frozen=True)
class HeadSettings(FrozenSettings):
    """Settings of methods whose parties tell a private class head; those of the averaging baseline."""

    client_models: tuple[str, ...] = setting(("logistic-regression",), "not used: every party trains a linear head")
    server_model: str = setting("logistic-regression", "learner that the server trains on the frozen features")
    epsilon: float = setting(
        0.5, "privacy target of the class release; `inf`: no noise, no guarantee", above=0, infinite=True
    )
    delta: float = setting(1e-5, "probability that the epsilon of a release does not hold", above=0, below=1)
    lam: float = setting(0.01, "regularisation of a logistic head, lambda", above=0)
    mechanism: Literal["tight", "paper"] = setting(
        "tight", "noise of logistic heads: the least that is proved, or the paper's formula"
    )
    precision: Literal["float16", "int8"] = setting("float16", "how a release is sent; int8: 1 byte a number")
    noise_seed: int | None = setting(None, "seed the noise, for tests; the guarantee is then stamped: not private")

    @property
    def logistic(self) -> bool:
        """Whether parties train logistic heads."""
        return True

    @property
    def with_scores(self) -> bool:
        """Whether parties train a score head beside the class head."""
        return False

    @property
    def told(self) -> Literal["heads", "predictions"]:
        """What leaves a party."""
        return "heads"

    @property
    def score_target(self) -> float:
        """Epsilon of the score head."""
        return math.inf


@dataclass(frozen=True)
class FeddSettings(HeadSettings):
    """Settings of ensemble distillation from private heads, without scores."""

    share: Literal["heads", "predictions"] = setting(
        "heads", "what a party tells: its private head, or what the head says of the public records"
    )
    weighting: Literal["probabilities", "logits"] = setting("probabilities", "what of the heads is averaged")

    @property
    def told(self) -> Literal["heads", "predictions"]:
        return self.share


@dataclass(frozen=True)
class FedauxfdpSettings(FeddSettings):
    """Settings of FedAUXfdp."""

    head: Literal["class-sums", "logistic"] = setting(
        "class-sums", "what is released: class counts and sums at once, or the paper's score and class heads"
    )
    score_epsilon: float = setting(
        0.1, "privacy target of the score head (head=logistic); `inf`: no noise", above=0, infinite=True
    )
    embedding: Literal["landmarks", "pca"] = setting("landmarks", "space of the class sums, fitted on the public pool")
    dimension: int = setting(
        0, "coordinates of that space; 0: 512 landmarks, or components by the noise and the numbers of records", low=0
    )
    records: int = setting(
        0, "about how many records a party holds (embedding=pca), public; 0: the mean of the partition", low=0
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
        ("linear-torch",), "learners of the agents' class heads, on frozen features"
    )
    epochs: int = setting(40, "epochs of a class head", low=0)
    epsilon: float = setting(math.inf, "`inf`: the class head has no noise", above=0, infinite=True)
    share: Literal["heads", "predictions"] = setting("predictions", "what a party tells: predictions")
    weighting: Literal["probabilities", "logits"] = setting("probabilities", "what of the heads is averaged")
    score_epsilon: float = setting(0.1, "privacy target of the score head; `inf`: no noise", above=0, infinite=True)

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


S = TypeVar("S", bound=HeadSettings)
Drawn = TypeVar("Drawn", npt.NDArray[np.float64], npt.NDArray[np.int64])


# mechanisms: functions of public numbers only


@lru_cache(maxsize=64)
def class_mechanism(settings: HeadSettings, records: int, features: int, classes: int) -> PrivateHead | None:
    """Noise of the class head of a party with that many records; None: no noise. `features` counts the constant."""
    if math.isinf(settings.epsilon):
        return None
    if settings.mechanism == "paper":
        sigma = papers.fedaux_sigma(classes, settings.lam, records, settings.epsilon, settings.delta)
        return PrivateHead(records, features, classes, settings.lam, sigma)
    return PrivateHead.solve(
        settings.epsilon, settings.delta, records=records, features=features, classes=classes, lam=settings.lam
    )


@lru_cache(maxsize=64)
def score_mechanism(settings: HeadSettings, records: int, features: int) -> PrivateHead | None:
    """Noise of the score head over private and negative records together: two classes and 2 lambda are one head."""
    if math.isinf(settings.score_target):
        return None
    if settings.mechanism == "paper":
        # the head w = W_1 - W_0 has sensitivity 2/(lambda N), and sqrt(2) times the noise of each of the two
        sigma = papers.fedaux_score_sigma(settings.lam, records, settings.score_target, settings.delta) / math.sqrt(2)
        return PrivateHead(records, features, 2, 2 * settings.lam, sigma)
    return PrivateHead.solve(
        settings.score_target, settings.delta, records=records, features=features, classes=2, lam=2 * settings.lam
    )


@lru_cache(maxsize=4)
def sums_mechanism(settings: FedauxfdpSettings, classes: int, dimension: int) -> ClassSums | None:
    """Noise of the class sums; None: no noise."""
    if math.isinf(settings.epsilon):
        return None
    signed = settings.embedding == "pca"
    return ClassSums.solve(settings.epsilon, settings.delta, classes=classes, features=dimension, signed=signed)


def costs_of(settings: HeadSettings, records: int, negatives: int, features: int, classes: int) -> list[Cost]:
    """What the releases of a party with logistic heads cost: class head, score head, as far as they have noise."""
    heads = [class_mechanism(settings, records, features, classes)]
    if settings.with_scores:
        heads.append(score_mechanism(settings, records + negatives, features))
    return [head.cost() for head in heads if head is not None]


def together(settings: HeadSettings, costs: Sequence[Cost]) -> tuple[float, float]:
    """(epsilon, delta) of all releases of a party, by composition."""
    delta = settings.delta * len(costs)
    return accounting.epsilon(costs, delta), delta


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


# what crosses the wire


def pack(values: Sequence[npt.NDArray[np.floating]], settings: HeadSettings) -> Arrays:
    """Arrays in the precision that the settings name."""
    if settings.precision == "float16":
        return [pack_halves(value) for value in values]
    return [part for value in values for part in pack_levels(value)]


def unpack(arrays: Arrays, shapes: Sequence[tuple[int, ...]], settings: HeadSettings) -> list[FloatArray]:
    """The arrays that :func:`pack` packed, float32.

    Raises
    ------
    WireError
        If they hold something else.
    """
    each = 1 if settings.precision == "float16" else 2
    if len(arrays) != each * len(shapes):
        raise WireError("count", f"expected {each * len(shapes)} arrays, got {len(arrays)}")
    if each == 1:
        return [unpack_halves(array, shape) for array, shape in zip(arrays, shapes, strict=True)]
    return [unpack_levels(arrays[2 * i : 2 * i + 2], shape) for i, shape in enumerate(shapes)]


class Features:
    """Features of a party and of the public pool as heads take them; its own are extracted when first asked for."""

    def __init__(self, public: PublicFeatures, own: Examples) -> None:
        self.public, self.own = public, own
        self.width = public.features.shape[1] + 1

    def prepared(self, x: npt.NDArray[np.generic]) -> Floats:
        """Raw records as rows (n, p) of norm at most 1, clipped to the public bound, the constant first."""
        return prepare(self.public.extractor.transform(x), self.public.bound)

    @cached_property
    def private(self) -> Floats:
        """The party's records."""
        return self.prepared(self.own.x)

    @property
    def distil(self) -> Floats:
        """Public records that are distilled on."""
        return prepare(self.public.features[self.public.distil], self.public.bound)

    @property
    def negatives(self) -> Floats:
        """Public records that score heads tell apart from the party's."""
        return prepare(self.public.features[self.public.auxiliary], self.public.bound)


class HeadClient(PartyClient[S], Generic[S]):
    """A party that tells a private class head, and a score head where the method has one."""

    def answer(self, arrays: Arrays, config: dict[str, Scalar]) -> Arrays:
        """The heads, or what they say of the public records; the same request always gets the same answer."""
        party, settings, request = self.party, self.party.settings, str(config["request"])
        network, landmarks = self.asked(arrays)
        public = public_features(settings, party.data, party.device, network)
        return pack(self.told(public, party.private(), request, landmarks), settings)

    def asked(self, arrays: Arrays) -> tuple[FloatArray | None, FloatArray | None]:
        """The weights of the extractor and the landmarks in a request, as far as it holds them."""
        kinds = [array.ndim for array in arrays]
        sound = all(array.dtype == np.float32 and np.isfinite(array).all() for array in arrays)
        if not sound or kinds not in ([], [1], *([[2], [1, 2]] if self.landmarked else [])):
            raise Refusal("request", "a request must hold nothing, or the weights of the extractor, float32")
        found = {array.ndim: np.asarray(array, dtype=np.float32) for array in arrays}
        return found.get(1), found.get(2)

    @property
    def landmarked(self) -> bool:
        """Whether requests bring landmarks."""
        return False

    def told(self, public: PublicFeatures, own: Examples, request: str, landmarks: FloatArray | None) -> list[Floats]:
        """What leaves, before it is packed: heads [(C, p), (p,)], or predictions [(Q, C), (Q,)]."""
        settings, features = self.party.settings, Features(public, own)
        heads = [self.class_head(features, request)]
        if settings.with_scores:
            heads.append(self.score_head(features, request))
        if settings.told == "heads":
            return heads
        logits = features.distil @ heads[0].T
        return [logits - logits.mean(axis=1, keepdims=True), *(score(features.distil, head) for head in heads[1:])]

    def class_head(self, features: Features, request: str) -> Floats:
        """The class head (C, p), charged before its noise is drawn."""
        records, classes = len(features.own.y), len(self.party.data.classes)
        noisy = class_mechanism(self.party.settings, records, features.width, classes)
        return self._drawn(f"{request}/classes", noisy, features, lambda: self._fitted(features))

    def score_head(self, features: Features, request: str) -> Floats:
        """The score head (p,): own records against the public negatives, charged before its noise is drawn."""
        settings, records, negatives = self.party.settings, len(features.own.y), len(features.public.auxiliary)

        def fit() -> Head:
            both = np.vstack([features.private, features.negatives])
            return fit_head(both, np.repeat([1, 0], [records, negatives]), 2, 2 * settings.lam)

        noisy = score_mechanism(settings, records + negatives, features.width)
        pair = self._drawn(f"{request}/scores", noisy, features, fit)
        return np.asarray(pair[1] - pair[0])

    def _fitted(self, features: Features) -> Head:
        """The party's class head before noise; how well it does stays in the party's folder."""
        data, settings = self.party.data, self.party.settings
        head = fit_head(features.private, features.own.y, len(data.classes), settings.lam)
        if settings.evaluate_agents:
            test = features.prepared(np.asarray(data.test_x[:EVALUATED]))
            self.note((test @ head.weights.T).argmax(axis=1))
        return head

    def note(self, predicted: npt.NDArray[np.int64]) -> None:
        """Keep how the party's own model does on test records, for its own eyes."""
        data = self.party.data
        matrix = confusion_matrix(data.test_y[:EVALUATED], predicted, len(data.classes))
        self.party.folder.note({"confusion": matrix.tolist()})

    def _drawn(self, request: str, noisy: PrivateHead | None, features: Features, fit: Callable[[], Head]) -> Floats:
        """A head with noise from the ledger; without noise where the settings ask for none."""
        if noisy is None:
            return fit().weights
        records, negatives = len(features.own.y), len(features.public.auxiliary)
        classes = len(self.party.data.classes)
        ledger = self.open(costs_of(self.party.settings, records, negatives, features.width, classes))
        # before the charge: a fit that fails costs nothing
        head = noisy.certify(fit()) if ledger.stored(request) is None else None
        noise = self.noise(request)

        def draw() -> dict[str, Floats]:
            return {"release": noisy.release(head or fit(), noise)}

        return ledger.release(request, noisy.cost(), draw, seeded=not noise.private)["release"]

    def open(self, costs: Sequence[Cost]) -> Ledger:
        """The party's ledger, with room for these costs."""
        return self.party.open_ledger("record", "replace-one", *together(self.party.settings, costs))

    def noise(self, request: str) -> NoiseSource:
        """Noise of a release: each has a stream of its own."""
        stream = ("classes", "scores", "sums").index(request.rpartition("/")[2])
        return secret_noise(self.party.settings.noise_seed, self.party.agent, stream)


A = TypeVar("A", bound=FedauxfdpSettings)


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
