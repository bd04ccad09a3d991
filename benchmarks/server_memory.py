"""What a server needs for a round of 100, 1,000 and 10,000 clients: memory, and CPU time beside a NumPy sum of it.

    python benchmarks/server_memory.py [--clients 100 1000 10000] [--rows votes logits ...] [--order as-asked|random]

A real Strategy takes made-up answers about 10,000 queries and 10 classes (weights: 100,000 numbers), as bytes, each
made when it comes. Each row has a process of its own. Memory is its peak above what it had before the round; `sum`
reads the same bytes by `numpy.load` and adds them to a running sum, `ready sum` adds arrays that are read already.
Times are CPU seconds of one thread; ratios count, as all come from one process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.core.setting import build
from fedballot.datasets.examples import Examples
from fedballot.datasets.federation import FederatedData
from fedballot.methods.registry import get_method
from fedballot.runs.engine import new_strategy
from fedballot.wire.messages import Reply, deserialise, serialise

QUERIES, CLASSES, FEATURES = 10_000, 10, 9_999  # linear weights: 10 x (9,999 + 1)
DIFFERENT = 8  # answers, which clients give in turn
SHARED = {"queries": QUERIES, "public_size": QUERIES, "min_clients": 1}
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Row:
    """A method with settings, and an answer's arrays, made from random numbers."""

    method: str
    settings: dict[str, Any]
    arrays: Callable[[np.random.Generator], list[Array]]


def votes(rng: np.random.Generator) -> list[Array]:
    return [rng.integers(-60, 60, (QUERIES, CLASSES), dtype=np.int8)]


def logits(rng: np.random.Generator) -> list[Array]:
    return [rng.normal(size=(QUERIES, CLASSES)).astype(np.float16)]


def probabilities(rng: np.random.Generator) -> list[Array]:
    return [rng.dirichlet(np.ones(CLASSES), QUERIES).astype(np.float16)]


def weights(rng: np.random.Generator) -> list[Array]:
    return [rng.normal(size=CLASSES * (FEATURES + 1)).astype(np.float32)]


ROWS = {
    "votes": Row("pate-fl", {**SHARED, "sigma": 30.0}, votes),
    "logits": Row("fedmd", {**SHARED, "share": "logits"}, logits),
    "probabilities": Row("fedmd", {**SHARED, "share": "softmax"}, probabilities),
    "confidence": Row("fedmd", {**SHARED, "share": "softmax", "weights": "confidence"}, probabilities),
    "weights": Row("fedavg", {"min_clients": 1, "client_models": "linear-torch", "precision": "float32"}, weights),
}


def made_up(clients: int, features: int) -> FederatedData:
    """Public records of this width, and a private one for each client."""
    public = np.zeros((QUERIES if features == 1 else 10, features), np.float32)
    labels = np.zeros(len(public), np.int64)
    private = Examples(np.zeros((clients, features), np.float32), np.zeros(clients, np.int64))
    parts = tuple(np.arange(client, client + 1) for client in range(clients))
    names = tuple(map(str, range(CLASSES)))
    return FederatedData(names, private, parts, public, labels, public[:10], labels[:10], "made up", ())


def peak_mb() -> float:
    """Most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def measure(name: str, clients: int, order: str) -> dict[str, Any]:
    """One row, in this process."""
    row, method = ROWS[name], get_method(ROWS[name].method)
    settings = build(method.settings, {**row.settings, "clients": clients})
    data = made_up(clients, FEATURES if name == "weights" else 1)
    strategy: Any = new_strategy(method, settings, data, request_id="memory")
    rng = np.random.default_rng(0)
    sent = [serialise(row.arrays(rng)) for _ in range(DIFFERENT)]
    names = [str(client) for client in range(clients)]
    strategy.numbers = {one: int(one) for one in names}
    coming = names if order == "as-asked" else [names[i] for i in rng.permutation(clients)]

    def replies() -> Iterator[Reply]:
        for client in map(int, coming):
            tensors = [bytes(bytearray(tensor)) for tensor in sent[client % DIFFERENT]]  # a copy: as it comes by wire
            yield Reply(str(client), tensors, {"client_id": client, "refused": "", "detail": ""}, time.time())

    def timed(add: Callable[[Reply], None]) -> float:
        spent = 0.0
        for reply in replies():
            began = time.process_time()
            add(reply)
            spent += time.process_time() - began
        return spent

    kind = deserialise(sent[0])[0]
    total = np.zeros(kind.shape, np.int64 if kind.dtype.kind == "i" else np.float64)
    ready = [strategy.read(deserialise(tensors)) for tensors in sent]

    def add(reply: Reply) -> None:
        np.add(total, deserialise(reply.tensors)[0], out=total)

    def add_ready(reply: Reply) -> None:
        np.add(total, ready[int(reply.sender) % DIFFERENT], out=total)

    plain, plain_ready = timed(add), timed(add_ready)
    with tempfile.TemporaryDirectory() as folder:
        strategy.scratch = Path(folder)
        base = peak_mb()
        strategy.ask(1, names)
        ours = timed(strategy.receive)
        began = time.process_time()
        strategy.conclude(1)
        ours += time.process_time() - began
        memory = peak_mb() - base
    return {
        "row": name,
        "clients": clients,
        "peak_mb": memory,
        "cpu_s": ours,
        "ms_a_client": 1e3 * ours / clients,
        "to_sum": ours / plain,
        "to_ready_sum": ours / plain_ready,
        "answered": strategy.counts.answered,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--order", choices=["as-asked", "random"], default="as-asked")
    parser.add_argument("--one", action="store_true", help="print one row's JSON, from this process")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.rows[0], given.clients[0], given.order)))
        return
    print("| answers | clients | MB above the start | CPU s | ms a client | ÷ sum | ÷ ready sum |")
    print("|---|---|---|---|---|---|---|", flush=True)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    for name in given.rows:
        for clients in given.clients:
            words = ["--one", "--rows", name, "--clients", str(clients), "--order", given.order]
            out = subprocess.run(
                [sys.executable, __file__, *words], env={**os.environ, **threads}, stdout=subprocess.PIPE, check=True
            )
            found = json.loads(out.stdout)
            cells = (f"{found[key]:.3g}" for key in ("peak_mb", "cpu_s", "ms_a_client", "to_sum", "to_ready_sum"))
            print(f"| {name} | {clients:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
