"""The server's side of FedKD: ask once, average the logits, distil them into its own model.

Paper: "Preserving privacy in federated learning with ensemble cross-domain knowledge distillation", Algorithm 1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax

from fedballot.clients.fedkd import unpack_answer
from fedballot.core.files import write_arrays
from fedballot.core.folders import RunFolder
from fedballot.core.metrics import accuracy, accuracy_per_class, auc_per_class, confusion_matrix, mean_auc
from fedballot.datasets.copies import check_images, public_copy
from fedballot.datasets.federation import FederatedData
from fedballot.distillation.aggregation import class_weights
from fedballot.learners.base import Learner
from fedballot.learners.registry import make_learner
from fedballot.privacy.guarantee import SELF, Guarantee
from fedballot.privacy.ledger.ledger import Costs
from fedballot.privacy.mechanisms.laplace import NoisyValues
from fedballot.privacy.noise.randomness import secret_noise
from fedballot.settings.fedkd import EnsembleSettings, FedkdDpSettings, FedkdSettings, ballot_form, mechanism
from fedballot.strategies.base import Answer, Arrays, BallotStrategy, one_array
from fedballot.strategies.summed import SummedStrategy
from fedballot.wire.packing import unpack_integers
from fedballot.wire.secagg import Form

S = TypeVar("S", bound=EnsembleSettings)
Floats = npt.NDArray[np.float64]
SHOWN = 64  # public images kept for the report
SERVER = -1 % 2**32  # the server's number among those who draw noise
NO_GUARANTEE = (
    "FedKD as printed promises nothing: {told} leave each client as they are, and the server sees them before its "
    "noise of scale 1/gamma is added, which is too little for logits without a bound; fewer levels protect nobody. "
    "fedkd-dp is the variant with a proof."
)


class EnsembleStrategy(BallotStrategy[S], Generic[S]):
    """One round: the queries go out, logits come back, the server learns from their average."""

    def __init__(self, *args: Any, data: FederatedData, device: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.data, self.device = data, device
        check_images(data.public_x.shape[1:], self.settings.answers)
        order = np.random.default_rng([self.settings.seed, 1]).permutation(self.settings.public_size)
        self.queries = np.sort(order[: self.settings.record_count])
        self.consensus: Floats | None = None
        self.learner: Learner | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (Q, C) of the logits, of one copy of all records after the other."""
        return self.settings.query_count, len(self.data.classes)

    def request(self, server_round: int) -> Arrays:
        return [self.queries.astype(np.int32)]

    def warnings(self) -> list[str]:
        """What a reader of the result has to know."""
        return []

    def keep(self, consensus: Floats) -> dict[str, Any]:
        """Take the ensemble's logits (Q, C), noise included; the checkpoint keeps them. Returns how good they are."""
        self.consensus = consensus
        truth, found = self.data.public_y[self.queries], self.per_record(consensus)
        if self.data.multi_label:
            return {"consensus_auc": mean_auc(auc_per_class(truth, found))}
        known = truth >= 0
        right = found.argmax(axis=1)[known] == truth[known]
        return {"consensus_accuracy": float(np.mean(right)) if known.any() else None}

    def per_record(self, consensus: Floats) -> Floats:
        """Mean logits (records, C) of all answers (Q, C) about a record."""
        return np.asarray(consensus.reshape(self.settings.answers, len(self.queries), -1).mean(axis=0))

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        return {} if self.consensus is None else {"consensus": self.consensus}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self.consensus = state["consensus"]

    def outcome(self) -> Mapping[str, Any]:
        clock = time.perf_counter()
        shape, logits = self.shape, self.distil().predict_logits(self.data.test_x)
        return {
            "metrics": {
                **measured(self.data, logits),
                "label_accuracy": self.round_records[-1]["metrics"].get("consensus_accuracy"),
                "float64_bytes_up": 8 * shape[0] * shape[1] * self.counts.answered,
            },
            "warnings": self.warnings(),
            "distill_s": time.perf_counter() - clock,
        }

    def distil(self) -> Learner:
        """The server's model, trained on the consensus (equation 7, or 5 and 6)."""
        settings, data, consensus = self.settings, self.data, self.consensus
        if consensus is None:
            raise RuntimeError("no consensus to distil")
        self.progress.start("server: distillation", 1)
        self.learner = learner = make_learner(
            settings.server_model,
            n_classes=self.shape[1],
            input_shape=data.public_x.shape[1:],
            seed=int(np.random.SeedSequence([settings.seed, 2]).generate_state(1)[0]),
            device=self.device,
            epochs=settings.server_epochs,
            batch_size=settings.server_batch_size,
            lr=settings.server_lr,
            role="student",
            multi_label=data.multi_label,
        )
        copies = range(settings.answers)
        x = np.concatenate([public_copy(data.public_x, self.queries, number, settings.seed) for number in copies])
        if settings.distill_loss == "kl":
            scaled, tau = consensus / settings.temperature, settings.temperature
            if data.multi_label:
                return learner.distill(x, expit(scaled).astype(np.float32), loss="binary", temperature=tau)
            return learner.distill(x, softmax(scaled, axis=1).astype(np.float32), temperature=tau)
        return learner.distill(x, consensus.astype(np.float32), loss=settings.distill_loss)

    def save(self, folder: RunFolder) -> None:
        """Keep the ensemble's logits as they were distilled, and the server's model."""
        if self.consensus is None or self.learner is None:
            return
        release: dict[str, npt.NDArray[Any]] = {
            "query_indices": self.queries,
            "consensus": self.consensus,
        }
        if not self.data.multi_label:
            release["labels"] = self.per_record(self.consensus).argmax(axis=1)
            truth = np.asarray(self.data.public_y[self.queries])
            release |= {"true_labels": truth} if (truth >= 0).all() else {}
        if self.data.public_x.ndim >= 3:
            release["images"] = np.asarray(self.data.public_x[self.queries[:SHOWN]])
            release["image_rows"] = np.arange(min(SHOWN, len(self.queries)))
        write_arrays(folder.release, release)
        self.learner.save(folder.path / "server-model-0")


