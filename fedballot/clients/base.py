"""What every client does with a request: look at it, charge it, answer it; or refuse it, for public reasons only.

The order is the point. Rules, budget and the request itself are looked at before private data are touched. Then the
charge is on disk, bound to a digest of all that was asked; then private data are read, the answer is stored, and it
leaves. After the charge a failure is an answer: a blank one, with its noise. So whether a client refuses tells nothing
about its records, and no request is answered twice under other parameters.
"""

from __future__ import annotations

import hashlib
import json
import time
import traceback
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from flwr.client import NumPyClient

from fedballot.core.errors import FedballotError
from fedballot.core.folders import ClientFolder
from fedballot.core.metrics import auc_per_class, confusion_matrix
from fedballot.datasets.examples import Examples
from fedballot.datasets.federation import FederatedData
from fedballot.learners.base import Learner
from fedballot.learners.registry import make_learner
from fedballot.privacy.guarantee import Unit
from fedballot.privacy.ledger.ledger import Account, BudgetError, Ledger, RequestError
from fedballot.privacy.mechanism import Composition, Facts, Mechanism
from fedballot.privacy.noise.randomness import NoiseSource, secret_noise
from fedballot.settings.parts import CommonSettings
from fedballot.wire.messages import Config, Scalar

Arrays = list[npt.NDArray[np.generic]]
Release = Mapping[str, npt.NDArray[Any]]
S = TypeVar("S", bound=CommonSettings)

EVALUATED = 1000  # test records on which a client measures its own model: enough for +-1.5 points
LONGEST_NAME = 200  # characters of a request's name, which goes into the ledger as it is


class Refusal(FedballotError):
    """A request that the client will not answer; ``reason`` is a short fixed word for counting.

    It may depend on public facts only: the request, the settings, the client's rules and what it has spent.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True)
class Asked:
    """A request's name, and the digest of all that it asks."""

    name: str
    digest: str


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
        self, name: str, *, epochs: int, batch_size: int, lr: float, streams: Sequence[int] = ()
    ) -> Learner:
        """An untrained learner, seeded by the run's seed, the client's number and, where given, further numbers."""
        settings = self.settings
        seed = int(np.random.SeedSequence([settings.seed, self.client_id, *streams]).generate_state(1)[0])
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
        )

    def own_learner(self) -> Learner:
        """The client's own kind of learner: ``client_models`` dealt out in turn."""
        settings = self.settings
        name = settings.client_models[self.client_id % len(settings.client_models)]
        return self.new_learner(name, epochs=settings.epochs, batch_size=settings.batch_size, lr=settings.lr)

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


