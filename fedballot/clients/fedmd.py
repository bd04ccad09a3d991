"""The client's side of FedMD: learn from own records, then digest, revisit and predict, round after round.

Paper: "Federated model distillation with noise-free differential privacy", Algorithm 1, with the consensus sent along
with the public records that it belongs to.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from fedballot.clients.base import Arrays, BallotClient, Release, request_name
from fedballot.clients.workspace import Refusal
from fedballot.core.folders import ClientFolder
from fedballot.core.seeds import Stream, seed_of
from fedballot.datasets.examples import Examples
from fedballot.learners.base import Learner
from fedballot.learners.registry import make_learner
from fedballot.settings.fedmd import ConsensusSettings
from fedballot.wire.codec import Choices, Codec, Fractions, Halves, Levels, Probabilities
from fedballot.wire.messages import Config
from fedballot.wire.packing import WireError

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]


S = TypeVar("S", bound=ConsensusSettings)


def consensus_codec(settings: ConsensusSettings, shape: tuple[int, int]) -> Codec:
    """How logits or probabilities (Q, C) are sent, in the precision that the settings name."""
    if settings.share == "logits":
        return Halves(shape) if settings.precision == "float16" else Levels(shape)
    return Probabilities(Halves(shape) if settings.precision == "float16" else Fractions(shape))


def answer_codec(settings: ConsensusSettings, shape: tuple[int, int]) -> Codec:
    """How a client's predictions (Q, C) are sent: the classes alone, or as the consensus is."""
    return Choices(shape) if settings.share == "argmax" else consensus_codec(settings, shape)


def states_folder(folder: ClientFolder, request: str) -> Path:
    """Where a client keeps its model for the run that ``request`` (run/round) belongs to, and for no other run."""
    run = request.rpartition("/")[0]
    return folder.path / f"run-{hashlib.sha256(run.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Task:
    """One request: what to predict on, and the last consensus with the public rows that it belongs to."""

    request: str
    round: int
    asked: Indices
    rows: Indices | None
    consensus: Floats | None