def measured(data: FederatedData, logits: npt.NDArray[np.floating]) -> dict[str, Any]:
    """Accuracy of the logits of the test records, or AUC of several labels."""
    if data.multi_label:
        per_label = auc_per_class(data.test_y, logits)
        return {"server_auc": mean_auc(per_label), "server_auc_per_class": per_label}
    matrix = confusion_matrix(data.test_y, logits.argmax(axis=1), len(data.classes))
    return {"server_accuracy": accuracy(matrix), "server_accuracy_per_class": accuracy_per_class(matrix)}


class FedkdStrategy(EnsembleStrategy[FedkdSettings]):
    """FedKD as printed: weights from class counts, Laplace noise from the server."""

    def read(self, arrays: Arrays) -> npt.NDArray[np.float32]:
        """Class counts in the first row, the logits of the queries in the others: (1 + Q, C)."""
        logits, counts = unpack_answer(arrays, self.shape, self.settings)
        return np.vstack([counts.astype(np.float32), logits])

    def combine(self, server_round: int, answers: list[Answer]) -> dict[str, Any]:
        return self.keep(self.average(answers))

    def average(self, answers: Sequence[Answer]) -> Floats:
        """The weighted average (Q, C) with noise that is drawn here, and never again (equation 2)."""
        settings = self.settings
        weights = class_weights(np.array([answer.ballot[0] for answer in answers]).astype(np.int64))
        total = np.zeros(self.shape)
        for answer, weight in zip(answers, weights, strict=True):
            total += weight * answer.ballot[1:]
        if math.isinf(settings.gamma):
            return total
        noise = NoisyValues(1 / settings.gamma, 1 / settings.gamma, total.size)  # of its grid; no promise rests on it
        return noise.release(total, secret_noise(settings.noise_seed, SERVER))

    def guarantees(self) -> list[Guarantee]:
        return [
            Guarantee(
                mechanism="Quantised logits of each client; Laplace noise that the server adds to their average",
                unit="client",
                adjacency="zero-out",
                epsilon=math.inf,
                delta=0.0,
                view="server's view",
                trust=SELF,
                status="none",
                accountant="none",
                n=self.settings.clients,
            )
        ]

    def warnings(self) -> list[str]:
        told = ["logits, to the nearest level"]
        told += [] if self.settings.logit_bound else ["the largest logit"]
        told += ["the exact number of records of each class"] if self.settings.weights == "class-counts" else []
        return [NO_GUARANTEE.format(told=" and ".join([", ".join(told[:-1]), told[-1]]) if told[1:] else told[0])]


class FedkdDpStrategy(SummedStrategy[FedkdDpSettings], EnsembleStrategy[FedkdDpSettings]):
    """The sound variant: only the noisy sum of clipped logits counts, and all clients weigh the same."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.mechanism = mechanism(self.settings, self.shape[1])

    def read(self, arrays: Arrays) -> npt.NDArray[np.int32]:
        return unpack_integers(one_array(arrays), self.shape)

    @property
    def form(self) -> Form:
        return ballot_form(self.settings, self.shape[1])

    def combine_sum(self, server_round: int, total: npt.NDArray[np.int64], contributors: int) -> dict[str, Any]:
        return self.keep(np.asarray(total * (self.mechanism.mechanism.grid / contributors)))

    def charge(self, client_id: int) -> Costs:
        return {"logits": self.mechanism.cost()}

    def guarantees(self) -> list[Guarantee]:
        settings = self.settings
        inside = self.round_records[-1]["answered"] if settings.secure_aggregation and self.round_records else None
        return self.mechanism.guarantees(
            settings.delta,
            secure=settings.secure_aggregation,
            arrived=inside,
            seeded=settings.noise_seed is not None,
            clients=settings.clients,
        )
