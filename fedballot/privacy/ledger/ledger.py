"""A client's privacy ledger: what was spent about one population, on its own disk, and what it got for it.

A charge is on disk before its release exists, and a release is on disk before anybody sees it. So a crash can waste
budget but never hide spending, and asking twice returns what was said the first time instead of a second draw. A
request is bound to a digest of all that it asks: under another digest the same name is refused.

Files in the ledger's folder: `ledger.jsonl`, one JSON object per line, each with the hash of the one before;
`releases/`, arrays by request; `ledger.lock`. Lines are only ever added, by replacing the whole file in one step, so
that no crash leaves half a line. The chain shows edits and losses, stored releases show lines that were cut off at the
end. A whole older ledger shows nothing: whoever has seen a `head`, the hash of the last line, can ask whether the chain
still holds it (:meth:`Ledger.unknown`). Each line has a random salt, so a head tells nothing but that.

What was released and is in no ledger any more is charged as a whole (:class:`Lost`): the ledger that is gone did not
let more than its limit out.
"""

import fcntl
import hashlib
import io
import json
import math
import os
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError, RunError, SettingsError
from fedballot.core.files import sync_folder, write_atomic
from fedballot.privacy import accounting
from fedballot.privacy.accounting import Accountant, Cost, DeltaCost, from_plain, gaussian, to_plain
from fedballot.privacy.guarantee import Adjacency, Unit
from fedballot.privacy.mechanisms.nfdp import NfdpSample
from fedballot.privacy.noise.randomness import NoiseSource

Arrays = dict[str, NDArray[Any]]
Costs = Mapping[str, Cost]
SAMPLE = "nfdp sample"  # request under which the index set is kept
FORMAT = 2  # of the lines; a ledger of another format is refused, never guessed at
_START = "0" * 64
_LIMITS = ("open", "budget", "restored")  # kinds of lines that tell an epsilon


class BudgetError(SettingsError):
    """A charge that the budget does not allow; nothing was charged."""


class RequestError(SettingsError):
    """A request whose name stands in the ledger for another question; nothing was charged."""


@dataclass(frozen=True)
class Account:
    """What a ledger is about; fixed when it is opened for the first time, but for the budget.

    Parameters
    ----------
    client, population : str
        Names; `population` says whose data these are, in whatever version: one ledger is about one population.
    unit, adjacency : str
        As in `Guarantee`.
    epsilon, delta : float
        The budget.
    accountant : {"exact", "rdp"}
        Of which a filter is known: whoever asks chooses each request in the light of earlier answers.
    """

    client: str
    population: str
    unit: Unit
    adjacency: Adjacency
    epsilon: float
    delta: float
    accountant: Accountant = "exact"

    def __post_init__(self) -> None:
        gaussian.check_epsilon(self.epsilon)
        gaussian.check_delta(self.delta)
        accounting.Filter(self.epsilon, self.delta, self.accountant)
        for name, allowed in (("unit", Unit), ("adjacency", Adjacency), ("accountant", Accountant)):
            if getattr(self, name) not in get_args(allowed):
                raise SettingsError(f"{name} = {getattr(self, name)!r}: allowed are {', '.join(get_args(allowed))}.")


@dataclass(frozen=True)
class Version:
    """One version of a population's data.

    Parameters
    ----------
    fingerprint : str
    records : int
        How many there are.
    records_per_person : int
        Most of them that are one person's; 0 where nobody says whose they are.
    """

    fingerprint: str
    records: int
    records_per_person: int = 0


