"""One process at a time in a ledger's folder."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedballot.core.errors import RunError


@contextmanager
def locked(folder: Path, wait: float) -> Iterator[None]:
    """Hold the folder's lock.

    Parameters
    ----------
    folder : Path
    wait : float
        Seconds to wait for another process.

    Raises
    ------
    RunError
        If it has not let go by then.
    """
    path, deadline = folder / "ledger.lock", time.monotonic() + wait
    while True:
        with path.open("a") as handle:
            if take(path, handle.fileno()):
                yield  # closing the handle frees the lock, also when the process dies
                return
        if time.monotonic() > deadline:
            raise RunError(f"{folder}: another process has held this ledger for {wait:g} s.")
        time.sleep(0.01)


def take(path: Path, handle: int) -> bool:
    """Take the lock of an open file, if nobody has it and it is still the one at `path`."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    # a restored folder has a lock of its own: whoever waited for the old one holds nobody off with it
    return path.exists() and os.path.samestat(os.fstat(handle), path.stat())
