"""The client's side of FedKD: train to the end, answer every public record once, with quantised logits or noisy ones.

Paper: "Preserving privacy in federated learning with ensemble cross-domain knowledge distillation", Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from flwr.common import Scalar

from fedballot.clients.base import EVALUATED, Arrays, BallotClient, Part, Release, Terms, query_rows
from fedballot.clients.summed import SummedClient, SummedSettings
from fedballot.core.errors import SettingsError
from fedballot.datasets.copies import check_images, public_copy
from fedballot.learners.base import Learner
from fedballot.privacy.guarantee import Unit
from fedballot.privacy.mechanisms.logits import NoisyLogits
from fedballot.privacy.mechanisms.quantise import Quantiser
from fedballot.settings.parts import CommonSettings, setting
from fedballot.wire.packing import WireError, pack_labels, unpack_labels, unpack_singles
from fedballot.wire.secagg import Form

Floats = npt.NDArray[np.floating]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EnsembleSettings(CommonSettings):
    """What both kinds of FedKD share: what is asked, and how the server learns from it."""

    queries: int = setting(0, "public records that clients answer; 0: the whole pool", low=0, site_limit=(0, 1_000_000))
    answers: int = setting(
        1,
        "answers to each public image, all but the first to shifted copies; each is a query of its own",
        low=1,
        site_limit=(1, 100),
    )
    distill_loss: Literal["l2", "mae", "kl"] = setting(
        "l2",
        "loss of the server; l2 and mae compare logits (equation 7), kl probabilities (equation 5)",
        reads="server",
    )
    temperature: float = setting(3.0, "temperature of distill_loss=kl, tau", above=0, reads="server")
    noise_seed: int | None = setting(
        None, "seed the noise, for tests; the guarantee is then stamped: not private", site_limit=()
    )

    def check(self) -> None:
        super().check()
        if self.queries > self.public_size:
            raise SettingsError(
                f"queries={self.queries} is more than public_size={self.public_size}: ask for at most the whole pool"
            )

    @property
    def record_count(self) -> int:
        """Public records asked about."""
        return self.queries or self.public_size

    @property
    def query_count(self) -> int:
        """Number of queries Q: an answer to a copy of a record tells as much as one to another record."""
        return self.record_count * self.answers


@dataclass(frozen=True)
class FedkdSettings(EnsembleSettings):
    """Settings of FedKD as printed; S and gamma in the paper are levels and gamma."""

    levels: int = setting(
        200,
        "quantisation levels S; up to 256 take a byte per logit, up to 16 half",
        low=2,
        high=65536,
        site_limit=(2, 65536),
    )
    gamma: float = setting(
        1.0, "the server's Laplace noise has scale 1/gamma; `inf`: no noise", above=0, infinite=True, reads="server"
    )
    weights: Literal["class-counts", "equal"] = setting(
        "class-counts",
        "how clients count (equation 1); class-counts: by their exact counts, which must be public",
        site_limit=("class-counts", "equal"),
    )
    logit_bound: float = setting(
        0.0,
        "public bound of the quantiser, larger logits are cut; 0: a client's own largest logit, told too",
        low=0,
        site_limit=(0.0, 1e6),
    )


@dataclass(frozen=True)
class FedkdDpSettings(EnsembleSettings, SummedSettings):
    """Settings of the sound variant: clipped logits, equal weights, Gaussian noise on the sum."""

    queries: int = setting(
        200, "public records that clients answer; noise grows with their root; 0: all", low=0, site_limit=(0, 1_000_000)
    )
    epsilon: float = setting(8.0, "privacy target", above=0, site_limit=(1e-3, 1000.0))
    delta: float = setting(
        1e-5, "added to e^epsilon times any probability; below 1/n", above=0, below=1, site_limit=(1e-15, 0.1)
    )
    logit_bound: float = setting(
        1.0, "largest norm of the logits told of a record, B; larger ones are cut", above=0, site_limit=(1e-6, 1e6)
    )


S = TypeVar("S", bound=EnsembleSettings)


@lru_cache(maxsize=4)
def mechanism(settings: FedkdDpSettings, n_classes: int) -> NoisyLogits:
    """The noisy sum of logits with the least noise that the settings allow."""
    return NoisyLogits.solve(
        settings.epsilon,
        settings.delta,
        queries=settings.query_count,
        classes=n_classes,
        bound=settings.logit_bound,
        contributors=settings.required_clients,
        colluders=settings.colluders,
    )


def ballot_form(settings: FedkdDpSettings, n_classes: int) -> Form:
    """Form of a client's integers (Q, C), as secure aggregation needs it."""
    return Form((settings.query_count, n_classes), mechanism(settings, n_classes).mechanism.largest)


def class_counts(y: npt.NDArray[np.integer], n_classes: int) -> Indices:
    """Records of each class, int64 (C,): N of equation 1; positive ones where a record has several labels."""
    if y.ndim == 2:
        return np.asarray((y == 1).sum(axis=0), dtype=np.int64)
    return np.bincount(y, minlength=n_classes).astype(np.int64)


