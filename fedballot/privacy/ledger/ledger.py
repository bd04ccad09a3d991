"""A client's privacy ledger: what was spent about one population, on its own disk, and what it got for it.

A charge is on disk before its release exists, and a release is on disk before anybody sees it. So a crash can waste
budget but never hide spending, and asking twice returns what was said the first time instead of a second draw. A
request is bound to a digest of all that it asks: under another digest the same name is refused.

Files in the ledger's folder: `ledger.jsonl`, one JSON object per line, each with the hash of the one before;
`releases/`, arrays by request; `ledger.lock`. Lines are only ever added, by replacing the whole file in one step, so
that no crash leaves half a line. The chain shows edits and losses, stored releases show lines that were cut off at the
end. A whole older ledger shows nothing: whoever has seen a `head`, the hash of the last line, can ask whether the chain
still holds it (:meth:`Ledger.unknown`).

What was released and is in no ledger any more is charged as a whole (:class:`Lost`): the ledger that is gone did not
let more than its limit out.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedballot.core.errors import RunError, SettingsError
from fedballot.privacy.accounting import gaussian, to_plain
from fedballot.privacy.ledger.account import Account, Costs, RequestError, Version
from fedballot.privacy.ledger.chain import Chain
from fedballot.privacy.ledger.lines import FORMAT, Line, broken
from fedballot.privacy.ledger.lock import locked
from fedballot.privacy.ledger.reader import LedgerReader, file_state
from fedballot.privacy.ledger.releases import Arrays, write_whole


@dataclass(frozen=True)
class Admission:
    """A request that the ledger may be charged for; nothing is charged yet.

    Parameters
    ----------
    request, digest : str
    costs : mapping of str to Cost
    uncharged : sequence of str
    seeded : bool
        As :meth:`Ledger.release` takes them.
    chain : Chain
        In which it was looked up: as long as the ledger has no further line, it need not be looked up again.
    """

    request: str
    costs: Costs
    digest: str
    uncharged: Sequence[str] = ()
    seeded: bool = False
    chain: Chain | None = field(default=None, repr=False, compare=False)


class Ledger(LedgerReader):
    """The ledger in `folder`, created if there is none.

    One object reads and verifies the file once, and again only when another one has written to it.

    Parameters
    ----------
    folder : Path
    account : Account, optional
        What the caller believes the ledger to be about. Without it, an existing ledger is opened as it is.
    wait : float
        Seconds to wait for another process.

    Raises
    ------
    SettingsError
        If the ledger is about another client, population, unit, adjacency, budget or accountant.
    DataError
        If the file is torn or edited, or of another format.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from fedballot.privacy.accounting import GaussianCost
    >>> account = Account("hospital a", "patients of 2020", "record", "replace-one", epsilon=1.0, delta=1e-5)
    >>> ledger = Ledger(Path(tempfile.mkdtemp()), account)
    >>> costs = {"sum": GaussianCost(0.1)}
    >>> answer = ledger.release("round 1", costs, lambda: {"sum": np.ones(2)}, digest="all that was asked")
    >>> ledger.release("round 1", costs, lambda: {"sum": np.zeros(2)}, digest="all that was asked")["sum"]
    array([1., 1.])
    >>> f"{ledger.spent():.3g} of {ledger.account.epsilon:g}"
    '0.341 of 1'
    """

    def __init__(self, folder: Path, account: Account | None = None, *, wait: float = 60.0) -> None:
        super().__init__(folder)
        self._wait = wait
        if account is None:
            if not self.path.exists():
                raise SettingsError(f"{self.path}: there is no ledger here.")
            _ = self.account
            return
        self.releases.folder.mkdir(parents=True, exist_ok=True)
        with self.locked():
            if not self.path.exists():
                if any(self.releases.folder.iterdir()):
                    raise broken(self.path, 0, "is gone, but its releases are there")
                self.append(Chain(self.path), {"kind": "open", "format": FORMAT, **asdict(account)})
        self.require(account)

    # releasing

    def admit(
        self, request: str, costs: Costs, digest: str, *, uncharged: Sequence[str] = (), seeded: bool = False
    ) -> Admission:
        """Look whether :meth:`release` would answer this; changes nothing.

        Returns
        -------
        Admission
            For :meth:`answer`.

        Raises
        ------
        BudgetError, RequestError
            As :meth:`release`.
        """
        chain = self.read()
        chain.admit(request, costs, digest)
        return Admission(request, costs, digest, tuple(uncharged), seeded, chain)

    def release(
        self,
        request: str,
        costs: Costs,
        draw: Callable[[], Mapping[str, NDArray[Any]]],
        *,
        digest: str,
        uncharged: Sequence[str] = (),
        seeded: bool = False,
    ) -> Arrays:
        """Charge, then draw, store and return a release; or return the stored one if this request was answered before.

        Parameters
        ----------
        request : str
        costs : mapping of str to Cost
            What each part of the release costs, by its name.
        draw : callable
            Makes the parts; called at most once per process and request, only after the charge is on disk.
        digest : str
            Of all that the request asks.
        uncharged : sequence of str
            Parts that are released as they are, without a guarantee; noted beside the charge.
        seeded : bool
            Whether the noise comes from a seed, so that the costs protect nobody; noted beside the charge.

        Returns
        -------
        dict of str to ndarray

        Raises
        ------
        BudgetError
            If the charge would exceed the budget.
        RequestError
            If the request was asked with another digest, or charged with other costs.
        RunError
            If another process holds the ledger for too long, or a part comes out that was not named.
        """
        return self.answer(self.admit(request, costs, digest, uncharged=uncharged, seeded=seeded), draw)

    def answer(self, admission: Admission, draw: Callable[[], Mapping[str, NDArray[Any]]]) -> Arrays:
        """Do what :meth:`release` does, for a request that was admitted; looked up again if others wrote meanwhile."""
        request, costs, uncharged = admission.request, admission.costs, admission.uncharged
        with self.locked():
            chain = self.read()
            if chain is not admission.chain:
                chain.admit(request, costs, admission.digest)
            arrays = self._stored(chain, request)
            if arrays is not None:
                return arrays
            if chain.charge(request) is None:
                self.append(chain, _charge(admission))
        parts = None
        if not self.releases.path(request).exists():  # it exists if the process died between storing and noting it
            parts = draw()  # not under the lock: it may train for hours
            if set(parts) != {*costs, *uncharged}:
                raise RunError(
                    f"{self.path}: request {request!r} was charged for {', '.join(costs) or 'nothing'}, but "
                    f"{', '.join(parts) or 'nothing'} came out; it is not released."
                )
        with self.locked():
            chain = self.read()
            arrays = self._stored(chain, request)
            if arrays is not None:  # by another process, meanwhile: only the first draw is ever told
                return arrays
            if parts is not None and not self.releases.path(request).exists():
                self.releases.store(request, parts)
            sha256 = self.releases.sha256(request)
            self.append(chain, {"kind": "release", "request": request, "sha256": sha256})
            return self.releases.load(request, sha256)

    # notes

    def bind(self, request: str, digest: str) -> None:
        """Note what a request asks, before anything is charged for it.

        Raises
        ------
        RequestError
            If the request was bound to another digest.
        """
        with self.locked():
            chain = self.read()
            chain.require_digest(request, digest)
            if chain.digest(request) is None:
                self.append(chain, {"kind": "request", "request": request, "digest": digest})

    def set_budget(self, epsilon: float) -> None:
        """Record another budget; a smaller one than was spent stops all further releases."""
        gaussian.check_epsilon(epsilon)
        with self.locked():
            self.append(self.read(), {"kind": "budget", "epsilon": epsilon})

    def register(self, version: Version, note: str = "") -> None:
        """Note that from now on charges are about another version of the population's data; what was spent stays.

        Parameters
        ----------
        version : Version
        note : str
            Why it differs from the one before, in the words of whoever decided it.
        """
        with self.locked():
            self.append(self.read(), {"kind": "data", **asdict(version), "note": note})

    def open(self, request: str, session: str) -> None:
        """Note that this client helps to open the sum of a request, once and for all.

        Raises
        ------
        RequestError
            If it helped to open it in another session.
        """
        with self.locked():
            chain = self.read()
            before = chain.session(request)
            if before is None:
                if chain.restored_since(request):
                    raise RequestError(
                        f"{self.path}: request {request!r} was asked before the ledger was restored, so its sum may "
                        "have been opened in lines that are lost."
                    )
                self.append(chain, {"kind": "opened", "request": request, "session": session})
            elif before != session:
                raise RequestError(f"{self.path}: the sum of request {request!r} was opened before.")

    def append(self, chain: Chain, body: Line) -> Chain:
        """Put a further line on disk, under the lock; return the chain with it."""
        longer = chain.followed_by(body)
        write_whole(self.path, longer.content)
        self._chain, self._state = longer, file_state(self.path)  # nobody else writes: the lock is held
        return longer

    def locked(self) -> AbstractContextManager[None]:
        """Hold off all other processes.

        Raises
        ------
        RunError
            If another one holds the ledger for too long.
        """
        return locked(self.folder, self._wait)


def _charge(admission: Admission) -> Line:
    note: dict[str, Any] = {"uncharged": list(admission.uncharged)} if admission.uncharged else {}
    return {
        "kind": "charge",
        "request": admission.request,
        "digest": admission.digest,
        "costs": {part: to_plain(cost) for part, cost in admission.costs.items()},
        **note,
        **({"seeded": True} if admission.seeded else {}),
    }
