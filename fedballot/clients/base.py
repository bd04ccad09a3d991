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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from flwr.client import NumPyClient

from fedballot.clients.workspace import Refusal, Workspace
from fedballot.core.errors import FedballotError
from fedballot.datasets.federation import FederatedData
from fedballot.privacy.ledger import BudgetError, Ledger, RequestError
from fedballot.privacy.mechanism import Composition, Facts, Mechanism
from fedballot.privacy.noise.randomness import NoiseSource, secret_noise
from fedballot.settings.parts import CommonSettings
from fedballot.wire.messages import Config, Scalar
from fedballot.wire.packing import WireError, unpack_labels

Arrays = list[npt.NDArray[np.generic]]
Release = Mapping[str, npt.NDArray[Any]]
S = TypeVar("S", bound=CommonSettings)

LONGEST_NAME = 200  # characters of a request's name, which goes into the ledger as it is


@dataclass(frozen=True)
class Asked:
    """A request's name, and the digest of all that it asks."""

    name: str
    digest: str


class BallotClient(NumPyClient, Generic[S]):
    """A Flower client that charges before it looks, and turns every error into a blank answer or a refusal.

    A method says what a request asks (:meth:`question`), what an answer is before noise (:meth:`exact`), what it is
    for a client that has nothing to say (:meth:`blank`), and how it is packed (:meth:`pack`). What leaves and what it
    costs follows from the settings' composition.
    """

    failed = False  # whether the client's own work failed, so that its answer is blank

    def __init__(self, workspace: Workspace[S]) -> None:
        self.workspace = workspace

    @property
    def settings(self) -> S:
        """The resolved settings."""
        return self.workspace.settings

    @property
    def data(self) -> FederatedData:
        """The public set and the classes, as this client has them."""
        return self.workspace.data

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
        workspace = self.workspace
        records = max(1, workspace.records)
        return Facts(classes=len(workspace.data.classes), records=records, client=workspace.client_id)

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
        for path in ("public_dataset", "schema"):  # of the client's own; the fingerprint says what is in them
            settings.pop(path)
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

    def get_properties(self, config: Config) -> dict[str, Scalar]:
        """The client's number, for servers of simulations: Flower calls virtual clients by random numbers."""
        return {"client_id": self.workspace.client_id}

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
                encoded = self.workspace.data.encoder is not None
                through = "; it covers the encoder as well as the records" if encoded else ""
                raise Refusal("fingerprint", f"the server's public set is {expected}, this client's is {own}{through}")
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
    """The public rows that a request asks about, int64 (count,): sent as such, or as a bit for each row of the pool.

    Raises
    ------
    Refusal
        If it holds anything else than that many different rows of the pool.
    """
    if len(arrays) != 1 or arrays[0].ndim != 1 or not np.issubdtype(arrays[0].dtype, np.integer):
        raise Refusal("request", "a request must hold one vector of query indices")
    rows = marked(arrays[0], public_size) if arrays[0].dtype == np.uint8 else arrays[0].astype(np.int64)
    if rows.size != count:
        raise Refusal("request", f"{rows.size} queries asked, {count} agreed")
    if np.unique(rows).size != rows.size or rows.min() < 0 or rows.max() >= public_size:
        raise Refusal("request", "query indices must be different rows of the public pool")
    return rows


def marked(bits: npt.NDArray[np.generic], public_size: int) -> npt.NDArray[np.int64]:
    """The rows of the pool whose bit is set, in order.

    Raises
    ------
    Refusal
        If there are not as many bits as rows.
    """
    try:
        return np.flatnonzero(unpack_labels(bits, public_size, 2))
    except WireError as error:
        raise Refusal("request", f"query bits: {error}") from error
