"""A run whose clients work on the nodes of a Ray cluster that somebody else started.

Each request is one Ray task, tied to a node that was looked at: same program, same data, the run's own folder. Clients
whose node is lost are asked again on another one: the same request, to which a client that had answered gives
the same bytes.

Flower's virtual client engine is not used here: it has at most 32 requests under way, keeps to the nodes that it saw at
its start, and puts the dead actor of a lost node back into its pool, where it fails one client after the other.
"""

from __future__ import annotations

import logging
import math
import pickle
import re
import socket
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError, RaySystemError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fedballot.core.errors import RunError
from fedballot.core.progress import Progress
from fedballot.runs.cluster_node import Errand, Report, answer, data_digest, report
from fedballot.runs.worker import Job
from fedballot.wire.messages import Reply, Request

TIMES_ASKED = 3  # a client whose process or node is lost each time
CONNECT_S = 10.0
LOOK_S = 2.0  # between looks at which nodes there are
PATIENCE_S = 60.0  # how long a run waits without any node

logger = logging.getLogger("fedballot")


@dataclass(frozen=True)
class Asked:
    """A request under way: how often it has been sent, and to which node."""

    request: Request
    times: int
    node: str


@contextmanager
def joined(address: str) -> Iterator[None]:
    """Be a driver on a cluster, which goes on when this ends.

    Raises
    ------
    RunError
        If there is none at this address, or one of another Ray or Python.
    """
    if ray.is_initialized():  # a script's own
        yield
        return
    nobody = f"no Ray cluster answers at {address}: start one with ray start --head, or name another ray_address"
    try:
        if found := re.fullmatch(r"(?:ray://)?(.+):(\d+)", address):  # Ray itself tries for many minutes
            socket.create_connection((found[1].strip("[]"), int(found[2])), CONNECT_S).close()
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (OSError, RuntimeError, ValueError) as error:
        words = " ".join(str(error).split())
        if "Version mismatch" in words:
            raise RunError(f"the Ray cluster at {address} is of other versions: {words}; use the same ones") from error
        raise RunError(f"{nobody} ({words})") from error
    try:
        yield
    finally:
        ray.shutdown()


