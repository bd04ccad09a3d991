"""What a node of a Ray cluster does for a run: it says whether it can serve it, and answers for clients."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fedballot import __version__
from fedballot.core.errors import DataError, FedballotError, RunError
from fedballot.core.folders import RunFolder
from fedballot.datasets.federation import FederatedData
from fedballot.datasets.fingerprint import fingerprint
from fedballot.privacy.ledger.lock import take
from fedballot.runs.worker import ONE_THREAD, Job, one_thread, reply_to
from fedballot.wire.messages import Config, Reply, Request

LOCK = "cluster.lock"  # in the run's folder; the process that asks holds it
DATA = "FEDBALLOT_DATA"


@dataclass(frozen=True)
class Errand:
    """What a node must know of a run.

    Parameters
    ----------
    job
        Makes the clients.
    data
        Loads what the run works on.
    folder, request
        The run's folder, and the name of the run that must be in it.
    place, data_folder
        Where the asking process stands, and its ``$FEDBALLOT_DATA``, for nodes that have none of their own.
    """

    job: Job
    data: Callable[[], FederatedData]
    folder: Path
    request: str
    place: str
    data_folder: str | None
    version: str = __version__


@dataclass(frozen=True)
class Report:
    """What a node says of itself.

    Parameters
    ----------
    trouble
        Why it cannot serve; empty: it can.
    mark
        A file that it wrote into the clients' folder, for the asking process to see.
    data
        Digest of the records that it has.
    """

    trouble: str = ""
    mark: str = ""
    data: str = ""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lock in a run's folder: nodes see that it holds between them, and no second process asks the clients.

    Raises
    ------
    RunError
        If another process has it.
    """
    lock = folder / LOCK
    with lock.open("a") as handle:
        if not take(lock, handle.fileno()):
            raise RunError(f"{folder}: another process works on this run")
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def report(pickled: bytes) -> Report:
    """Whether this node can serve a run: the same program, the same folder, the same data."""
    errand = _settled(pickled)
    if errand.version != __version__:
        return Report(f"has fedballot {__version__}, and the run {errand.version}: install the same on all nodes")
    try:
        mark = _mark(errand)
        digest = data_digest(errand.data())
    except (FedballotError, OSError) as error:
        return Report(str(error))
    return Report(mark=mark, data=digest)


def answer(pickled: bytes, name: str, tensors: list[bytes], config: Config, limit_s: float) -> Reply | str:
    """What the client of this name answers, or why it does not; this process ends when it takes too long."""
    alarm = threading.Timer(limit_s, os._exit, [1])
    alarm.daemon = True
    alarm.start()
    try:
        job = _settled(pickled).job
        with one_thread():
            return reply_to(job, Request(name, tensors, dict(config)))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        alarm.cancel()


def data_digest(data: FederatedData) -> str:
    """Digest of the public pool, and of who holds which records under which labels."""
    dealt = [fingerprint(array) for array in (data.private.y, *data.parts)]
    said = json.dumps([data.public_fingerprint, data.classes, data.private.x.shape, dealt])
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def _mark(errand: Errand) -> str:
    """Write into the clients' folder, where it is that of the run, and the lock that is held there is felt here.

    A release that is not found is drawn anew, so a folder that only looks alike would break what was promised.
    """
    words = f"does not share the run's folder {errand.folder}: name an --out that all nodes share"
    try:
        if RunFolder.read(errand.folder).request != errand.request:
            raise FedballotError(f"{words} (another run is in it there)")
    except DataError as error:
        raise FedballotError(f"{words} ({error})") from error
    lock = errand.folder / LOCK
    with lock.open("a") as handle:
        if take(lock, handle.fileno()):
            raise FedballotError(
                f"takes a lock in {errand.folder} that another node holds: mount that folder with locks that hold "
                "between nodes (NFS 4; Lustre with flock)"
            )
    mark = f".node-{secrets.token_hex(8)}"
    clients = errand.folder / "clients"
    clients.mkdir(exist_ok=True)
    (clients / mark).touch(exist_ok=False)
    return mark


@lru_cache(maxsize=1)
def _settled(pickled: bytes) -> Errand:
    """The errand, in a process that stands where its run does."""
    os.environ.update(ONE_THREAD)  # read by what is imported from here on
    errand: Errand = pickle.loads(pickled)
    if errand.data_folder is not None:
        os.environ.setdefault(DATA, errand.data_folder)
    with suppress(OSError):
        os.chdir(errand.place)
    return errand
