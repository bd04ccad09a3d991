"""Worker processes of a run on this machine: forked when everything is imported, one client at a time each.

Flower's virtual client engine starts Ray, whose processes import everything anew: 10 s and more before the first client
trains. Here a process that has all modules forks the workers (Python's ``forkserver``), which takes milliseconds, and
what it imports it imports while this process does the same.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
import types
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection, forkserver, resource_tracker
from multiprocessing.process import BaseProcess

from fedballot.core.errors import RunError
from fedballot.runs.worker import ONE_THREAD, Job, answers, one_thread, work
from fedballot.wire.messages import Reply, Request

STOP_S = 5.0  # how long a process that has closed its side may take to end


class Workers:
    """So many processes that answer requests; they may serve one run after the other.

    Parameters
    ----------
    count
        Number of processes.

    Examples
    --------
    >>> with Workers(2) as workers:  # doctest: +SKIP
    ...     replies = list(workers.replies(job, requests, timeout_s=60))
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._context = multiprocessing.get_context("forkserver")
        self._processes: dict[connection.Connection, BaseProcess] = {}
        self._busy: dict[connection.Connection, Sequence[Request]] = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def resize(self, count: int) -> None:
        """Keep no more than so many; `start` starts those that are missing."""
        self._count = count
        for worker in list(self._processes)[count:]:
            self._end(worker)

    def start(self, advance: Callable[[], None] = lambda: None) -> None:
        """Start the processes that are missing; ``advance`` is called for each.

        Raises
        ------
        RunError
            If one cannot be started.
        """
        for worker in self._processes.keys() - self._busy.keys():  # who waits for a busy one sees that it has died
            if worker.poll():  # it has nothing to say: this is its end
                self._end(worker)
        while len(self._processes) < self._count:
            ours, theirs = self._context.Pipe()
            process = self._context.Process(target=work, args=(theirs, dict(os.environ)), daemon=True)
            try:
                with _nothing_of_main():
                    process.start()
            except (OSError, EOFError) as error:  # the process that forks them has died, or cannot fork
                raise RunError(
                    f"worker {len(self._processes) + 1} of {self._count} could not be started ({type(error).__name__}: "
                    f"{error}): is there memory for it? Take fewer workers (workers=1: none beside this process), and "
                    "--resume takes the run up"
                ) from error
            theirs.close()
            self._processes[ours] = process
            advance()

    def replies(self, job: Job, requests: Sequence[Request], timeout_s: float) -> Iterator[Reply | str]:
        """Each reply as it comes; a text instead says why a client sent none.

        Parameters
        ----------
        job
            The run.
        requests
            To clients by their numbers.
        timeout_s
            Seconds after which whoever has not answered is given up.

        Raises
        ------
        RunError
            If the process of a client ends: without its answer the numbers would be others.
        """
        deadline = time.monotonic() + timeout_s
        waiting, pickled = deque(groups(requests, job.together)), pickle.dumps(job)
        try:
            while waiting or self._busy:
                if time.monotonic() > deadline:
                    count = sum(map(len, [*waiting, *self._busy.values()]))
                    yield from [f"no answer within {timeout_s:g} s"] * count
                    return
                if waiting:
                    self.start()
                for worker in self._processes.keys() - self._busy.keys():
                    if waiting:
                        asked = self._busy[worker] = waiting.popleft()
                        with suppress(ConnectionError):  # one that has just died is found out below
                            worker.send((pickled, asked))
                for ready in connection.wait(list(self._busy), timeout=max(0.0, deadline - time.monotonic())):
                    assert isinstance(ready, connection.Connection)
                    yield from self._received(ready, job)
        finally:  # what is still at work must not answer the next requests
            for worker in list(self._busy):
                self._end(worker)

    def _received(self, worker: connection.Connection, job: Job) -> list[Reply | str]:
        try:
            replies: list[Reply | str] = worker.recv()
        except (EOFError, OSError) as error:
            raise RunError(self._lost(worker, job)) from error
        del self._busy[worker]
        return replies

    def _lost(self, worker: connection.Connection, job: Job) -> str:
        """What became of a worker that has ended before its answer, and what to do."""
        number = list(self._processes).index(worker) + 1
        names = [request.to for request in self._busy[worker]]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        who = f"client {names[0]} was" if len(names) == 1 else f"clients {', '.join(names[:5])}{more} were"
        self._processes[worker].join(STOP_S)
        code = self._end(worker)
        mend = f"{job.log} may say why; mend it, and --resume takes the run up: who has answered is not asked again"
        words = f"ended with exit code {code}"
        if code is not None and code < 0:
            words = f"was killed by signal {-code} ({signal.strsignal(-code)})"
        if code == -signal.SIGKILL:
            mend = (
                "as the kernel does where memory runs out: take fewer workers (workers=1: one at a time) or "
                "clients_per_worker, and --resume takes the run up: who has answered is not asked again"
            )
        return f"worker {number} of {self._count} {words} while {who} at work; {mend}"

    def close(self) -> None:
        """End all processes; what a client has not finished is lost."""
        for worker in list(self._processes):
            self._end(worker)

    def _end(self, worker: connection.Connection) -> int | None:
        process = self._processes.pop(worker)
        self._busy.pop(worker, None)
        worker.close()
        process.join(0.1)
        process.kill()
        process.join()
        return process.exitcode


def replies_here(job: Job, requests: Sequence[Request], timeout_s: float) -> Iterator[Reply | str]:
    """As :meth:`Workers.replies`, from this process: clients work one after the other, where a debugger sees them.

    Nobody ends a client that takes too long.
    """
    deadline = time.monotonic() + timeout_s
    for asked in groups(requests, job.together):
        if time.monotonic() > deadline:
            yield from [f"no answer within {timeout_s:g} s"] * len(asked)
            continue
        with one_thread():
            replies = answers(job, asked)
        yield from replies


def groups(requests: Sequence[Request], size: int) -> list[Sequence[Request]]:
    """Requests to clients that work together."""
    return [requests[start : start + size] for start in range(0, len(requests), size)]


def prepare(modules: Sequence[str]) -> None:
    """Let the process that forks workers begin to import these modules; returns at once.

    The first call counts: that process lives as long as this one.
    """
    # compiled parts read the number of their threads when they are imported
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ |= ONE_THREAD
    try:
        multiprocessing.get_context("forkserver").set_forkserver_preload(list(modules))
        resource_tracker.ensure_running()  # started within, it would let Ctrl-C through again
        with _no_interrupt():
            forkserver.ensure_running()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Start a process that Ctrl-C never reaches: Python's own ignores it only when its imports are done."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _nothing_of_main() -> Iterator[None]:
    """Start a process without the user's script in it: a script without a guard would run again there."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
