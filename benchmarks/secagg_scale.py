"""What a sum under masks costs its server: CPU seconds, bytes for each client, and the largest memory.

    python benchmarks/secagg_scale.py --clients 1000 5000 10000 --length 30000 [--missing 0.1]

Prints a line of JSON for each number of clients. Every server is a process of its own, and so are its clients, which
are the package's own `Holder` but for the disk: their state is in memory. What all of them check alike (a roster, a
signature) is checked once, so their cost is not measured; `secagg_rows.py` does that. Messages have NumPy's format and
pass through a pipe, whose cost counts as the server's.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from fedballot.wire import secagg
from fedballot.wire.messages import deserialise, serialise
from fedballot.wire.packing import payload_bytes
from fedballot.wire.secagg import Exchange, Form, Holder, Plan, client, crypto, make_plan

AT_ONCE = 50  # clients whose messages are under way
LARGEST = 50  # magnitude of a client's integers


class NoMark:
    """Of a client that is asked once."""

    session: str | None = None

    def opened(self, request: str) -> str | None:
        return self.session

    def open(self, request: str, session: str) -> None:
        self.session = session


class InMemory(Holder):
    """A client whose state is not written down."""

    @contextmanager
    def _locked(self) -> Iterator[None]:
        yield

    def _load(self, stage: str) -> None:
        self._state = self._state or {"session": np.array(self.session)}

    def _save(self) -> None:
        pass


def once(function: Callable[..., Any], key: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called once for each key."""
    values: dict[Any, Any] = {}

    def cached(*arguments: Any) -> Any:
        name = key(*arguments)
        if name not in values:
            values[name] = function(*arguments)
        return values[name]

    return cached


def clients(pipe: Connection, plan: Plan, form: Form, session: str) -> None:
    """Answer until nothing more is asked; then send the sum of the ballots that were masked."""
    vars(client)["read_roster"] = once(client.read_roster, lambda arrays, plan: None)  # there is one
    vars(client)["seats"] = once(client.seats, lambda view, roster: view)
    vars(crypto)["has_signed"] = functools.cache(crypto.has_signed)
    holders: dict[int, InMemory] = {}
    total = np.zeros(form.shape, dtype=np.int64)
    shared: list[np.ndarray] = []
    while (message := pipe.recv()) is not None:
        stage, common, asked = message
        shared = deserialise(common) if common is not None else shared
        for client_id, own in asked:
            if client_id not in holders:
                holders[client_id] = InMemory(plan, client_id, Path("nowhere"), "r", session, NoMark())
            ballot = np.random.default_rng(client_id).integers(-LARGEST, LARGEST, form.shape, endpoint=True)
            total += ballot * (stage == secagg.MASKED)
            out = holders[client_id].answer(stage, [*shared, *deserialise(own)], form, lambda _, ballot=ballot: ballot)
            pipe.send((client_id, serialise(out)))
    pipe.send(total)


def seconds() -> float:
    """CPU seconds of this process so far, the kernel's for it included."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def server(count: int, length: int, missing: float, colluders: int) -> dict[str, Any]:
    """One sum."""
    plan, form = make_plan(count, -(-9 * count // 10), colluders), Form((length,), LARGEST)
    exchange = Exchange(plan, form, "r")
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=clients, args=(theirs, plan, form, exchange.session), daemon=True)
    process.start()
    began, up, down, spent = time.perf_counter(), 0, 0, {}
    before = peak_mb()
    for stage in secagg.STAGES:
        clock = seconds()
        there = list(range(count)) if stage == secagg.KEYS else exchange.clients
        if stage == secagg.MASKED:
            there = there[int(missing * count) :]
        common: list[bytes] | None = serialise(exchange.common)
        down += payload_bytes(common or []) * len(there)
        for first in range(0, len(there), AT_ONCE):
            asked = [(client_id, serialise(exchange.own(client_id))) for client_id in there[first : first + AT_ONCE]]
            down += sum(payload_bytes(own) for _, own in asked)
            pipe.send((stage, common, asked))
            common = None
            for _ in asked:
                client_id, tensors = pipe.recv()
                up += payload_bytes(tensors)
                exchange.receive(client_id, exchange.read(client_id, deserialise(tensors)))
        exchange.advance()
        spent[stage] = round(seconds() - clock, 2)
    pipe.send(None)
    exact = bool(np.array_equal(exchange.total, pipe.recv()))
    process.join()
    asked_for = exchange.bits / 8 * length
    return {
        "clients": count,
        "missing": count - len(exchange.inside),
        "neighbours": plan.neighbours,
        "threshold": plan.threshold,
        "bits": exchange.bits,
        "server_cpu_s": round(sum(spent.values()), 1),
        "by_stage": spent,
        "bytes_up_per_client": round(up / count),
        "ratio_up": round(up / len(exchange.inside) / asked_for, 4),
        "bytes_down_per_client": round(down / count),
        "peak_mb": round(peak_mb()),
        "peak_mb_before": round(before),
        "wall_s": round(time.perf_counter() - began),
        "exact": exact,
    }


def peak_mb() -> float:
    """The largest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Sums of each number of clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[1000, 5000, 10_000])
    parser.add_argument("--length", type=int, default=30_000)
    parser.add_argument("--missing", type=float, default=0.0, help="share of the clients gone after the shares")
    parser.add_argument("--colluders", type=int, default=0)
    options = parser.parse_args()
    for count in options.clients:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:  # a process each, for its own peak
            row = pool.submit(server, count, options.length, options.missing, options.colluders).result()
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
