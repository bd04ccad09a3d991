"""All rows of docs/performance.md: fedballot, a plain loop and other frameworks at the same work, in turn.

    make benchmark                                    # all of it, with the peers' own environment: 15 minutes
    python benchmarks/performance.py --rows digits start --repeats 1
    python benchmarks/performance.py --list

Rows are written to benchmarks/performance.json as they are done, and docs/performance.md from that. A row that stands
there for the same code is not run again unless --rows names it. FEDBALLOT_DATA must name a folder with mnist.npz.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from engine import DIGITS, SMALL, assigned
from plain import Work
from timing import CommandFailed, Cost, cost_of, machine, medians

HERE = Path(__file__).parent
RECORD = HERE / "performance.json"
PEERS = HERE.parent / ".venv-benchmark" / "bin" / "python"
CORES = len(os.sched_getaffinity(0))
OURS, PLAIN = "fedballot", "plain loop"

FEDAVG = {
    "dataset": "mnist",
    "private_size": 60000,
    "clients": 100,
    "client_models": "cnn-small",
    "epochs": 2,
    "rounds": 3,
    "evaluate_clients": "false",
}
EPSILONS = ",".join(str(value) for value in range(21, 41))


@dataclass(frozen=True)
class Way:
    """One way to do a row's work.

    Attributes
    ----------
    command : its words; {out} becomes a folder that is not there yet, {inputs} the peers' records.
    most : repeats at most; slow ones are run once.
    memory : whether to watch the memory of all its processes, which costs some time.
    on_ray : whether Ray ends some of its processes, so that nobody is told of their CPU time.
    """

    command: tuple[str, ...]
    most: int = 99
    memory: bool = False
    on_ray: bool = False
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """The same work, done in several ways that take turns."""

    about: str
    ways: Mapping[str, Way]


def run(method: str, settings: Mapping[str, object], **options: Any) -> Way:
    """A run of fedballot on its local engine."""
    words = assigned({**settings, "engine": "local"})
    return Way((*fedballot("run", method), *words, "--out", "{out}", "--quiet", "--json"), **options)


def fedballot(*words: str) -> tuple[str, ...]:
    """A command of fedballot's."""
    return (sys.executable, "-m", "fedballot.cli", *words)


def loop(method: str, settings: Mapping[str, object], workers: int = CORES, times: int = 1, **options: Any) -> Way:
    """The plain loop with the same settings, see plain.py."""
    words = [f"{key}={value}" for key, value in settings.items()]
    numbers = ("--workers", str(workers), "--times", str(times))
    return Way((sys.executable, str(HERE / "plain.py"), method, *numbers, *words), **options)


def peer(framework: str, *before: str, **options: Any) -> Way:
    """Another framework, see peers.py."""
    words = (str(HERE / "peers.py"), framework, "{inputs}", "--cores", str(CORES))
    return Way((str(PEERS), *before, *words), **options)


def pate(clients: int, **options: Any) -> Row:
    """The small model of PATE-FL."""
    settings = {**SMALL, "clients": clients}
    return Row(
        f"PATE-FL, {clients:,} clients, small model",
        {PLAIN: loop("pate-fl", settings, **options), OURS: run("pate-fl", settings, memory=True, **options)},
    )


FOUR = {**DIGITS, "clients": 4}
GRID = {**FOUR, "epsilon": EPSILONS, "engine": "local"}
DEMO = (*fedballot("run", "pate-fl"), "--preset", "demo", "--quiet", "--json")
PFL = ("-m", "torch.distributed.run", "--nproc-per-node", str(CORES))
ROWS = {
    "client": Row(
        "one client of FedAvg, 600 MNIST images, 2 epochs, `cnn-small`",
        {OURS: Way((sys.executable, str(HERE / "client.py")), most=1)},
    ),
    "fedavg": Row(
        "FedAvg, 100 clients × 600 MNIST images, 2 epochs, 3 rounds, `cnn-small`",
        {
            PLAIN: loop("fedavg", FEDAVG),
            "pfl-research, SGD": peer("pfl", *PFL, env={"OMP_NUM_THREADS": "1"}),
            OURS: run("fedavg", FEDAVG),
            "Flower's quickstart, SGD": peer("flower", most=1, on_ray=True),
        },
    ),
    "pate-100": pate(100),
    "pate-1000": pate(1000, most=1),
    "digits": Row(
        "4 clients, logistic regression, scikit-learn's digits",
        {PLAIN: loop("pate-fl", FOUR, workers=1), OURS: run("pate-fl", FOUR)},
    ),
    "demo": Row(
        "`make demo` after installation, and the same on local workers",
        {
            OURS: Way((*DEMO, "--out", "{out}"), most=1, on_ray=True),
            f"{OURS}, engine=local": Way((*DEMO, "--set", "engine=local", "--out", "{out}"), most=1),
        },
    ),
    "start": Row(
        "`fedballot --help` and `methods`",
        {
            'python -c "import numpy"': Way((sys.executable, "-c", "import numpy")),
            "fedballot --help": Way(fedballot("--help")),
            "fedballot methods": Way(fedballot("methods")),
        },
    ),
    "sweep": Row(
        "sweep of 20 runs of the 4 clients",
        {
            PLAIN: loop("pate-fl", FOUR, workers=1, times=20, most=1),
            OURS: Way((*fedballot("sweep", "pate-fl"), *assigned(GRID), "--out", "{out}"), most=1),
        },
    ),
}


