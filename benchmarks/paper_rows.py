"""PATE-FL's paper rows: server accuracy at several budgets and seeds, next to the baselines.

    FEDBALLOT_DATA=DIR python benchmarks/paper_rows.py --epsilon 4.3 1 0.5 0.25 --seeds 3 --out runs/rows

A client's teacher depends on the seed and not on epsilon, so the runs of one seed share their trained teachers. Runs
that are already in --out are not run again. Prints one line per run, then mean and deviation over the seeds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np


def run(method: str, out: Path, words: list[str], teachers: Path | None = None) -> dict[str, object]:
    """Run once, unless the result is there; ``teachers`` is a finished run whose clients' models may be used."""
    result = out / "result.json"
    if not result.exists() or json.loads(result.read_text())["status"] != "done":
        shutil.rmtree(out, ignore_errors=True)
        command = [
            sys.executable,
            "-m",
            "fedballot.cli",
            "run",
            method,
            "--out",
            str(out),
            "--quiet",
            "--json",
            *words,
        ]
        if teachers is not None:
            # a run that is stopped before its clients start is then resumed with the models in place
            prepare = [*command, "--set", "round_timeout_s=0.001"]
            subprocess.run(prepare, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            shutil.rmtree(out / "clients", ignore_errors=True)
            keep = shutil.ignore_patterns("ledger")
            shutil.copytree(teachers / "clients", out / "clients", ignore=keep)
            command.append("--resume")
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return dict(json.loads(result.read_text()))


def main() -> None:
    """Run the grid and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="pate-mnist-noniid")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[4.3, 1.0, 0.5, 0.25])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--argmax", type=float, nargs="*", default=[4.3], help="budgets for the paper's argmax student")
    parser.add_argument("--baselines", action="store_true", help="also centralized and standalone")
    parser.add_argument("--out", type=Path, default=Path("runs/rows"))
    given = parser.parse_args()
    rows: dict[str, list[float]] = defaultdict(list)
    for seed in range(given.seeds):
        common = ["--preset", given.preset, "--set", f"seed={seed}"]
        teachers: Path | None = None
        grid = [(epsilon, "self-train") for epsilon in given.epsilon] + [(eps, "argmax") for eps in given.argmax]
        for epsilon, student in grid:
            out = given.out / f"{given.preset}-{student}-{epsilon:g}-{seed}"
            words = [*common, "--set", f"epsilon={epsilon:g}", "--set", f"student={student}"]
            metrics = run("pate-fl", out, words, teachers)["metrics"]
            teachers = teachers or out
            rows[f"{student} epsilon={epsilon:g}"].append(metrics["server_accuracy"])
            print(
                f"{student} epsilon={epsilon:g} seed={seed}: server {metrics['server_accuracy']:.4f}, labels "
                f"{metrics['label_accuracy']:.4f}, noisy argmax {metrics['noisy_label_accuracy']:.4f}",
                flush=True,
            )
        if given.baselines:
            for method in ("centralized", "standalone"):
                metrics = run(method, given.out / f"{given.preset}-{method}-{seed}", common)["metrics"]
                value = metrics["server_accuracy"] or metrics["client_accuracy"]["mean"]
                rows[method].append(value)
                print(f"{method} seed={seed}: {value:.4f}", flush=True)
    for name, values in rows.items():
        print(f"{name}: {100 * np.mean(values):.2f} ± {100 * np.std(values):.2f} over {len(values)} seeds")


if __name__ == "__main__":
    main()
