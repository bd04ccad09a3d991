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
import threading
import time
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from multiprocessing import connection, forkserver, resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol

from fedballot.wire.messages import Arrays, Config, Reply, Request, Scalar, deserialise, serialise

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
STOP_S = 5.0  # how long a worker may take to end before it is killed


class Client(Protocol):
    """What a worker asks of a client: a ``NumPyClient``'s ``fit``."""

    def fit(self, parameters: Arrays, config: Config) -> tuple[Arrays, int, dict[str, Scalar]]:
        """Answer a request."""


@dataclass(frozen=True)
class Job:
    """What a worker must know of a run.

    Parameters
    ----------
    client
        Makes the client of a number; it is sent to other processes.
    log
        Where the output of the workers goes.
    """

    client: Callable[[int], Client]
    log: Path


def reply_to(job: Job, request: Request) -> Reply:
    """The answer of the client that a request is to, which is named by its number."""
    arrays, _, metrics = job.client(int(request.to)).fit(deserialise(request.tensors), request.config)
    return Reply(request.to, serialise(arrays), metrics)


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
        self._busy: set[connection.Connection] = set()

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
        """Start the processes that are missing; ``advance`` is called for each."""
        for worker in self._processes.keys() - self._busy:  # that a busy one has died is found out by who waits for it
            if not self._processes[worker].is_alive():
                self._end(worker)
        while len(self._processes) < self._count:
            ours, theirs = self._context.Pipe()
            process = self._context.Process(target=_work, args=(theirs, dict(os.environ)), daemon=True)
            with _nothing_of_main():
                process.start()
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
        """
        deadline = time.monotonic() + timeout_s
        waiting, pickled = deque(requests), pickle.dumps(job)
        try:
            while waiting or self._busy:
                if time.monotonic() > deadline:
                    yield from [f"no answer within {timeout_s:g} s"] * (len(waiting) + len(self._busy))
                    return
                if waiting:
                    self.start()
                for worker in self._processes.keys() - self._busy:
                    if waiting:
                        self._busy.add(worker)
                        with suppress(BrokenPipeError):  # one that has just died is found out below
                            worker.send((pickled, waiting.popleft()))
                for ready in connection.wait(list(self._busy), timeout=max(0.0, deadline - time.monotonic())):
                    assert isinstance(ready, connection.Connection)
                    yield self._received(ready)
        finally:  # what is still at work must not answer the next requests
            for worker in list(self._busy):
                self._end(worker)

    def _received(self, worker: connection.Connection) -> Reply | str:
        try:
            reply: Reply | str = worker.recv()
        except (EOFError, ConnectionError):
            return f"its process ended: exit code {self._end(worker)}"
        self._busy.remove(worker)
        return reply

    def close(self) -> None:
        """End all processes; what a client has not finished is lost."""
        for worker in list(self._processes):
            self._end(worker)

    def _end(self, worker: connection.Connection) -> int | None:
        process = self._processes.pop(worker)
        self._busy.discard(worker)
        worker.close()
        process.join(0.1)
        process.terminate()
        process.join(STOP_S)
        process.kill()
        process.join()
        return process.exitcode


def replies_here(job: Job, requests: Sequence[Request], timeout_s: float) -> Iterator[Reply | str]:
    """As :meth:`Workers.replies`, from this process: clients work one after the other, where a debugger sees them.

    Nobody ends a client that takes too long.
    """
    deadline = time.monotonic() + timeout_s
    for request in requests:
        if time.monotonic() > deadline:
            yield f"no answer within {timeout_s:g} s"
            continue
        with one_thread():
            reply = _or_words(partial(reply_to, job, request))
        yield reply


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
def one_thread() -> Iterator[None]:
    """One thread for BLAS, OpenMP and torch: workers share the cores, and sums have one order."""
    from threadpoolctl import threadpool_limits

    def torch_threads(count: int) -> int:
        torch = sys.modules.get("torch")
        if torch is None:
            return int(os.environ.get("OMP_NUM_THREADS", "0")) or len(os.sched_getaffinity(0))
        before: int = torch.get_num_threads()
        torch.set_num_threads(count)
        return before

    with threadpool_limits(1):
        before = torch_threads(1)
        try:
            yield
        finally:
            torch_threads(before)


def _or_words(work: Callable[[], Reply]) -> Reply | str:
    try:
        return work()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _work(requests: connection.Connection, environment: Mapping[str, str]) -> None:
    """A worker's life: answer until the other side is gone."""
    os.environ.clear()  # it has that of the time when the first workers were prepared
    os.environ.update({**environment, **ONE_THREAD})
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits for the answers decides what it means
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with one_thread():  # of what is imported by now; what comes later reads the environment
        while True:
            try:
                pickled, request = requests.recv()
            except EOFError:
                return
            requests.send(_or_words(partial(_reply_of, pickled, request)))


def _reply_of(pickled: bytes, request: Request) -> Reply:
    return reply_to(_job(pickled), request)


@lru_cache(maxsize=1)
def _job(pickled: bytes) -> Job:
    """A worker's present job, whose output goes to its log."""
    job: Job = pickle.loads(pickled)
    with job.log.open("a") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    return job


def _end_with_parent() -> None:
    """A worker whose run was killed ends, too, in the middle of its work."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


@contextmanager
def _nothing_of_main() -> Iterator[None]:
    """Start a process without the user's script in it: a script without a guard would run again there."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