@dataclass(frozen=True)
class Lost:
    """What the releases of a ledger that is gone may have told: no more than its limit, at its delta."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        gaussian.check_epsilon(self.epsilon)
        gaussian.check_delta(self.delta)


@dataclass(frozen=True)
class Spending:
    """All that was spent, apart from what the present limit allows.

    Epsilons and deltas of both kinds add (basic composition): the statement holds at `delta`, which grows with each
    loss.

    Parameters
    ----------
    rule : accounting.Filter
        By which the costs add up; its delta is theirs.
    lost : tuple of Lost
    costs : tuple of Cost
        What was charged and is not within a loss.
    """

    rule: accounting.Filter
    lost: tuple[Lost, ...] = ()
    costs: tuple[Cost, ...] = ()

    def after(self, line: Mapping[str, Any]) -> "Spending":
        """Return what was spent after a further line of the ledger."""
        if line["kind"] == "charge":
            return replace(self, costs=(*self.costs, *_costs([line])))
        if line["kind"] != "restored":
            return self
        lost = Lost(line["epsilon"], line["delta"])
        if line["covers"]:  # the ledger that is gone held all lines up to here, so its limit covers them
            return Spending(self.rule, (lost,))
        return replace(self, lost=(*self.lost, lost))

    @property
    def delta(self) -> float:
        """Delta of the statement, at most 1."""
        return min(1.0, math.fsum([self.rule.delta, *(one.delta for one in self.lost)]))

    def epsilon(self, *further: Cost) -> float:
        """The least budget that takes it, also with further costs; the one place where a ledger adds up."""
        return math.fsum([self.rule.spent([*self.costs, *further]), *(one.epsilon for one in self.lost)])


class Ledger:
    """The ledger in `folder`, created if there is none.

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
    """

    def __init__(self, folder: Path, account: Account | None = None, *, wait: float = 60.0) -> None:
        self.folder = Path(folder)
        self.path = self.folder / "ledger.jsonl"
        self._wait = wait
        if account is None:
            if not self.path.exists():
                raise SettingsError(f"{self.path}: there is no ledger here.")
        else:
            (self.folder / "releases").mkdir(parents=True, exist_ok=True)
            with self._locked():
                if not self.path.exists():
                    if any((self.folder / "releases").iterdir()):
                        raise self._broken(0, "is gone, but its releases are there")
                    self._append([], {"kind": "open", "format": FORMAT, **asdict(account)})
        known = self._account(self._read())
        for name, value in asdict(account or known).items():
            if getattr(known, name) != value:
                raise SettingsError(
                    f"{self.path}: {name} is {getattr(known, name)!r} in this ledger, not {value!r}. One ledger is "
                    "about one client's use of one population's data; change the budget with set_budget."
                )

    @property
    def account(self) -> Account:
        """What the ledger is about, with its present budget."""
        return self._account(self._read())

    @property
    def head(self) -> str:
        """Hash of the last line: whoever knows it can tell whether the ledger was cut or rewritten."""
        return str(self._read()[-1]["hash"])

    def lines(self) -> list[dict[str, Any]]:
        """Return all lines, verified."""
        return self._read()

    def verify(self) -> int:
        """Check the chain, every stored release and that all charges can be counted; return the number of lines.

        Raises
        ------
        DataError
            Naming the line, file or cost that is wrong.
        """
        lines = self._read()
        for line in lines:
            if line["kind"] == "release":
                self._load(line)
        _costs(lines)
        return len(lines)

    def costs(self) -> list[Cost]:
        """Return everything that was charged."""
        return _costs(self._read())

    def spent(self) -> float:
        """Return the least budget that takes all that was spent, at the delta of :meth:`spending`, or infinity."""
        return self.spending().epsilon()

    @property
    def rule(self) -> accounting.Filter:
        """The rule by which costs add up, fixed by the budget that the ledger was opened with."""
        return _filter(self._read())

    def spending(self) -> Spending:
        """Return all that was spent: charges, and what a ledger that is gone may have let out."""
        return self._spending(self._read())

    def unknown(self, heads: Collection[str]) -> list[str]:
        """Return those heads, of all that this ledger has shown, that are neither in its chain nor given up as lost.

        One that is says that lines are missing: an older ledger was put back, or a copy of it was used elsewhere.
        """
        known = self._known(self._read())
        return [head for head in heads if head not in known]

    def copy_to(self, folder: Path) -> int:
        """Copy the whole ledger to a new folder, verified and on disk; return the number of lines.

        The last line says so, in both: a copy that ends with it has not been used since.

        Raises
        ------
        SettingsError
            If there is something at `folder`, or it lies in the ledger's own.
        DataError
            If this ledger is not whole.
        """
        if folder.exists() or folder.is_symlink():
            raise SettingsError(f"{folder}: already there; name a new folder.")
        if self.folder.resolve() in folder.resolve().parents:
            raise SettingsError(f"{folder}: lies in the ledger's own folder, and is lost with it; name another place.")
        with self._locked():
            self.verify()
            self._append(self._read(), {"kind": "backup"})
            return self.write_copy(folder)

    def write_copy(self, folder: Path) -> int:
        """Copy the ledger as it is, verified and on disk; return the number of lines."""
        content, lines = self.path.read_bytes(), self._read()
        folder.parent.mkdir(parents=True, exist_ok=True)
        staged = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
        try:
            (staged / "releases").mkdir(parents=True)
            for made in (staged, staged / "releases"):
                made.chmod(0o700)
            for path in (self._file(line["request"]) for line in lines if line["kind"] == "charge"):
                if path.exists():
                    _write(staged / "releases" / path.name, path.read_bytes())
            _write(staged / "ledger.jsonl", content)
            count = Ledger(staged).verify()
            os.rename(staged, folder)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise
        sync_folder(folder.parent)
        return count

    def give_up(self, lost: Lost, heads: Collection[str], *, covers: bool) -> None:
        """Note that releases which are in no ledger any more are charged as `lost`.

        Parameters
        ----------
        lost : Lost
            No less than the limit of the ledger that is gone.
        heads : collection of str
            Of the ledger that is gone, as far as they are known.
        covers : bool
            Whether that ledger held all lines that are here, so that its limit covers their charges, too.
        """
        with self._locked():
            body = {"kind": "restored", **asdict(lost), "heads": [*heads], "covers": covers}
            self._append(self._read(), body)

    def give_up_heads(self, heads: Collection[str]) -> None:
        """Note further heads of the ledger that is gone, as long as nothing was charged since it was given up.

        Raises
        ------
        SettingsError
            If something was: then they may be of another loss.
        """
        with self._locked():
            lines = self._read()
            if not self._just_restored(lines):
                raise SettingsError(f"{self.path}: was not restored, or was charged since.")
            self._append(lines, {"kind": "heads", "heads": [*heads]})

    @property
    def just_restored(self) -> bool:
        """Whether a loss was noted and nothing was charged since."""
        return self._just_restored(self._read())

    @staticmethod
    def _just_restored(lines: list[dict[str, Any]]) -> bool:
        kinds = [line["kind"] for line in lines if line["kind"] in ("restored", "charge", "opened")]
        return bool(kinds) and kinds[-1] == "restored"

    @property
    def highest_limit(self) -> float:
        """The highest limit that the ledger ever had."""
        return max(float(line["epsilon"]) for line in self._read() if line["kind"] in _LIMITS)

    @property
    def raised_since_restored(self) -> bool:
        """Whether a limit was set after the last loss that was noted; also true where there was none."""
        return _raised_since_restored(self._read())

    def set_budget(self, epsilon: float) -> None:
        """Record another budget; a smaller one than was spent stops all further releases."""
        gaussian.check_epsilon(epsilon)
        with self._locked():
            self._append(self._read(), {"kind": "budget", "epsilon": epsilon})

    def bind(self, request: str, digest: str) -> None:
        """Note what a request asks, before anything is charged for it.

        Raises
        ------
        RequestError
            If the request was bound to another digest.
        """
        with self._locked():
            lines = self._read()
            self._check_digest(lines, request, digest)
            if self._digest(lines, request) is None:
                self._append(lines, {"kind": "request", "request": request, "digest": digest})

    def digest(self, request: str) -> str | None:
        """Return what a request is bound to, or None: it was never asked."""
        return self._digest(self._read(), request)

    def check(self, request: str, costs: Costs, digest: str) -> None:
        """Look whether :meth:`release` would charge this; changes nothing.

        Raises
        ------
        BudgetError, RequestError
            As :meth:`release`.
        """
        self._admit(self._read(), request, costs, digest)

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
        with self._locked():
            lines = self._read()
            self._admit(lines, request, costs, digest)
            stored = self._stored(lines, request)
            if stored is not None:
                return stored
            if self._charge(lines, request) is None:
                plain = {part: to_plain(cost) for part, cost in costs.items()}
                note = ({"uncharged": list(uncharged)} if uncharged else {}) | ({"seeded": True} if seeded else {})
                body = {"kind": "charge", "request": request, "digest": digest, "costs": plain, **note}
                self._append(lines, body)
        path, drawn = self._file(request), None
        if not path.exists():  # it exists if the process died between storing and noting it
            drawn = draw()  # not under the lock: it may train for hours
            if set(drawn) != {*costs, *uncharged}:
                raise RunError(
                    f"{self.path}: request {request!r} was charged for {', '.join(costs) or 'nothing'}, but "
                    f"{', '.join(drawn) or 'nothing'} came out; it is not released."
                )
        with self._locked():
            lines = self._read()
            stored = self._stored(lines, request)
            if stored is not None:  # by another process, meanwhile: only the first draw is ever told
                return stored
            if drawn is not None and not path.exists():
                _write(path, _pack(drawn))
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
            lines = self._append(lines, {"kind": "release", "request": request, "sha256": sha256})
            return self._load(lines[-1])

    def version(self) -> Version | None:
        """Return which version of the data the charges from now on are about, or None: none was registered."""
        found = [line for line in self._read() if line["kind"] == "data"]
        return Version(**{name: found[-1][name] for name in Version.__dataclass_fields__}) if found else None

    def register(self, version: Version, note: str = "") -> None:
        """Note that from now on charges are about another version of the population's data; what was spent stays.

        Parameters
        ----------
        version : Version
        note : str
            Why it differs from the one before, in the words of whoever decided it.
        """
        with self._locked():
            self._append(self._read(), {"kind": "data", **asdict(version), "note": note})

    def opened(self, request: str) -> str | None:
        """Return the session in which this client helped to open the sum of a request, or None."""
        found = [line for line in self._read() if line["kind"] == "opened" and line["request"] == request]
        return str(found[0]["session"]) if found else None

    def open(self, request: str, session: str) -> None:
        """Note that this client helps to open the sum of a request, once and for all.

        Raises
        ------
        RequestError
            If it helped to open it in another session.
        """
        with self._locked():
            known = self.opened(request)
            if known is None:
                if self._restored_since(self._read(), request):
                    raise RequestError(
                        f"{self.path}: request {request!r} was asked before the ledger was restored, so its sum may "
                        "have been opened in lines that are lost."
                    )
                self._append(self._read(), {"kind": "opened", "request": request, "session": session})
            elif known != session:
                raise RequestError(f"{self.path}: the sum of request {request!r} was opened before.")

    def stored(self, request: str) -> Arrays | None:
        """Return the release that answers this request already, or None; charges nothing."""
        return self._stored(self._read(), request)

    def sample(
        self, sample: NfdpSample, noise: NoiseSource, cost: DeltaCost | None = None, *, version: str = ""
    ) -> NDArray[np.int64]:
        """Return the one NFDP index set of these records, drawn and charged at the first call, the same ever after.

        Parameters
        ----------
        sample : NfdpSample
        noise : NoiseSource
        cost : DeltaCost, optional
            What it is charged as, no less than its own cost, which it is by default.
        version : str
            Of the records: others have a sample of their own, at a charge of its own.

        Raises
        ------
        SettingsError
            If the cost is too small.
        BudgetError
            If it would exceed the budget.
        RequestError
            If a sample of another size is kept here.
        """
        charged = sample.cost() if cost is None else cost
        if charged.delta < sample.delta:
            raise SettingsError(f"cost = {charged.delta:g}: the sample's own is {sample.delta:g}.")
        return self.release(
            f"{SAMPLE} {version}".rstrip(),
            {"sample": charged},
            lambda: {"sample": sample.draw(noise)},
            digest=f"n={sample.n} k={sample.k} replacement={sample.replacement}",
            seeded=not noise.private,
        )["sample"]

    def _admit(self, lines: list[dict[str, Any]], request: str, costs: Costs, digest: str) -> None:
        """Refuse a charge that the ledger must not make; one that it has made before is fine."""
        self._check_digest(lines, request, digest)
        charge = self._charge(lines, request)
        if charge is None:
            self._check_budget(lines, request, [*costs.values()])
            return
        known = {part: from_plain(cost) for part, cost in charge["costs"].items()}
        if known != dict(costs):
            raise RequestError(
                f"{self.path}: request {request!r} was charged as {charge['costs']}, not as "
                f"{ {part: to_plain(cost) for part, cost in costs.items()} }; another question needs another request."
            )

    def _check_digest(self, lines: list[dict[str, Any]], request: str, digest: str) -> None:
        known = self._digest(lines, request)
        if known is not None and known != digest:
            raise RequestError(
                f"{self.path}: request {request!r} was asked before as {known}, now as {digest}; another question "
                "needs another request."
            )

    @staticmethod
    def _digest(lines: list[dict[str, Any]], request: str) -> str | None:
        named = (line for line in lines if line["kind"] in ("request", "charge") and line["request"] == request)
        return next((str(line["digest"]) for line in named), None)

    @staticmethod
    def _charge(lines: list[dict[str, Any]], request: str) -> dict[str, Any] | None:
        return next((line for line in lines if line["kind"] == "charge" and line["request"] == request), None)

    def _stored(self, lines: list[dict[str, Any]], request: str) -> Arrays | None:
        found = next((line for line in lines if line["kind"] == "release" and line["request"] == request), None)
        return self._load(found) if found else None

    def _check_budget(self, lines: list[dict[str, Any]], request: str, costs: Sequence[Cost]) -> None:
        spending, account = self._spending(lines), self._account(lines)
        after = spending.epsilon(*costs)
        waits = spending.lost and not _raised_since_restored(lines)
        if waits or not after <= account.epsilon:
            rest = " It was restored, and waits for a limit that is raised on purpose." if waits else ""
            raise BudgetError(
                f"{self.path}: request {request!r} would bring epsilon from {spending.epsilon():.6g} to {after:.6g} at "
                f"delta = {spending.delta:g}; the budget is {account.epsilon:g}. Nothing was released.{rest}"
            )

    def _spending(self, lines: list[dict[str, Any]]) -> Spending:
        return reduce(Spending.after, lines, Spending(_filter(lines)))

    @staticmethod
    def _known(lines: list[dict[str, Any]]) -> set[str]:
        given_up = [head for line in lines if line["kind"] in ("restored", "heads") for head in line["heads"]]
        return {*(str(line["hash"]) for line in lines), *given_up}

    @staticmethod
    def _restored_since(lines: list[dict[str, Any]], request: str) -> bool:
        asked = [number for number, line in enumerate(lines) if line.get("request") == request]
        return bool(asked) and any(line["kind"] == "restored" for line in lines[asked[0] :])

    def _account(self, lines: list[dict[str, Any]]) -> Account:
        fields = {name: lines[0][name] for name in Account.__dataclass_fields__}
        for line in lines:
            if line["kind"] == "budget":
                fields["epsilon"] = line["epsilon"]
        return Account(**fields)

    def _read(self) -> list[dict[str, Any]]:
        # looked up before the lines are read: another process may charge and release in between
        released = {path.name for path in (self.folder / "releases").glob("*.npz")}
        try:
            text = self.path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise self._broken(0, "is not text") from error
        previous, lines = _START, []
        for number, raw in enumerate(text.splitlines(), start=1):
            try:
                line = json.loads(raw)
                told = line.pop("hash")
            except (ValueError, KeyError, AttributeError, TypeError) as error:
                raise self._broken(number, "is not a ledger line") from error
            if told != _hash(previous, line):
                raise self._broken(number, "does not follow from the line before it")
            previous = told
            lines.append({**line, "hash": told})
        if not text.endswith("\n") or not lines or lines[0].get("kind") != "open":
            raise self._broken(len(lines), "is torn, or the beginning is missing")
        if lines[0].get("format") != FORMAT:
            raise DataError(
                f"{self.path}: format {lines[0].get('format', 1)}, but this version writes and reads {FORMAT}. What it "
                "holds is spent: read it with the version that wrote it, and lower the new ledger's budget by that."
            )
        known = {self._file(line["request"]).name for line in lines if line["kind"] == "charge"}
        strangers = released - known
        if strangers:
            raise self._broken(len(lines), f"lines after it are missing, for there is a release {min(strangers)}")
        return lines

    def _broken(self, number: int, what: str) -> DataError:
        return DataError(
            f"{self.path}, line {number}: {what}. The ledger was cut or edited, so spending may be unknown; nothing "
            "more is released. Restore the newest backup, or retire the data set."
        )

    def _append(self, lines: list[dict[str, Any]], body: dict[str, Any]) -> list[dict[str, Any]]:
        # salted: else a head would tell whoever guesses what the lines say
        line = {**body, "time": datetime.now(UTC).isoformat(timespec="seconds"), "salt": secrets.token_hex(16)}
        line["hash"] = _hash(lines[-1]["hash"] if lines else _START, line)
        lines = [*lines, line]
        _write(self.path, "".join(json.dumps(one) + "\n" for one in lines).encode())
        return lines

    def _file(self, request: str) -> Path:
        return self.folder / "releases" / f"{hashlib.sha256(request.encode()).hexdigest()[:32]}.npz"

    def _load(self, line: Mapping[str, Any]) -> Arrays:
        path = self._file(line["request"])
        if not path.exists():
            raise DataError(f"{path}: the release of request {line['request']!r} is gone; it cannot be drawn again.")
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != line["sha256"]:
            raise DataError(f"{path}: not the release that the ledger recorded for {line['request']!r}.")
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}

    @contextmanager
    def _locked(self) -> Iterator[None]:
        deadline = time.monotonic() + self._wait
        while True:
            with (self.folder / "ledger.lock").open("a") as handle:
                if self._lock(handle.fileno()):
                    yield  # closing the handle frees the lock, also when the process dies
                    return
            if time.monotonic() > deadline:
                raise RunError(f"{self.folder}: another process has held this ledger for {self._wait:g} s.")
            time.sleep(0.01)

    def _lock(self, handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        # a restored folder has a lock of its own: whoever waited for the old one holds nobody off with it
        path = self.folder / "ledger.lock"
        return path.exists() and os.path.samestat(os.fstat(handle), path.stat())


def _raised_since_restored(lines: list[dict[str, Any]]) -> bool:
    kinds = [str(line["kind"]) for line in lines if line["kind"] in _LIMITS]
    return kinds[-1] != "restored"


def _filter(lines: list[dict[str, Any]]) -> accounting.Filter:
    """The rule by which the ledger stops, fixed by the budget that it was opened with."""
    return accounting.Filter(lines[0]["epsilon"], lines[0]["delta"], lines[0]["accountant"])


def _costs(lines: Sequence[Mapping[str, Any]]) -> list[Cost]:
    return [from_plain(cost) for line in lines if line["kind"] == "charge" for cost in line["costs"].values()]


def _hash(previous: str, line: Mapping[str, Any]) -> str:
    return hashlib.sha256((previous + json.dumps(line, sort_keys=True)).encode()).hexdigest()


def _pack(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise DataError(f"release: array {name!r} holds Python objects, which are not stored.")
    buffer = io.BytesIO()
    named: dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items()}
    np.savez(buffer, **named)
    return buffer.getvalue()


def _write(path: Path, content: bytes) -> None:
    """Put the content there whole or not at all."""
    write_atomic(path, lambda stream: stream.write(content))
