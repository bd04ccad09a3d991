"""What every party does with a request: check it, answer it, or refuse with a reason that holds no data."""

from __future__ import annotations

import time
import traceback
from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from flwr.client import NumPyClient
from flwr.common import Scalar

from fedballot.datasets.examples import Examples
from fedballot.datasets.federation import FederatedData
from fedballot.datasets.fingerprint import records_fingerprint
from fedballot.errors import FedballotError
from fedballot.learners.base import Learner
from fedballot.learners.registry import make_learner
from fedballot.metrics import auc_per_class, confusion_matrix
from fedballot.privacy.accounting import Accountant
from fedballot.privacy.guarantee import Adjacency, Unit
from fedballot.privacy.ledger import Account, Ledger
from fedballot.runfolder import AgentFolder
from fedballot.settings import CommonSettings

Arrays = list[npt.NDArray[np.generic]]
S = TypeVar("S", bound=CommonSettings)

EVALUATED = 1000  # test records on which an agent measures its own model: enough for +-1.5 points


class Refusal(FedballotError):
    """A request that the party will not answer; ``reason`` is a short fixed word for counting."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True)
class Party(Generic[S]):
    """One party: its number, settings, view of the data, folder, device, and its ledger if it keeps one."""

    agent: int
    settings: S
    data: FederatedData
    folder: AgentFolder
    device: str
    ledger: Ledger | None = None

    def private(self) -> Examples:
        """The party's own records, copied out of the memory map.

        Raises
        ------
        Refusal
            If the party has no records.
        """
        rows = self.data.parts[self.agent]
        if rows.size == 0:
            raise Refusal("empty", "the party has no private records")
        everything = self.data.private
        return Examples(x=np.asarray(everything.x[rows]), y=np.asarray(everything.y[rows]), groups=None)

    def open_ledger(
        self,
        unit: Unit,
        adjacency: Adjacency,
        epsilon: float,
        delta: float,
        accountant: Accountant = "exact",
        *,
        also: Collection[tuple[Unit, Adjacency]] = (),
        data: str = "",
    ) -> Ledger:
        """The party's ledger: its own where it keeps one, else one in its folder whose budget is that of this run.

        Parameters
        ----------
        unit, adjacency
            What the costs that will be charged speak of.
        epsilon, delta, accountant
            Of a ledger that is opened here for the first time.
        also
            Other units and adjacencies under which the costs are no larger.
        data : str
            What such a ledger calls the party's data; empty: their fingerprint.

        Raises
        ------
        Refusal
            If the party keeps a ledger of another unit or adjacency: there the costs would be too small.
        """
        if self.ledger is None:
            if not data:
                private = self.private()
                data = records_fingerprint(private.x, private.y)
            account = Account(f"agent {self.agent}", data, unit, adjacency, epsilon, delta, accountant)
            return Ledger(self.folder.path / "ledger", account)
        kept = self.ledger.account
        if (kept.unit, kept.adjacency) not in ((unit, adjacency), *also):
            raise Refusal(
                "policy",
                f"this party's ledger is about {kept.unit}s under {kept.adjacency}, the method's costs about {unit}s "
                f"under {adjacency}: they cannot be added; it takes a ledger of another unit, or another method",
            )
        return self.ledger

    def new_learner(
        self, name: str, *, epochs: int, batch_size: int, lr: float, streams: Sequence[int] = ()
    ) -> Learner:
        """An untrained learner, seeded by the run's seed, the party's number and, where given, further numbers."""
        settings = self.settings
        seed = int(np.random.SeedSequence([settings.seed, self.agent, *streams]).generate_state(1)[0])
        return make_learner(
            name,
            n_classes=len(self.data.classes),
            input_shape=self.data.public_x.shape[1:],
            seed=seed,
            device=self.device,
            epochs=epochs,
            batch_size=batch_size,
            lr=lr,
            role="teacher",
            multi_label=self.data.multi_label,
        )

    def own_learner(self) -> Learner:
        """The party's own kind of learner: ``client_models`` dealt out in turn."""
        settings = self.settings
        name = settings.client_models[self.agent % len(settings.client_models)]
        return self.new_learner(name, epochs=settings.epochs, batch_size=settings.batch_size, lr=settings.lr)

    def confusion(self, learner: Learner, rows: int | None = None) -> npt.NDArray[np.int64]:
        """Confusion matrix (C, C) of a learner on the first ``rows`` test records (all if None)."""
        n_classes = len(self.data.classes)
        logits = learner.predict_logits(self.data.test_x[:rows])[:, :n_classes]
        return confusion_matrix(self.data.test_y[:rows], logits.argmax(axis=1), n_classes)

    def measured(self, learner: Learner, rows: int | None = None) -> dict[str, Any]:
        """What the party notes about its learner: a confusion matrix, or the AUC of each of several labels."""
        if not self.data.multi_label:
            return {"confusion": self.confusion(learner, rows).tolist()}
        return {"auc": auc_per_class(self.data.test_y[:rows], learner.predict_logits(self.data.test_x[:rows]))}


class PartyClient(NumPyClient, Generic[S]):
    """A Flower client that turns every error into a refusal: a word for the server, details in the party's folder."""

    def __init__(self, party: Party[S]) -> None:
        self.party = party

    @abstractmethod
    def answer(self, arrays: Arrays, config: dict[str, Scalar]) -> Arrays:
        """The arrays that leave the party for this request."""

    def tells_of_data(self, config: dict[str, Scalar]) -> bool:
        """Whether the answer to this request is made from private data, so that the ledger must have been asked."""
        return True

    def fit(self, parameters: Arrays, config: dict[str, Scalar]) -> tuple[Arrays, int, dict[str, Scalar]]:
        """Answer a request.

        Returns the ballot, 1 (a party's size is its own affair) and metrics: the agent's number, seconds of work,
        and the reason and detail of a refusal.
        """
        began, clock = time.time(), time.perf_counter()
        out: Arrays = []
        refused = detail = ""
        try:
            expected, own = str(config["fingerprint"]), self.party.data.public_fingerprint
            if expected != own:
                raise Refusal("fingerprint", f"the server's public set is {expected}, this party's is {own}")
            out = self.answer(parameters, config)
        except Refusal as refusal:
            refused, detail = refusal.reason, str(refusal)
        except Exception as error:
            # an exception's text may quote data, so only its type leaves the party
            self.party.folder.log_error(traceback.format_exc())
            refused = "settings" if isinstance(error, FedballotError) else "raised"
            detail = f"{type(error).__name__}; the party's own folder says more"
        metrics: dict[str, Scalar] = {
            "agent": self.party.agent,
            "began": began,
            "compute_s": time.perf_counter() - clock,
            "refused": refused,
            "detail": detail,
        }
        return out, 1, metrics


def query_rows(arrays: Arrays, count: int, public_size: int) -> npt.NDArray[np.int64]:
    """The public rows that a request asks about, int64 (count,).

    Raises
    ------
    Refusal
        If it holds anything else than that many different rows of the pool.
    """
    if len(arrays) != 1 or arrays[0].ndim != 1 or not np.issubdtype(arrays[0].dtype, np.integer):
        raise Refusal("request", "a request must hold one vector of query indices")
    rows = arrays[0].astype(np.int64)
    if rows.size != count:
        raise Refusal("request", f"{rows.size} queries asked, {count} agreed")
    if np.unique(rows).size != rows.size or rows.min() < 0 or rows.max() >= public_size:
        raise Refusal("request", "query indices must be different rows of the public pool")
    return rows