class BallotClient(NumPyClient, Generic[S]):
    """A Flower client that charges before it looks, and turns every error into a blank answer or a refusal.

    A method says what a request asks (:meth:`question`), what an answer is before noise (:meth:`exact`), what it is
    for a client that has nothing to say (:meth:`blank`), and how it is packed (:meth:`pack`). What leaves and what it
    costs follows from the settings' composition.
    """

    failed = False  # whether the client's own work failed, so that its answer is blank

    def __init__(self, workspace: Workspace[S]) -> None:
        self.workspace = workspace

    # what a method fills in

    @abstractmethod
    def question(self, arrays: Arrays, config: Config) -> Any:
        """What a request asks, read and checked; touches nothing private.

        Raises
        ------
        Refusal
            If it is not a request of this method.
        """

    def facts(self, question: Any) -> Facts:
        """Public numbers that the noise depends on; touches nothing private."""
        return Facts(classes=len(self.workspace.data.classes), records=max(1, self.workspace.records))

    @abstractmethod
    def exact(self, question: Any) -> Mapping[str, Any]:
        """Each part before its noise, from private records."""

    def blank(self, question: Any) -> Mapping[str, Any]:
        """Each part, before its noise, of a client that has nothing to say."""
        raise NotImplementedError("a method whose parts have costs says what a blank answer is")

    @abstractmethod
    def pack(self, question: Any, release: Release) -> Arrays:
        """The arrays that leave the client; a function of the release and of public things."""

    def noise(self, part: str, question: Any) -> NoiseSource:
        """Where the noise of a part comes from."""
        return secret_noise(getattr(self.workspace.settings, "noise_seed", None), self.workspace.client_id)

    # the order of things, the same for all methods

    def composition(self, question: Any) -> Composition:
        """The mechanisms that the settings and public facts lead to."""
        return self.workspace.settings.composition(self.facts(question))

    def answer(self, arrays: Arrays, config: Config) -> Arrays:
        """The arrays that leave the client for this request."""
        question = self.question(arrays, config)
        return self.pack(question, self.release(question, self.asked(arrays, config)))

    def asked(self, arrays: Arrays, config: Config) -> Asked:
        """The request's name, and a digest of method, settings, records' version, public set, round and arrays."""
        return Asked(request_name(config), f"{self.settings_digest(config)}.{arrays_digest(arrays)}")

    def settings_digest(self, config: Config) -> str:
        """Digest of what a request asks but for its arrays; how and where a machine runs is no part of it."""
        workspace = self.workspace
        settings = workspace.settings.to_dict(machine=False)
        settings.pop("public_dataset")  # a path of the client's own; the fingerprint says which records they are
        kind = (type(self).__qualname__, type(workspace.settings).__qualname__)
        known = [*kind, settings, workspace.data.public_fingerprint, workspace.version, config.get("round")]
        return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:32]

    def release(self, question: Any, asked: Asked) -> Release:
        """What is told of a request: charged, drawn, stored, and the same for ever; or exact, where nothing is charged.

        Raises
        ------
        Refusal
            If the client's rules or budget do not allow it.
        """
        composition = self.composition(question)
        if not composition.recorded:
            self.refuse_uncharged(composition.uncharged)
            return self.exact(question)
        return self.charged(self.workspace.open_ledger(composition), question, asked, composition)

    def charged(self, ledger: Ledger, question: Any, asked: Asked, composition: Composition) -> Release:
        """See :meth:`release`."""
        unit = ledger.account.unit
        self.refuse_uncharged(composition.uncharged)
        with refusals():
            return ledger.release(
                asked.name,
                composition.costs(unit, self.workspace.counted(unit)),
                lambda: self.drawn(question, composition),
                digest=asked.digest,
                uncharged=composition.uncharged,
                seeded=composition.seeded,
            )

    def drawn(self, question: Any, composition: Composition) -> Release:
        """Each part with its noise; blank where the client's own work fails, for that may depend on its records."""
        try:
            with self.workspace.limit():
                return self.noisy(question, composition.parts, self.exact(question))
        except Exception as error:
            if not composition.private:
                raise  # nothing is promised, so a blank answer would hide the fault for nothing
            self.failed = True
            self.workspace.folder.log_blank(f"{type(error).__name__}", traceback.format_exc())
            return self.noisy(question, composition.parts, self.blank(question))

    def noisy(self, question: Any, parts: Mapping[str, Mechanism], exact: Mapping[str, Any]) -> Release:
        """Each part of an exact answer as it leaves."""
        for name in parts.keys() - exact.keys():
            raise KeyError(f"the composition names a part {name!r}, which the answer lacks")
        return {
            name: np.asarray(exact[name]) if part.central else part.release(exact[name], self.noise(name, question))
            for name, part in parts.items()
        }

    def refuse_uncharged(self, names: Sequence[str]) -> None:
        """Refuse at a site what would leave it without a charge."""
        if names and self.workspace.ledger is not None:
            raise Refusal(
                "policy", f"{', '.join(names)}: without noise or a guarantee; this site releases nothing uncharged"
            )

    def tells_of_data(self, config: Config) -> bool:
        """Whether the answer to this request is made from private data, so that the ledger must have been asked."""
        return True

    def fit(self, parameters: Arrays, config: Config) -> tuple[Arrays, int, dict[str, Scalar]]:
        """Answer a request.

        Returns the ballot, 1 (a client's size is its own affair) and metrics: the client's number, seconds of work,
        and the reason and detail of a refusal.
        """
        began, clock = time.time(), time.perf_counter()
        out: Arrays = []
        refused = detail = ""
        try:
            expected, own = str(config["fingerprint"]), self.workspace.data.public_fingerprint
            if expected != own:
                raise Refusal("fingerprint", f"the server's public set is {expected}, this client's is {own}")
            out = self.answer(parameters, config)
        except Refusal as refusal:
            refused, detail = refusal.reason, str(refusal)
        except Exception as error:
            # an exception's text may quote data, so only its type leaves the client
            self.workspace.folder.log_error(traceback.format_exc())
            refused = "settings" if isinstance(error, FedballotError) else "raised"
            detail = f"{type(error).__name__}; the client's own folder says more"
        metrics: dict[str, Scalar] = {
            "client_id": self.workspace.client_id,
            "began": began,
            "compute_s": time.perf_counter() - clock,
            "refused": refused,
            "detail": detail,
        }
        return out, 1, metrics


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what a ledger refuses into words that may leave the client."""
    try:
        yield
    except BudgetError as error:
        raise Refusal("budget", "the client's privacy budget does not allow this release") from error
    except RequestError as error:
        raise Refusal("request", "the request's name was used for another question before") from error


def request_name(config: Config) -> str:
    """The name of a request.

    Raises
    ------
    Refusal
        If it has none that a ledger may hold.
    """
    name = config.get("request")
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise Refusal("request", f"a request's name must be 1 to {LONGEST_NAME} printable characters")
    return name


def arrays_digest(arrays: Arrays) -> str:
    """Digest of arrays: dtypes, shapes and bytes."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype.str}{array.shape};".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:32]


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