def lay_out(folder: Path) -> None:
    """The clients' records of the FedAvg row for the peers; shuffled, as mnist.npz is sorted by class."""
    data = Work("fedavg", [f"{key}={value}" for key, value in FEDAVG.items()]).data
    order = np.random.default_rng(0)
    rows = [order.permutation(part) for part in data.parts]
    np.save(folder / "x.npy", np.stack([data.private.x[part] for part in rows]))
    np.save(folder / "y.npy", np.stack([data.private.y[part] for part in rows]))
    np.save(folder / "test_x.npy", data.test_x)
    np.save(folder / "test_y.npy", data.test_y)


def once(way: Way, scratch: Path) -> Cost:
    """One measurement."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        places = {"{out}": f"{folder}/out", "{inputs}": str(scratch / "inputs")}
        return cost_of([places.get(word, word) for word in way.command], env=way.env, memory=way.memory)


def facts(cost: Cost) -> dict[str, Any]:
    """What a command has said of itself: accuracy, and seconds of its parts."""
    try:
        told = json.loads(cost.output)
    except ValueError:
        lines = cost.output.strip().splitlines()
        told = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
    if "metrics" in told:
        parts = ("startup_s", "train_s", "engine_overhead")
        return {"accuracy": told["metrics"]["server_accuracy"], **{key: round(told["timing"][key], 3) for key in parts}}
    return dict(told)


def measured(row: Row, repeats: int, scratch: Path) -> dict[str, Any]:
    """What each way of a row takes; in each repeat all take turns."""
    costs: dict[str, list[Cost]] = {name: [] for name in row.ways}
    for repeat in range(repeats):
        for name, way in row.ways.items():
            if repeat >= way.most:
                continue
            if way.command[0] == str(PEERS) and not PEERS.exists():
                print(f"  {name}: left out, there is no {PEERS}: make benchmark", flush=True)
                continue
            costs[name].append(once(way, scratch))
            print(f"  {name}: {costs[name][-1].wall_s:.2f} s, CPU {costs[name][-1].cpu_s:.2f} s", flush=True)
    record = {name: {**medians(each), **facts(each[-1])} for name, each in costs.items() if each}
    for name in record:
        if row.ways[name].on_ray:
            del record[name]["cpu_s"]
    return record


def code() -> str:
    """The tree of the package that is measured, as git names it."""
    command = ["git", "-C", str(HERE.parent), "rev-parse", "HEAD:fedballot"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Measure what is asked for, write the record and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), help="these, whether they are there or not")
    parser.add_argument("--repeats", type=int, default=3, help="of the quick ones; figures are medians")
    parser.add_argument("--out", type=Path, default=RECORD)
    parser.add_argument("--list", action="store_true", help="say what rows there are")
    asked = parser.parse_args()
    if asked.list:
        print("\n".join(f"{name:10} {row.about}" for name, row in ROWS.items()))
        return
    record = json.loads(asked.out.read_text()) if asked.out.exists() else {}
    stands = {name for name, row in record.items() if code() and row["code"] == code()}
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        for name in asked.rows or [name for name in ROWS if name not in stands]:
            print(f"{name}: {ROWS[name].about}", flush=True)
            load = f"{os.getloadavg()[0]:.1f}"
            if name == "fedavg" and not (scratch / "inputs").exists():
                (scratch / "inputs").mkdir()
                lay_out(scratch / "inputs")
            try:
                ways = measured(ROWS[name], asked.repeats, scratch)
            except CommandFailed as error:  # the other rows need not wait for it
                print(f"  {error}", file=sys.stderr, flush=True)
                failed.append(name)
                continue
            record[name] = {"about": ROWS[name].about, "code": code(), "machine": machine(), "load": load, "ways": ways}
            record = {name: record[name] for name in ROWS if name in record}
            asked.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    if asked.out == RECORD:
        subprocess.run([sys.executable, str(HERE / "performance_page.py")], check=True)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
