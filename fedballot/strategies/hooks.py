"""What a method says about the server's side of a round: what is asked, how an answer is read, what follows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy.typing as npt

from fedballot.core.progress import Progress
from fedballot.core.seeds import Stream, seed_of
from fedballot.datasets.federation import FederatedData
from fedballot.learners.base import Learner
from fedballot.learners.registry import make_learner
from fedballot.privacy.guarantee import Guarantee
from fedballot.privacy.mechanism import Composition, Facts
from fedballot.settings.parts import CommonSettings, ServerTraining
from fedballot.strategies.folds import Fold, everyone
from fedballot.strategies.shelf import Answer, Shelf
from fedballot.wire.messages import Arrays

S = TypeVar("S", bound=CommonSettings)
Name = TypeVar("Name")


class Hooks(ABC, Generic[S]):
    """What a method fills in.

    It says what is asked (:meth:`request`), how an answer is read (:meth:`read`) and what follows (:meth:`combine`,
    or :meth:`fold` for each answer as it comes). A method of many rounds also says what it needs to go on after any of
    them (:meth:`state`, :meth:`restore`).

    Parameters
    ----------
    settings
        The resolved settings.
    data
        What the server knows of the federation: the public set, test records, and in a simulation everybody's records.
    device
        Where its learners train.
    nodes
        Number of clients that take part.
    fingerprint
        Of the public set; clients that hold another refuse.
    request_id
        Names this run; a client answers the same request with the same bytes.
    progress
        Told about every answer and every step of the server's training.
    """

    rounds = 1
    scratch: Path | None = None  # where answers wait that are too many for memory; None: the machine's temporary files

    def __init__(
        self,
        settings: S,
        *,
        data: FederatedData,
        device: str,
        nodes: int,
        fingerprint: str,
        request_id: str,
        progress: Progress,
    ) -> None:
        self.settings = settings
        self.data = data
        self.device = device
        self.nodes = nodes
        self.fingerprint = fingerprint
        self.request_id = request_id
        self.progress = progress

    @abstractmethod
    def request(self, server_round: int) -> Arrays:
        """Arrays that every client gets in this round."""

    @abstractmethod
    def read(self, arrays: Arrays) -> npt.NDArray[Any]:
        """The ballot in an answer; raises WireError for a bad one."""

    @abstractmethod
    def combine(self, server_round: int, answers: Sequence[Answer]) -> dict[str, Any]:
        """What the server makes of a round's good answers (sorted by client); returns the round's metrics."""

    def fold(self, server_round: int) -> Fold[dict[str, Any]]:
        """What takes the round's good answers as they come, and gives its metrics.

        Here all are kept until the end, for :meth:`combine`; a method that adds them up takes in each and keeps none.
        """
        return self.everyone().then(partial(self.combine, server_round))

    def everyone(self) -> Fold[Shelf]:
        """All answers of a round, sorted by client."""
        return everyone(Shelf(self.scratch))

    @abstractmethod
    def outcome(self) -> Mapping[str, Any]:
        """The method's part of the result: ``metrics``, ``distill_s``, ``warnings``."""

    def facts(self, client_id: int | None = None) -> Facts:
        """Public numbers that the noise depends on: of one client; None: for what is stated of all."""
        size = self.data.parts[client_id].size if client_id is not None else 0
        return Facts(
            classes=len(self.data.classes),
            records=max(1, int(size)),
            arrived=self.arrived,
            all_records=self.data.records,
            largest_client=self.data.largest,
            client=client_id,
        )

    @property
    def arrived(self) -> int | None:
        """Ballots that were combined in the last round; None: none is done."""
        return None

    def composition(self, client_id: int | None = None) -> Composition:
        """What one client is charged for; None: what is stated of all."""
        return self.settings.composition(self.facts(client_id))

    def guarantees(self) -> list[Guarantee]:
        """What the run promises, or that it promises nothing; the first is the headline."""
        return self.composition().guarantees()

    def ready(self) -> list[Guarantee]:
        """What the run promises, before anybody is asked; a method also refuses here what it can foresee to fail.

        Raises
        ------
        SettingsError
            If the settings cannot work with these data.
        """
        return self.guarantees()

    def charged_as(self, server_round: int) -> str:
        """The name under which the answers of a round are charged."""
        return f"{self.request_id}/{server_round}"

    @property
    def asks_all(self) -> bool:
        """Whether all clients are asked in every round, so that the order in which they stand means nothing."""
        return True

    def cohort(self, server_round: int, connected: list[Name]) -> list[Name]:
        """Which of the connected clients are asked in this round: all of them."""
        return connected

    @property
    def min_clients(self) -> int:
        """Good answers without which a round fails."""
        return min(self.settings.min_clients, self.nodes)

    def min_clients_of(self, asked: int) -> int:
        """Good answers without which a round fails, of ``asked`` clients."""
        return self.min_clients

    def state(self) -> Mapping[str, npt.NDArray[Any]] | None:
        """What the server needs to go on after the round just done; None: a run starts at its first round again."""
        return None

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take up what :meth:`state` gave."""

    def save(self, folder: Any) -> None:
        """Write what the method keeps besides the result (released labels, the server's model)."""

    def new_student(self, input_shape: tuple[int, ...], *numbers: int) -> Learner:
        """An untrained learner of the server's, seeded by the run's seed; numbers tell several of them apart."""
        settings = self.settings
        if not isinstance(settings, ServerTraining):
            raise TypeError(f"{type(settings).__name__} lacks the part ServerTraining, which says how a server trains")
        return make_learner(
            settings.server_model,
            n_classes=len(self.data.classes),
            input_shape=input_shape,
            seed=seed_of(settings.seed, Stream.STUDENT, *numbers),
            device=self.device,
            epochs=settings.server_epochs,
            batch_size=settings.server_batch_size,
            lr=settings.server_lr,
            role="student",
            multi_label=self.data.multi_label,
            augment=self.data.augment,
        )

    @property
    def aggregation(self) -> dict[str, Any]:
        """How ballots that are added up come together, for the result; empty for other methods."""
        return {}

    @property
    def exchanging(self) -> bool:
        """Whether the round needs a further exchange of messages before it has a result."""
        return False
