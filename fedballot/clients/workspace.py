"""What a client works with: its number, settings, view of the data, folder, device and ledger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fedballot.core.errors import FedballotError
from fedballot.core.folders import ClientFolder
from fedballot.core.metrics import auc_per_class, confusion_matrix
from fedballot.core.seeds import seed_of
from fedballot.datasets.examples import Examples
from fedballot.datasets.federation import FederatedData
from fedballot.learners.base import Learner
from fedballot.learners.options import Optimizer
from fedballot.learners.registry import make_learner
from fedballot.privacy.guarantee import Unit
from fedballot.privacy.ledger import Account, Ledger
from fedballot.privacy.mechanism import Composition
from fedballot.settings.parts import CommonSettings, LocalTraining

S = TypeVar("S", bound=CommonSettings)
EVALUATED = 1000  # test records on which a client measures its own model: enough for +-1.5 points


class Refusal(FedballotError):
    """A request that the client will not answer; ``reason`` is a short fixed word for counting.

    It may depend on public facts only: the request, the settings, the client's rules and what it has spent.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True)
class Workspace(Generic[S]):
    """One client: its number, settings, view of the data, folder and device.

    Parameters
    ----------
    ledger
        The ledger that it keeps (a site); None: one of this run's own.
    read
        Reads its records; None: its part of the federation's data.
    ranks
        Its rows in an order that is the records' own, not the file's; None: as they come.
    version
        Of its records: a request that was asked about others is another one.
    records_per_person
        Most records of one person among its own; 0: nobody says whose record each is.
    masks_only
        Whether what protects it only in a sum never leaves in the clear.
    limit
        Context in which it works on its records; ends work that takes too long by an error.
    """

    client_id: int
    settings: S
    data: FederatedData
    folder: ClientFolder
    device: str
    ledger: Ledger | None = None
    read: Callable[[], Examples] | None = None
    ranks: Callable[[], npt.NDArray[np.int64]] | None = None
    version: str = ""
    records_per_person: int = 0
    masks_only: bool = False
    limit: Callable[[], AbstractContextManager[None]] = nullcontext

    @property
    def records(self) -> int:
        """How many records the client has; public where records are what is protected (replace-one)."""
        return int(self.data.parts[self.client_id].size)

    def counted(self, unit: Unit) -> int:
        """How many records a unit has at most, where its cost grows with them: a person's; 1 for other units."""
        return self.records_per_person if unit == "person" else 1

    def private(self) -> Examples:
        """The client's own records, copied out of the memory map.

        Raises
        ------
        Refusal
            If the client has no records.
        """
        rows = self.data.parts[self.client_id]
        if rows.size == 0:
            raise Refusal("empty", "the client has no private records")
        if self.read is not None:
            return self.read()
        everything = self.data.private
        return Examples(x=np.asarray(everything.x[rows]), y=np.asarray(everything.y[rows]), groups=None)

    def open_ledger(self, composition: Composition) -> Ledger:
        """The client's ledger: its own where it keeps one, else one in its folder whose budget is that of this run.

        Raises
        ------
        Refusal
            If the client keeps a ledger of another unit or adjacency: there the costs would be too small. If the answer
            needs a server that adds up and shows no single one, and what leaves this site leaves under masks.
        """
        if self.masks_only and composition.trust.kind == "trusted aggregator":
            raise Refusal("policy", "answers that need a trusted server: what leaves this site leaves under masks")
        if self.ledger is None:
            who = f"client {self.client_id}"
            account = Account(
                who,
                who,
                composition.unit,
                composition.adjacency,
                composition.budget,
                composition.delta,
                composition.accountant,
            )
            return Ledger(self.folder.path / "ledger", account)
        kept = self.ledger.account
        if not composition.protects(kept.unit, kept.adjacency):
            raise Refusal(
                "policy",
                f"this client's ledger is about {kept.unit}s under {kept.adjacency}, the method's costs about "
                f"{composition.unit}s under {composition.adjacency}: they cannot be added; it takes a ledger of "
                "another unit, or another method",
            )
        return self.ledger

    def new_learner(
        self,
        name: str,
        *,
        epochs: int,
        batch_size: int,
        lr: float,
        streams: Sequence[int] = (),
        optimizer: Optimizer = "adamw",
    ) -> Learner:
        """An untrained learner, seeded by the run's seed, the client's number and, where given, further numbers."""
        settings = self.settings
        seed = seed_of(settings.seed, self.client_id, *streams)
        return make_learner(
            name,
            n_classes=len(self.data.classes),
            input_shape=self.data.public_x.shape[1:],
            seed=seed,
            device=self.device,
            epochs=epochs,
            batch_size=batch_size,
            lr=lr,
            multi_label=self.data.multi_label,
            augment=self.data.augment,
            optimizer=optimizer,
        )

    def own_learner(self, batch_size: int | None = None) -> Learner:
        """The client's own kind of learner: ``client_models`` dealt out in turn; other batches than ``batch_size``."""
        settings = self.settings
        if not isinstance(settings, LocalTraining):
            raise TypeError(f"{type(settings).__name__} lacks the part LocalTraining, which says how clients train")
        name = settings.client_models[self.client_id % len(settings.client_models)]
        size = batch_size or settings.batch_size
        return self.new_learner(name, epochs=settings.epochs, batch_size=size, lr=settings.lr)

    def confusion(self, learner: Learner, rows: int | None = None) -> npt.NDArray[np.int64]:
        """Confusion matrix (C, C) of a learner on the first ``rows`` test records (all if None)."""
        n_classes = len(self.data.classes)
        logits = learner.predict_logits(self.data.test_x[:rows])[:, :n_classes]
        return confusion_matrix(self.data.test_y[:rows], logits.argmax(axis=1), n_classes)

    def measured(self, learner: Learner, rows: int | None = None) -> dict[str, Any]:
        """What the client notes about its learner: a confusion matrix, or the AUC of each of several labels."""
        if not self.data.multi_label:
            return {"confusion": self.confusion(learner, rows).tolist()}
        return {"auc": auc_per_class(self.data.test_y[:rows], learner.predict_logits(self.data.test_x[:rows]))}
