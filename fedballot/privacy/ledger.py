"""A party's privacy ledger for one data set: what was spent, on its own disk, and what it got for it.

A charge is on disk before its release exists, and a release is on disk before anybody sees it. So a crash can waste
budget but never hide spending, and asking twice returns what was said the first time instead of a second draw.

Files in the ledger's folder: `ledger.jsonl`, one JSON object per line, each with the hash of the one before;
`releases/`, arrays by request; `ledger.lock`. Lines are only ever added, by replacing the whole file in one step, so
that no crash leaves half a line. The chain shows edits and losses, stored releases show lines that were cut off at the
end; against somebody who forges both, note `head` elsewhere.
"""

import fcntl
import hashlib
import io
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from fedballot.errors import DataError, RunError, SettingsError
from fedballot.files import write_atomic
from fedballot.privacy import accounting, gaussian
from fedballot.privacy.accounting import Accountant
from fedballot.privacy.costs import Cost, from_plain, to_plain
from fedballot.privacy.guarantee import Adjacency, Unit
from fedballot.privacy.nfdp import NfdpSample
from fedballot.privacy.randomness import NoiseSource

Arrays = dict[str, NDArray[Any]]
SAMPLE = "nfdp sample"  # request under which the index set is kept
_START = "0" * 64


@dataclass(frozen=True)
class Account:
    """What a ledger is about; fixed when it is opened for the first time, but for the budget.

    Parameters
    ----------
    party, data : str
        Names; `data` is the fingerprint of the private data.
    unit, adjacency : str
        As in `Guarantee`.
    epsilon, delta : float
        The budget.
    accountant : {"exact", "pld", "rdp"}
    """

    party: str
    data: str
    unit: Unit
    adjacency: Adjacency
    epsilon: float
    delta: float
    accountant: Accountant = "exact"

    def __post_init__(self) -> None:
        gaussian.check_epsilon(self.epsilon)
        gaussian.check_delta(self.delta)
        for name, allowed in (("unit", Unit), ("adjacency", Adjacency), ("accountant", Accountant)):
            if getattr(self, name) not in get_args(allowed):
                raise SettingsError(f"{name} = {getattr(self, name)!r}: allowed are {', '.join(get_args(allowed))}.")


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
        If the ledger is about another party, data set, unit, adjacency, budget or accountant.
    DataError
        If the file is torn or edited.
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
                    self._append([], {"kind": "open", **asdict(account)})
        known = self._account(self._read())
        for name, value in asdict(account or known).items():
            if getattr(known, name) != value:
                raise SettingsError(
                    f"{self.path}: {name} is {getattr(known, name)!r} in this ledger, not {value!r}. One ledger is "
                    "about one party's use of one data set; use another folder, or change the budget with set_budget."
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
        """Return epsilon of all charges at the ledger's delta."""
        lines = self._read()
        account = self._account(lines)
        return accounting.epsilon(_costs(lines), account.delta, account.accountant)

    def set_budget(self, epsilon: float) -> None:
        """Record another budget; a smaller one than was spent stops all further releases."""
        gaussian.check_epsilon(epsilon)
        with self._locked():
            self._append(self._read(), {"kind": "budget", "epsilon": epsilon})

    def release(
        self, request: str, cost: Cost, draw: Callable[[], Mapping[str, NDArray[Any]]], *, seeded: bool = False
    ) -> Arrays:
        """Charge, then draw, store and return a release; or return the stored one if this request was answered before.

        Parameters
        ----------
        request : str
            The same request must always mean the same question.
        cost : Cost
        draw : callable
            Makes the release; called at most once per process and request, only after the charge is on disk.
        seeded : bool
            Whether its noise comes from a seed, so that the cost protects nobody; noted beside the charge.

        Returns
        -------
        dict of str to ndarray

        Raises
        ------
        SettingsError
            If the charge would exceed the budget, or the request was charged with another cost.
        RunError
            If another process holds the ledger for too long.
        """
        with self._locked():
            lines = self._read()
            stored = self.stored(request)
            charged = [line for line in lines if line["kind"] == "charge" and line["request"] == request]
            if charged and from_plain(charged[0]["cost"]) != cost:
                raise SettingsError(
                    f"{self.path}: request {request!r} was charged as {charged[0]['cost']}, not as {to_plain(cost)}; "
                    "another question needs another request."
                )
            if stored is not None:
                return stored
            if not charged:
                self._check_budget(lines, request, cost)
                note = {"seeded": True} if seeded else {}
                lines = self._append(lines, {"kind": "charge", "request": request, "cost": to_plain(cost), **note})
            path = self._file(request)
            if not path.exists():  # it exists if the process died between storing and noting it
                _write(path, _pack(draw()))
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            lines = self._append(lines, {"kind": "release", "request": request, "sha256": digest})
            return self._load(lines[-1])

    def stored(self, request: str) -> Arrays | None:
        """Return the release that answers this request already, or None; charges nothing."""
        found = [line for line in self._read() if line["kind"] == "release" and line["request"] == request]
        return self._load(found[0]) if found else None

    def sample(self, sample: NfdpSample, noise: NoiseSource) -> NDArray[np.int64]:
        """Return the data set's one NFDP index set, drawn and charged at the first call, the same ever after."""
        drawn = self.release(
            SAMPLE,
            sample.cost(),
            lambda: {"indices": sample.draw(noise), "n_k": np.array([sample.n, sample.k, sample.replacement])},
            seeded=not noise.private,
        )
        if drawn["n_k"].tolist() != [sample.n, sample.k, sample.replacement]:
            raise SettingsError(f"{self.path}: the sample kept here is (n, k, replacement) = {drawn['n_k'].tolist()}.")
        return drawn["indices"]

    def _check_budget(self, lines: list[dict[str, Any]], request: str, cost: Cost) -> None:
        account = self._account(lines)
        before = _costs(lines)
        after = accounting.epsilon([*before, cost], account.delta, account.accountant)
        if not after <= account.epsilon:
            spent = accounting.epsilon(before, account.delta, account.accountant)
            raise SettingsError(
                f"{self.path}: request {request!r} would bring epsilon from {spent:.6g} to {after:.6g} at delta = "
                f"{account.delta:g}; the budget is {account.epsilon:g}. Nothing was released."
            )

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
        line = {**body, "time": datetime.now(UTC).isoformat(timespec="seconds")}
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
        with (self.folder / "ledger.lock").open("a") as handle:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise RunError(
                            f"{self.folder}: another process has held this ledger for {self._wait:g} s."
                        ) from None
                    time.sleep(0.01)
            yield  # closing the handle frees the lock, also when the process dies


def _costs(lines: list[dict[str, Any]]) -> list[Cost]:
    return [from_plain(line["cost"]) for line in lines if line["kind"] == "charge"]


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
