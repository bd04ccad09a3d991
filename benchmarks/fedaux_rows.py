"""FedAUXfdp's Tables 2 and 3 and Figure 2: alpha, class epsilon, lambda, beside the paper's figures and the baselines.

    FEDBALLOT_DATA=DIR python benchmarks/fedaux_rows.py --preset fedaux-fashion --seeds 3 --out runs/fedaux
    FEDBALLOT_DATA=DIR python benchmarks/fedaux_rows.py --preset fedaux-cifar10 --set extractor=hog+pca --tables 3
    python benchmarks/fedaux_rows.py --print --out runs/fedaux          # the tables of what is there

The clients' and the server's own code runs in this process, one client after the other: a row takes seconds, for the
frozen features are kept. Rows that are in --out are not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fedballot.clients.workspace import Workspace
from fedballot.core.files import write_json
from fedballot.core.folders import ClientFolder
from fedballot.core.setting import names_of
from fedballot.methods.registry import get_method, settings_types
from fedballot.runs.engine import federated_data, new_strategy, prepare_worker
from fedballot.settings.layers import parse_assignments, resolve
from fedballot.strategies.base import Answer

ALPHAS = (0.01, 0.04, 0.16, 10.24)
EPSILONS = (math.inf, 1.0, 0.5, 0.1, 0.01)
LAMBDAS = (0.001, 0.01, 0.1, 1.0)
SCORES = 0.1
PAPER = {  # ShuffleNet columns of Tables 2 and 3
    ("fedavg-p", 0.5): (46.0, 56.7, 67.5, 74.1),
    ("fedd-p", 0.5): (41.8, 54.7, 68.8, 72.3),
    ("fedaux-f", math.inf): (64.8, 64.9, 67.7, 73.4),
    ("fedauxfdp", math.inf): (76.1, 75.6, 75.2, 75.4),
    ("fedauxfdp", 1.0): (75.7, 75.1, 74.6, 74.9),
    ("fedauxfdp", 0.5): (75.2, 74.6, 72.3, 71.7),
    ("fedauxfdp", 0.1): (60.8, 59.4, 33.9, 34.6),
    ("fedauxfdp", 0.01): (36.3, 39.8, 12.6, 11.7),
}


@dataclass(frozen=True)
class Row:
    """One line of a table: a method with settings at one alpha."""

    table: str
    name: str
    method: str
    epsilon: float
    alpha: float
    settings: tuple[str, ...]

    def file(self, seed: int) -> str:
        """Where its result lies."""
        words = (self.table, self.name, f"e{self.epsilon:g}", f"a{self.alpha:g}", f"s{seed}")
        return "_".join(words).replace(" ", "-").replace("=", "") + ".json"


def rows() -> Iterator[Row]:
    """All lines. Class sums are told at the class and the score epsilon together, and have no score release."""
    logistic = ("head=logistic", f"score_epsilon={SCORES}")
    for alpha in ALPHAS:
        for epsilon in EPSILONS:
            class_epsilon = (f"epsilon={epsilon}",)
            together = (f"epsilon={epsilon + SCORES}",)
            yield Row("3", "class sums", "fedauxfdp", epsilon, alpha, together)
            yield Row("logistic", "logistic tight", "fedauxfdp", epsilon, alpha, (*logistic, *class_epsilon))
            words = (*logistic, *class_epsilon, "mechanism=paper")
            yield Row("logistic", "paper", "fedauxfdp", epsilon, alpha, words)
            if math.isfinite(epsilon):
                yield Row("sum", "class sums one noise", "fedauxfdp-sum", epsilon, alpha, together)
            yield Row("pca", "class sums pca", "fedauxfdp", epsilon, alpha, (*together, "embedding=pca"))
            yield Row("alone", "class sums alone", "fedauxfdp", epsilon, alpha, class_epsilon)
        yield Row("2", "FedAVG+P", "fedavg-p", 0.5, alpha, ("epsilon=0.5", "mechanism=paper"))
        yield Row("2", "FedD+P", "fedd-p", 0.5, alpha, ("epsilon=0.5", "mechanism=paper"))
        yield Row("2", "FedAVG+P tight", "fedavg-p", 0.5, alpha, ("epsilon=0.5",))
        yield Row("2", "FedD+P tight", "fedd-p", 0.5, alpha, ("epsilon=0.5",))
        yield Row("2", "FedAUX+F", "fedaux-f", math.inf, alpha, (f"score_epsilon={SCORES}",))
        for lam in LAMBDAS:
            for epsilon in (math.inf, 0.01):
                words = (*logistic, f"epsilon={epsilon}", f"lam={lam}")
                yield Row("fig2", f"paper lam={lam:g}", "fedauxfdp", epsilon, alpha, (*words, "mechanism=paper"))
                yield Row("fig2-tight", f"logistic tight lam={lam:g}", "fedauxfdp", epsilon, alpha, words)


def run(row: Row, preset: str, seed: int, given: list[str]) -> dict[str, Any]:
    """One round of the method's own client and Strategy."""
    method = get_method(row.method)
    silent = ["evaluate_clients=false"] if "evaluate_clients" in names_of(method.settings) else []
    words = [*given, *row.settings, f"alpha={row.alpha}", f"seed={seed}", *silent]
    settings = resolve(row.method, settings_types(), preset=preset, values=parse_assignments(words))
    data = federated_data(settings)
    clock = time.perf_counter()
    server = new_strategy(method, settings, data, request_id="run")
    config = {"request": "run/1", "round": 1, "fingerprint": data.public_fingerprint}
    answers, sent = [], 0
    with TemporaryDirectory() as folder:
        for client_id in range(settings.clients):
            workspace = Workspace(client_id, settings, data, ClientFolder(Path(folder) / str(client_id)), "cpu")
            arrays, _, metrics = method.client_class(workspace).fit(server.request(1), dict(config))
            if metrics["refused"]:
                raise SystemExit(f"client {client_id}: {metrics}: {(workspace.folder.path / 'errors.txt').read_text()}")
            sent += sum(array.nbytes for array in arrays)
            answers.append(Answer(client_id, server.read(arrays), 0.0, 0.0))
    server.round_records.append({"answered": len(answers), "metrics": server.combine(1, answers)})
    outcome = server.outcome()
    return {
        "preset": preset,
        "settings": words,
        "accuracy": outcome["metrics"]["server_accuracy"],
        "labels": outcome["metrics"].get("label_accuracy"),
        "guarantees": [one.worded() for one in server.guarantees()],
        "bytes_up": sent,
        "seconds": time.perf_counter() - clock,
    }