class FedmdClient(BallotClient[S], Generic[S]):
    """One client of Algorithm 1; without noise or sampling, so without a guarantee."""

    def question(self, arrays: Arrays, config: Config) -> Task:
        """What to predict on, and the last consensus.

        Raises
        ------
        Refusal
            If it is no request of this method.
        """
        return self._task(arrays, config)

    def exact(self, question: Task) -> dict[str, Any]:
        """Logits (Q, C) of the public records asked about."""
        return {"predictions": self._trained(question).predict_logits(self.workspace.data.public_x[question.asked])}

    def own(self) -> Examples:
        """The records that the client trains on."""
        return self.workspace.private()

    def pack(self, question: Task, release: Release) -> Arrays:
        """What the settings have a client say of its logits (Q, C)."""
        settings, logits = self.workspace.settings, release["predictions"]
        values = softmax(logits, axis=1) if settings.share == "softmax" else logits
        return answer_codec(settings, logits.shape).pack(values)

    def _task(self, arrays: Arrays, config: Config) -> Task:
        settings, n_classes = self.workspace.settings, len(self.workspace.data.classes)
        number, request = config.get("round"), request_name(config)
        if not isinstance(number, int) or not 1 <= number <= settings.rounds + 1:
            raise Refusal("request", f"round {number!r} is not one of 1..{settings.rounds + 1}")
        if number == 1:
            if len(arrays) != 1:
                raise Refusal("request", "the first request must hold one vector of query indices")
            return Task(request, number, self._rows(arrays[0]), None, None)
        if len(arrays) < 3:
            raise Refusal("request", "a request must hold query indices, former indices and their consensus")
        rows = self._former(arrays[1])
        try:
            consensus = consensus_codec(settings, (len(rows), n_classes)).read(arrays[2:])
        except WireError as error:
            raise Refusal("request", f"the consensus cannot be read: {error}") from error
        return Task(request, number, self._rows(arrays[0]), rows, consensus)

    def _former(self, array: npt.NDArray[Any]) -> Indices:
        """The public rows that the consensus is about: all that were asked about."""
        return self._rows(array)

    def _rows(self, array: npt.NDArray[Any], fewest: int | None = None) -> Indices:
        """Different public rows, as many as are asked about; or with ``fewest`` that many at least."""
        settings = self.workspace.settings
        count, words = settings.query_count, "" if fewest is None else "at most "
        least = count if fewest is None else fewest
        if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer) or not least <= array.size <= count:
            raise Refusal("request", f"query indices must be a vector of {words}{count} integers")
        rows = array.astype(np.int64)
        if np.unique(rows).size != rows.size or not ((rows >= 0) & (rows < settings.public_size)).all():
            raise Refusal("request", "query indices must be different rows of the public pool")
        return rows

    def _trained(self, task: Task) -> Learner:
        """The client's model as it is after this round; its state on disk says which rounds it has behind it.

        A client that missed rounds goes on from where it was, with the newest consensus.

        Raises
        ------
        Refusal
            If the client is past this round. How far it came tells whether its training worked, so this is looked at
            behind the charge.
        """
        workspace, states = self.workspace, self._states(task)
        done = max(states, default=0)
        if done > task.round:
            raise Refusal("stale", f"the client is past round {task.round}: it has taken part in round {done}")
        own = self.own()  # also for a request answered before: a sample stands in the ledger, and is looked up there
        learner = workspace.own_learner()
        if done:
            learner.load(states[done])
        if done < task.round:
            if not done:
                self._begin(learner, own)
            if task.rows is not None and task.consensus is not None:
                self._go_on(task, learner, own, task.rows, task.consensus)
            learner.save(states_folder(workspace.folder, task.request) / f"model-{task.round}")
            for path in states.values():
                path.unlink()
        self._note(task.round, learner)
        return learner

    def _states(self, task: Task) -> dict[int, Path]:
        """The client's models on disk, by the last round that each has behind it."""
        folder = states_folder(self.workspace.folder, task.request)
        return {int(path.name.removeprefix("model-")): path for path in folder.glob("model-[0-9]*")}

    def _begin(self, learner: Learner, own: Examples) -> None:
        """Lines 2-5: the public labels first, then the own records."""
        workspace, settings = self.workspace, self.workspace.settings
        if learner.warm_start:
            if settings.pretrain_epochs:
                learner.load(self._pretrained())
            learner.fit(own.x, own.y, epochs=settings.epochs)
            return
        public = settings.pretrain_epochs > 0
        x = np.concatenate([workspace.data.public_x, own.x]) if public else own.x
        y = np.concatenate([workspace.data.public_y, own.y]) if public else own.y
        learner.fit(x, y)

    def _go_on(self, task: Task, learner: Learner, own: Examples, rows: Indices, consensus: Floats) -> None:
        """Lines 13-18, digest and revisit; a learner that starts anew at each fit takes both at once."""
        settings = self.workspace.settings
        if learner.warm_start:
            self._digest(learner, rows, consensus)
            learner.fit(own.x, own.y, epochs=settings.revisit_epochs)
            return
        truth = np.eye(len(self.workspace.data.classes), dtype=np.float32)[own.y]
        x = np.concatenate([self.workspace.data.public_x[rows], own.x])
        learner.distill(x, np.concatenate([self._probabilities(consensus), truth]))

    def _digest(self, learner: Learner, rows: Indices, consensus: Floats) -> None:
        settings = self.workspace.settings
        learner.distill(
            self.workspace.data.public_x[rows],
            self._probabilities(consensus) if settings.digest_loss == "cross-entropy" else consensus,
            epochs=settings.digest_epochs,
            batch_size=settings.public_batch_size,
            loss=settings.digest_loss,
        )

    def _probabilities(self, consensus: Floats) -> Floats:
        logits = self.workspace.settings.share == "logits"
        return np.asarray(softmax(consensus, axis=1) if logits else consensus)

    def _pretrained(self) -> Path:
        """The network of this kind trained on the public labels; public, so made once for all clients of a machine."""
        workspace, settings = self.workspace, self.workspace.settings
        name = settings.client_models[workspace.client_id % len(settings.client_models)]
        known = (name, settings.seed, settings.pretrain_epochs, settings.public_batch_size, settings.lr)
        word = hashlib.sha256(
            repr(
                (
                    *known,
                    *settings.of_kind("extractor").values(),
                    workspace.data.classes,
                    workspace.data.public_fingerprint,
                    workspace.device,
                )
            ).encode()
        ).hexdigest()[:16]
        path = workspace.folder.path.parent / f"pretrained-{word}"
        if not path.exists():
            learner = make_learner(
                name,
                n_classes=len(workspace.data.classes),
                input_shape=workspace.data.public_x.shape[1:],
                seed=seed_of(settings.seed, Stream.PRETRAINING),
                device=workspace.device,
                epochs=settings.pretrain_epochs,
                batch_size=settings.public_batch_size,
                lr=settings.lr,
                augment=workspace.data.augment,
            )
            learner.fit(workspace.data.public_x, workspace.data.public_y).save(path)
        return path

    def _note(self, number: int, learner: Learner) -> None:
        """Keep the accuracy after each round, for the client's own eyes."""
        workspace = self.workspace
        history = (workspace.folder.figures() or {}).get("rounds", {}) if number > 1 else {}
        if not workspace.settings.evaluate_clients or str(number) in history:
            return
        matrix = workspace.confusion(learner)
        rounds = {**history, str(number): float(matrix.trace() / matrix.sum())}
        workspace.folder.note({"confusion": matrix.tolist(), "rounds": rounds})
