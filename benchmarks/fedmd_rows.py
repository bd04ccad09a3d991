"""FedMD-NFDP's tables: k, what is shared, parties, IID or not, beside the paper's figures for CIFAR and the baselines.

    FEDBALLOT_DATA=DIR python benchmarks/fedmd_rows.py --seeds 3 --out runs/fedmd
    FEDBALLOT_DATA=DIR python benchmarks/fedmd_rows.py --rows k --set rounds=10 --set queries=1000
    python benchmarks/fedmd_rows.py --rows scale          # 200 parties x 3 rounds on digits: wall and memory

Runs that are in --out are not run again. Prints Markdown. Every run is a process of its own; on few cores they go one
after the other, as one run uses all of them.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FASHION, NONIID = "fedmd-fashion", "fedmd-noniid"


@dataclass(frozen=True)
class Line:
    """One line of a table: a method with settings, and the accuracy that the paper prints for its like."""

    table: str
    name: str
    method: str
    preset: str
    settings: tuple[str, ...] = ()
    paper: float | None = None


def lines() -> Iterator[Line]:
    """The paper's Tables 2 to 4 (CIFAR rows) and Figure 5, with the settings that correspond here."""
    for k, paper in ((18, 74.40), (60, 81.58), (120, 83.57), (300, 87.38)):
        yield Line("k", f"fedmd-nfdp, k={k}", "fedmd-nfdp", FASHION, (f"k={k}",), paper)
    yield Line("k", "fedmd", "fedmd", FASHION, (), 86.88)
    yield Line("k", "centralized", "centralized", FASHION, (), 88.83)
    yield Line("k", "standalone", "standalone", FASHION)
    yield Line("k", "fedmd-ldp, ε=1, the δ of k=18", "fedmd-ldp", FASHION, ("epsilon=1", "delta=0.0583"))
    for agents, values in ((5, (69.79, 70.02, 70.01)), (10, (74.55, 74.88, 75.12))):
        size = f"private_size={300 * agents}"
        for share, paper in zip(("logits", "softmax", "argmax"), values, strict=True):
            settings = ("k=18", f"share={share}", f"agents={agents}", size)
            yield Line("share", f"k=18, N={agents}, {share}", "fedmd-nfdp", FASHION, settings, paper)
    yield Line("noniid", "IID, k=18", "fedmd-nfdp", NONIID, ("k=18", "partition=iid"), 75.12)
    yield Line("noniid", "one kind of each, k=18", "fedmd-nfdp", NONIID, ("k=18",), 53.18)
    yield Line("noniid", "fedmd", "fedmd", NONIID)
    yield Line("noniid", "standalone", "standalone", NONIID)
    yield Line("noniid", "centralized", "centralized", NONIID)
    models = "client_models=cnn-small,cnn,random-forest,logistic-regression"
    yield Line("models", "networks, forests and regressions together", "fedmd-nfdp", FASHION, ("k=60", models))
    yield Line("digits", "fedmd-nfdp, k=60", "fedmd-nfdp", "fedmd-digits", ("k=60",))
    yield Line("digits", "fedmd", "fedmd", "fedmd-digits")
    yield Line("digits", "standalone", "standalone", "fedmd-digits")
    yield Line("digits", "centralized", "centralized", "fedmd-digits")


def run(method: str, out: Path, words: list[str]) -> dict[str, object]:
    """Run once, unless the result is there; one that was begun is taken up."""
    result = out / "result.json"
    if not result.exists() or json.loads(result.read_text())["status"] != "done":
        command = [sys.executable, "-m", "fedballot.cli", "run", method, "--out", str(out), "--quiet", *words]
        if (out / "run.json").exists():
            command.append("--resume")
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return dict(json.loads(result.read_text()))


def accuracy(result: dict[str, object]) -> float:
    """Of the server's model, or the mean of the parties'."""
    metrics = dict(result["metrics"])  # type: ignore[call-overload]
    return float(metrics["server_accuracy"] or metrics["client_accuracy"]["mean"])


def scale(out: Path) -> None:
    """200 parties, 3 rounds."""
    words = (
        "dataset=digits agents=200 private_size=1000 public_size=400 test_size=200 client_models=logistic-regression"
    )
    words += " server_model=logistic-regression pretrain_epochs=0 rounds=3 share=argmax"
    began = time.perf_counter()
    result = run("fedmd", out / "scale", [part for word in words.split() for part in ("--set", word)])
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    timing, sent = dict(result["timing"]), dict(result["communication"])  # type: ignore[call-overload]
    print(
        f"200 parties x (1 + 3) rounds: {time.perf_counter() - began:.1f} s, of which rounds {timing['train_s']:.1f} s "
        f"on {timing['workers']} workers, overhead of the engine {100 * timing['engine_overhead']:.0f} %; largest "
        f"process {peak:.0f} MB; {sent['messages']} messages, {sent['bytes_up'] / 1e6:.1f} MB up"
    )


def main() -> None:
    """Run the tables that were asked for and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=["k", "share", "noniid", "models", "digits"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], help="a setting for all fedmd runs, such as rounds=10")
    parser.add_argument("--out", type=Path, default=Path("runs/fedmd"))
    given = parser.parse_args()
    if "scale" in given.rows:
        scale(given.out)
    if set(given.rows) == {"scale"}:
        return
    print("| | ε, δ | accuracy | paper, CIFAR |\n|---|---|---|---|")
    for line in lines():
        if line.table not in given.rows:
            continue
        values = []
        for seed in range(given.seeds):
            extra = given.set if line.method.startswith("fedmd") else []
            words = [part for word in (*extra, *line.settings, f"seed={seed}") for part in ("--set", word)]
            folder = given.out / f"{line.table}-{line.name.replace(' ', '-')}-{seed}"
            result = run(line.method, folder, ["--preset", line.preset, *words])
            values.append(accuracy(result))
        guarantee = result["guarantees"][0]  # type: ignore[index]
        told = "–" if guarantee["epsilon"] is None else f"{guarantee['epsilon']:.3g}, {guarantee['delta']:.3g}"
        paper = "–" if line.paper is None else f"{line.paper:.1f} %"
        mean, spread = 100 * np.mean(values), 100 * np.std(values)
        print(f"| {line.name} | {told} | {mean:.1f} ± {spread:.1f} % | {paper} |", flush=True)


if __name__ == "__main__":
    main()