class Cluster:
    """The nodes of a cluster that was joined, for one run.

    Parameters
    ----------
    errand
        The run.
    gpu_share
        Share of a GPU that a client gets; 0: none.
    most
        Clients at once, however many there is room for.
    """

    def __init__(self, errand: Errand, *, gpu_share: float, most: int) -> None:
        self._errand, self._gpu_share, self._most = errand, gpu_share, most
        self._report, self._answer = (ray.remote(max_retries=0)(one) for one in (report, answer))
        self._pickled = pickle.dumps(errand)
        self._data = data_digest(errand.data())
        self._slots: dict[str, int] = {}  # of nodes that serve: how many clients at once
        self._probes: dict[Any, str] = {}  # nodes that are being looked at
        self._unfit: set[str] = set()
        self._looked = -math.inf

    @property
    def slots(self) -> int:
        """How many clients the nodes serve at once."""
        return min(self._most, sum(self._slots.values()))

    def start(self, progress: Progress, timeout_s: float) -> None:
        """Look at every node, before anything is asked of a client.

        Raises
        ------
        RunError
            If one of them cannot serve, or none does.
        """
        self._look()
        places = {node: _place(node) for node in self._probes.values()}
        sizes = [self._size(one) for one in _alive().values()]
        progress.start(
            f"joining the Ray cluster at {ray.get_runtime_context().gcs_address}: {len(places)} nodes, "
            f"{sum(sizes)} clients at once",
            len(places),
        )
        deadline, trouble = time.monotonic() + timeout_s, []
        while self._probes:
            if time.monotonic() > deadline:
                trouble += [f"{places[node]}: said nothing for {timeout_s:g} s" for node in self._probes.values()]
                break
            for ref in ray.wait(list(self._probes), timeout=LOOK_S)[0]:
                trouble += [words] if (words := self._looked_at(ref)) else []
                progress.advance()
        if trouble:
            raise RunError("; ".join(f"node {words}" for words in trouble))
        if not self._slots:
            raise RunError("the Ray cluster has no node with a CPU for clients" + " and a GPU" * (self._gpu_share > 0))

    def replies(self, job: Job, requests: Sequence[Request], timeout_s: float) -> Iterator[Reply | str]:
        """As ``Workers.replies``, from the cluster's nodes.

        Raises
        ------
        RunError
            If no node is left.
        """
        deadline = time.monotonic() + timeout_s
        waiting = deque((request, 0) for request in requests)
        shared = {id(one.tensors): ray.put(one.tensors) for one in requests}  # sent to each node once
        running: dict[Any, Asked] = {}
        served = time.monotonic()
        while waiting or running:
            now = time.monotonic()
            if now > deadline:
                yield from [f"no answer within {timeout_s:g} s"] * (len(waiting) + len(running))
                return
            self._look()
            for node in self._free(running, min(len(waiting), self._most - len(running))):
                request, times = waiting.popleft()
                tensors = shared[id(request.tensors)]
                # Ray 2.55 dies of its own cancel(), so a worker that takes too long ends itself
                send = self._on(node, self._answer, 1).remote
                ref = send(self._pickled, request.to, tensors, request.config, deadline - now)
                running[ref] = Asked(request, times + 1, node)
            if self._slots:
                served = now
            elif now - served > PATIENCE_S:
                raise RunError(f"no node of the Ray cluster has served for {PATIENCE_S:g} s; --resume goes on")
            for ref in _ready([*running, *self._probes], min(LOOK_S, deadline - now)):
                if ref not in running:
                    self._looked_at(ref)
                    continue
                asked = running.pop(ref)
                outcome = self._outcome(ref, asked)
                if outcome is None:
                    waiting.appendleft((asked.request, asked.times))
                else:
                    yield outcome

    def _outcome(self, ref: Any, asked: Asked) -> Reply | str | None:
        """What came of a request; None: it is to be asked again."""
        try:
            outcome: Reply | str = ray.get(ref)
        except RayTaskError as error:
            return f"{type(error).__name__}: {error}"
        except RayError as error:
            self._slots.pop(asked.node, None)  # until it has been looked at again
            words = f"its process or node was lost ({type(error).__name__})"
            again = asked.times < TIMES_ASKED
            logger.warning(
                "client %s on %s: %s%s",
                *(asked.request.to, _place(asked.node), words, "; it is asked again" if again else ""),
            )
            return None if again else f"{words} {asked.times} times"
        return outcome

    def _look(self) -> None:
        """See which nodes have come and gone; whoever is new, or has lost a process, is looked at."""
        if time.monotonic() < self._looked + LOOK_S:
            return
        self._looked, alive = time.monotonic(), _alive()
        for node in self._slots.keys() - alive.keys():
            logger.warning("%s is lost", _place(node))
            del self._slots[node]
        for node in alive.keys() - self._slots.keys() - self._unfit - {*self._probes.values()}:
            if self._size(alive[node]):
                self._probes[self._on(node, self._report, 0).remote(self._pickled)] = node

    def _looked_at(self, ref: Any) -> str:
        """Take up a node that can serve; returns why it cannot."""
        node = self._probes.pop(ref)
        try:
            trouble = self._trouble(ray.get(ref))
        except (RayTaskError, RaySystemError) as error:  # it cannot import what it is asked to do
            trouble = f"cannot run fedballot {self._errand.version}, is it installed there? ({_last_line(error)})"
        except RayError as error:  # it is gone, or will be looked at again
            return f"{_place(node)}: its process or node was lost ({type(error).__name__})"
        if trouble:
            self._unfit.add(node)
            logger.warning("%s: %s", _place(node), trouble)
            return f"{_place(node)}: {trouble}"
        self._slots[node] = self._size(_alive().get(node, {}))
        logger.warning("%s takes part with %d clients at once", _place(node), self._slots[node])
        return ""

    def _trouble(self, said: Report) -> str:
        """What is wrong with a node, from what it says and what it wrote."""
        if said.trouble:
            return said.trouble
        mark = self._errand.folder / "clients" / said.mark
        if not mark.exists():
            return f"writes into a folder of its own at {mark.parent}: name an --out that all nodes share"
        mark.unlink()
        return "" if said.data == self._data else "has other data under these settings: give all nodes the same files"

    def _free(self, running: Mapping[Any, Asked], wanted: int) -> list[str]:
        """Nodes for the next requests, those with the most room first."""
        busy = Counter(asked.node for asked in running.values())
        room = [(place, node) for node, slots in self._slots.items() for place in range(busy[node], slots)]
        return [node for _, node in sorted(room)[:wanted]]

    def _size(self, node: Mapping[str, Any]) -> int:
        """How many clients a node serves at once."""
        resources = node.get("Resources", {})
        size = int(resources.get("CPU", 0))
        return min(size, int(resources.get("GPU", 0) / self._gpu_share)) if self._gpu_share else size

    def _on(self, node: str, work: Any, cpus: int) -> Any:
        where = NodeAffinitySchedulingStrategy(node, soft=False)
        return work.options(num_cpus=cpus, num_gpus=cpus * self._gpu_share, scheduling_strategy=where)


def gpu_share(fraction: float) -> float:
    """Share of a GPU that a client gets: ``fraction``, or 0 where no node has one."""
    return fraction if any(node["Resources"].get("GPU") for node in _alive().values()) else 0.0


def _nodes() -> list[dict[str, Any]]:
    return list(ray.nodes())  # type: ignore[no-untyped-call]


def _alive() -> dict[str, dict[str, Any]]:
    return {node["NodeID"]: node for node in _nodes() if node["Alive"]}


def _place(node: str) -> str:
    """Address and name of a node, as people know it."""
    return next(
        (f"{one['NodeManagerAddress']} ({one['NodeManagerHostname']})" for one in _nodes() if one["NodeID"] == node),
        node,
    )


def _ready(refs: list[Any], timeout_s: float) -> list[Any]:
    if not refs:
        time.sleep(max(0.0, timeout_s))
        return []
    return list(ray.wait(refs, num_returns=len(refs), timeout=max(0.0, timeout_s))[0])


def _last_line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1]
