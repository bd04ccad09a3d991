"""What a worker process does: it answers for one client after the other, or for several that train together."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from multiprocessing import connection
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from fedballot.core import meeting
from fedballot.wire.messages import Arrays, Config, Reply, Request, Scalar, deserialise, serialise

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


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
    together
        Clients that a worker lets train together.
    """

    client: Callable[[int], Client]
    log: Path
    together: int = 1


def reply_to(job: Job, request: Request) -> Reply:
    """The answer of the client that a request is to, which is named by its number."""
    arrays, _, metrics = job.client(int(request.to)).fit(deserialise(request.tensors), request.config)
    return Reply(request.to, serialise(arrays), metrics)


def reply_or_words(job: Job, request: Request) -> Reply | str:
    """As :func:`reply_to`; where that fails, why, with the whole story in the job's log."""
    try:
        return reply_to(job, request)
    except (Exception, SystemExit) as error:  # foreign code may do either
        with job.log.open("a", encoding="utf-8") as stream:
            stream.write(f"client {request.to}:\n{traceback.format_exc()}")
        return f"client {request.to}: {type(error).__name__}: {error}; {job.log} says where"


def answers(job: Job, requests: Sequence[Request]) -> list[Reply | str]:
    """The answers of clients that work together; each counts its share of the time as its own."""
    if len(requests) == 1:
        return [reply_or_words(job, requests[0])]
    now = time.time()
    replies = meeting.together([partial(reply_or_words, job, request) for request in requests], one_thread)
    began = min((float(reply.metrics.get("began", now)) for reply in replies if isinstance(reply, Reply)), default=0.0)
    share = (time.time() - began) / len(requests)
    return [
        reply if isinstance(reply, str) else replace(reply, metrics={**reply.metrics, "compute_s": share})
        for reply in replies
    ]


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for BLAS, OpenMP and torch: workers share the cores, and sums have one order.

    Afterwards all have as many as before, so that what a server learns does not depend on who worked in its process.
    """
    # outside the limit of the pools, within which torch says that it has one
    before = _set_torch_threads(1)
    try:
        with _pools(len(sys.modules)).limit(limits=1):
            yield
    finally:
        _set_torch_threads(before)


def _set_torch_threads(count: int | None) -> int | None:
    """How many torch had; None: it is not loaded, or, as ``count``, as many as it takes by itself."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    before: int = torch.get_num_threads()
    torch.set_num_threads(usual_torch_threads() if count is None else count)
    return before


@lru_cache(maxsize=1)
def usual_torch_threads() -> int:
    """As many as torch takes by itself; to be asked before anybody sets another number."""
    import torch

    return torch.get_num_threads()


@lru_cache(maxsize=1)
def _pools(modules: int) -> ThreadpoolController:
    """The thread pools of what so many modules have loaded: to look for them takes as long as a small client."""
    import threadpoolctl  # the process that starts workers has no use for it

    return threadpoolctl.ThreadpoolController()


def work(requests: connection.Connection, environment: Mapping[str, str]) -> None:
    """A worker's life: answer until the other side is gone."""
    os.environ.clear()  # it has that of the time when the first workers were prepared
    os.environ.update({**environment, **ONE_THREAD})
    for stop in (signal.SIGINT, signal.SIGTERM):  # the process that waits for the answers decides what they mean
        signal.signal(stop, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with one_thread():  # of what is imported by now; what comes later reads the environment
        while True:
            try:
                pickled, asked = requests.recv()
            except (EOFError, ConnectionError):
                return
            requests.send(_answers(pickled, asked))


def _answers(pickled: bytes, requests: Sequence[Request]) -> list[Reply | str]:
    try:
        job = _job(pickled)
    except (Exception, SystemExit) as error:
        return [f"client {request.to}: {type(error).__name__}: {error}" for request in requests]
    return answers(job, requests)


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