def pack_answer(logits: Floats, counts: Indices, settings: FedkdSettings) -> Arrays:
    """One client's logits (Q, C) as levels, then what the settings do not declare public: its bound and its counts."""
    singles = np.finfo(np.float32)
    largest = np.clip(np.abs(logits).max(initial=0.0), singles.tiny, singles.max)  # constant logits are all 0
    bound = settings.logit_bound or float(np.float32(largest))
    packed = pack_labels(Quantiser(bound, settings.levels).encode(logits).ravel(), settings.levels)
    arrays: Arrays = [packed]
    if not settings.logit_bound:
        arrays.append(np.array([bound], dtype=np.float32))
    if settings.weights == "class-counts":
        arrays.append(counts.astype(np.int32))
    return arrays


def unpack_answer(
    arrays: Arrays, shape: tuple[int, int], settings: FedkdSettings
) -> tuple[npt.NDArray[np.float32], Indices]:
    """Logits (Q, C), to the nearest level, and class counts (C,); ones where all clients weigh the same.

    Raises
    ------
    WireError
        If the arrays hold something else.
    """
    told = 1 + (not settings.logit_bound) + (settings.weights == "class-counts")
    if len(arrays) != told:
        raise WireError("count", f"expected {told} arrays, got {len(arrays)}")
    bound = np.float32(settings.logit_bound)
    if not settings.logit_bound:
        (bound,) = unpack_singles(arrays[1], (1,))
        if not bound > 0:
            raise WireError("range", f"the largest logit is {bound}; expected a number above 0")
    counts = np.ones(shape[1], dtype=np.int64)
    if settings.weights == "class-counts":
        if arrays[-1].dtype != np.int32 or arrays[-1].shape != (shape[1],):
            raise WireError("shape", f"class counts must be {shape[1]} int32, got {arrays[-1].dtype}")
        counts = arrays[-1].astype(np.int64)
        if counts.min() < 0 or not counts.any():
            raise WireError("range", "class counts must be at least 0, and not all 0")
    levels = unpack_labels(arrays[0], shape[0] * shape[1], settings.levels).reshape(shape)
    index = levels.astype(np.uint16)
    return Quantiser(float(bound), settings.levels).decode(index).astype(np.float32), counts


class EnsembleClient(BallotClient[S], Generic[S]):
    """A client that trains its model to the end, and then predicts."""

    _learner: Learner | None = None

    def question(self, arrays: Arrays, config: dict[str, Scalar]) -> Indices:
        """The public rows asked about."""
        settings = self.workspace.settings
        check_images(self.workspace.data.public_x.shape[1:], settings.answers)
        return query_rows(arrays, settings.record_count, settings.public_size)

    def model(self) -> Learner:
        """The trained model (first line of Algorithm 1), trained once and taken from the client's folder after that."""
        workspace = self.workspace
        if self._learner is not None:
            return self._learner
        self._learner = learner = workspace.own_learner()
        if workspace.folder.model.exists():
            return learner.load(workspace.folder.model)
        private = workspace.private()
        learner.fit(private.x, private.y)
        learner.save(workspace.folder.model)
        if workspace.settings.evaluate_clients:
            workspace.folder.note(workspace.measured(learner, EVALUATED))
        return learner

    def logits(self, rows: Indices) -> npt.NDArray[np.float64]:
        """The model's logits (Q, C), one copy of all records after the other; shifted to mean 0 over exclusive classes.

        Logits are told apart from their sum by no softmax, but averages with a weight per class are not: a network's
        have a mean near 0, log-probabilities have not.
        """
        model, public, settings = self.model(), self.workspace.data.public_x, self.workspace.settings
        copies = (public_copy(public, rows, number, settings.seed) for number in range(settings.answers))
        logits = np.concatenate([model.predict_logits(x) for x in copies]).astype(np.float64)
        return logits if self.workspace.data.multi_label else np.asarray(logits - logits.mean(axis=1, keepdims=True))


class FedkdClient(EnsembleClient[FedkdSettings]):
    """One client of Algorithm 1 as printed: quantised logits and exact class counts, without a guarantee."""

    def exact(self, question: Indices) -> dict[str, Any]:
        counts = class_counts(self.workspace.private().y, len(self.workspace.data.classes))
        return {"logits": self.logits(question), "counts": counts}

    def pack(self, question: Indices, release: Release) -> Arrays:
        """Levels of this client's logits, its largest one and its class counts."""
        return pack_answer(release["logits"], release["counts"], self.workspace.settings)


class FedkdDpClient(SummedClient[FedkdDpSettings], EnsembleClient[FedkdDpSettings]):
    """One client of the sound variant: clipped logits plus a noise share, charged before they are made."""

    @property
    def mechanism(self) -> NoisyLogits:
        """The noisy sum of logits."""
        return mechanism(self.workspace.settings, len(self.workspace.data.classes))

    def form(self) -> Form:
        return ballot_form(self.workspace.settings, len(self.workspace.data.classes))

    def terms(self, question: Any) -> Terms:
        delta = self.workspace.settings.delta
        return Terms("client", "zero-out", self.mechanism.cost().epsilon(delta), delta)

    def parts(self, question: Indices, unit: Unit) -> dict[str, Part]:
        """Logits (Q, C) with noise, in steps of the mechanism's grid."""
        return {"logits": Part(self.mechanism.cost(), self.mechanism.release)}

    def exact(self, question: Indices) -> dict[str, Any]:
        return {"logits": self.logits(question)}

    def blank(self, question: Indices) -> dict[str, Any]:
        return {"logits": np.zeros((self.workspace.settings.query_count, len(self.workspace.data.classes)))}