def show(out: Path, tables: list[str]) -> None:
    """The tables of what is in ``out``: mean and deviation over seeds, and the paper's figure."""
    lines: dict[tuple[str, str, float], list[str]] = {}
    for row in rows():
        found = [json.loads(path.read_text()) for path in sorted(out.glob(row.file(0).replace("_s0", "_s*")))]
        values = [100 * one["accuracy"] for one in found]
        cell = f"{np.mean(values):.1f} ± {np.std(values):.1f}" if values else "–"
        paper = PAPER.get((row.method, row.epsilon))
        if paper and values and row.name in ("class sums", "paper", "FedAVG+P", "FedD+P", "FedAUX+F"):
            cell += f" ({paper[ALPHAS.index(row.alpha)]})"
        if values and len(values) != 3:
            cell += f" [{len(values)}]"
        lines.setdefault((row.table, row.name, row.epsilon), []).append(cell)
    for table in tables:
        print(
            f"\n| {table} | class ε | "
            + " | ".join(f"α = {alpha:g}" for alpha in ALPHAS)
            + " |\n|---|---|---|---|---|---|"
        )
        for (of, name, epsilon), cells in sorted(lines.items(), key=lambda item: (item[0][1], -item[0][2])):
            if of == table and set(cells) != {"–"}:
                told = "none" if math.isinf(epsilon) else f"{epsilon:g}"
                print(f"| {name} | {told} | " + " | ".join(cells) + " |")


def main() -> None:
    """Run the tables that were asked for and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tables", nargs="+", default=["3", "2", "logistic", "fig2", "fig2-tight", "sum", "pca", "alone"]
    )
    parser.add_argument("--preset", default="fedaux-fashion")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], help="a setting for all rows")
    parser.add_argument("--out", type=Path, default=Path("runs/fedaux"))
    parser.add_argument("--print", action="store_true", help="run nothing")
    given = parser.parse_args()
    if not given.print:
        prepare_worker(with_torch=True)
        for seed in range(given.seeds):
            for table in given.tables:
                for row in (row for row in rows() if row.table == table):
                    path = given.out / row.file(seed)
                    if not path.exists():
                        write_json(path, run(row, given.preset, seed, given.set))
    show(given.out, given.tables)


if __name__ == "__main__":
    main()
