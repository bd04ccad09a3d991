"""FedMD-NFDP's tables: k, what is shared, clients, IID or not, beside the paper's figures for CIFAR and the baselines.

    FEDBALLOT_DATA=DIR python benchmarks/fedmd_rows.py --seeds 3 --out runs/fedmd
    FEDBALLOT_DATA=DIR python benchmarks/fedmd_rows.py --rows k --set rounds=10 --set queries=1000
    python benchmarks/fedmd_rows.py --rows scale          # 200 clients x 3 rounds on digits: wall and memory

Runs that are in --out are not run again. Prints Markdown. Every run is a process of its own; on few cores they go one
after the other, as one run uses all of them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np

from fedballot.methods.registry import get_method

matplotlib.use("agg")
import matplotlib.pyplot as plt

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
    for clients, values in ((5, (69.79, 70.02, 70.01)), (10, (74.55, 74.88, 75.12))):
        size = f"private_size={300 * clients}"
        for share, paper in zip(("logits", "softmax", "argmax"), values, strict=True):
            settings = ("k=18", f"share={share}", f"clients={clients}", size)
            yield Line("share", f"k=18, N={clients}, {share}", "fedmd-nfdp", FASHION, settings, paper)
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


@dataclass(frozen=True)
class Measured:
    """What one run showed: mean accuracy of the clients after each round (or of the one model), and bytes sent."""

    over_rounds: list[float]
    epsilon: float | None
    delta: float
    bytes_up: int


def measure(line: Line, seed: int, common: list[str], out: Path) -> Measured:
    """Run a line with one seed. A common setting holds for the methods that know it."""
    known = {field.name for field in dataclasses.fields(get_method(line.method).settings)}
    extra = [word for word in common if word.partition("=")[0] in known]
    words = [part for word in (*extra, *line.settings, f"seed={seed}") for part in ("--set", word)]
    folder = out / f"{line.table}-{line.name.replace(' ', '-')}-{seed}"
    result = run(line.method, folder, ["--preset", line.preset, *words])
    metrics, guarantee = dict(result["metrics"]), result["guarantees"][0]  # type: ignore[call-overload, index]
    figures = [json.loads(path.read_text()) for path in sorted(folder.glob("clients/*/figures.json"))]
    rounds = [figure["rounds"] for figure in figures if "rounds" in figure]
    over = (
        [float(np.mean([each[number] for each in rounds])) for number in sorted(rounds[0], key=int)] if rounds else []
    )
    final = float(metrics["server_accuracy"] or metrics["client_accuracy"]["mean"])
    sent = dict(result["communication"])["bytes_up"]  # type: ignore[call-overload]
    return Measured(over or [final], guarantee["epsilon"], guarantee["delta"], sent)


def scale(out: Path) -> None:
    """200 clients, 3 rounds."""
    words = (
        "dataset=digits clients=200 private_size=1000 public_size=400 test_size=200 client_models=logistic-regression"
    )
    words += " server_model=logistic-regression pretrain_epochs=0 rounds=3 share=argmax"
    began = time.perf_counter()
    result = run("fedmd", out / "scale", [part for word in words.split() for part in ("--set", word)])
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    timing, sent = dict(result["timing"]), dict(result["communication"])  # type: ignore[call-overload]
    print(
        f"200 clients x (1 + 3) rounds: {time.perf_counter() - began:.1f} s, of which rounds {timing['train_s']:.1f} s "
        f"on {timing['workers']} workers, overhead of the engine {100 * timing['engine_overhead']:.0f} %; largest "
        f"process {peak:.0f} MB; {sent['messages']} messages, {sent['bytes_up'] / 1e6:.1f} MB up"
    )


def main() -> None:
    """Run the tables that were asked for and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=["k", "share", "noniid", "models", "digits"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--set", action="append", default=[], help="a setting for all runs whose method knows it, such as rounds=10"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/fedmd"))
    parser.add_argument("--plot", type=Path, help="a PNG: accuracy against k and over the rounds")
    given = parser.parse_args()
    if "scale" in given.rows:
        scale(given.out)
    if set(given.rows) == {"scale"}:
        return
    rows: list[tuple[Line, list[Measured]]] = []
    print("| | ε, δ | before | after | paper, CIFAR |\n|---|---|---|---|---|")
    for line in lines():
        if line.table in given.rows:
            rows.append((line, [measure(line, seed, given.set, given.out) for seed in range(given.seeds)]))
            print(markdown(*rows[-1]), flush=True)
    if given.plot:
        draw(rows, given.plot)


def markdown(line: Line, runs: list[Measured]) -> str:
    """One line of the table: mean and standard deviation over the seeds."""
    told = "–" if runs[0].epsilon is None else f"{runs[0].epsilon:.3g}, {runs[0].delta:.3g}"
    before, after = (np.array([100 * run.over_rounds[at] for run in runs]) for at in (0, -1))
    first = f"{before.mean():.1f} %" if len(runs[0].over_rounds) > 1 else "–"
    paper = "–" if line.paper is None else f"{line.paper:.1f} %"
    return f"| {line.name} | {told} | {first} | {after.mean():.1f} ± {after.std():.1f} % | {paper} |"


def draw(rows: list[tuple[Line, list[Measured]]], path: Path) -> None:
    """Accuracy against k beside the paper's, and over the rounds."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.4), layout="constrained")
    sweep = [(line, runs) for line, runs in rows if line.table == "k" and "k=" in "".join(line.settings[:1])]
    ks = [int(line.settings[0].removeprefix("k=")) for line, _ in sweep]
    for at, label in ((0, "each client alone"), (-1, "after the last round")):
        finals = np.array([[100 * run.over_rounds[at] for run in runs] for _, runs in sweep])
        left.errorbar(ks, finals.mean(axis=1), finals.std(axis=1), marker="o", capsize=3, label=label)
    left.plot(ks, [line.paper for line, _ in sweep], marker="s", linestyle=":", label="paper, CIFAR")
    left.set(xlabel="k, records drawn per client", ylabel="accuracy, %", xscale="log")
    left.set_xticks(ks, [str(k) for k in ks], minor=False)
    left.minorticks_off()
    for line, runs in rows:
        if line.table in ("k", "digits") and len(runs[0].over_rounds) > 1:
            curve = 100 * np.mean([run.over_rounds for run in runs], axis=0)
            right.plot(range(len(curve)), curve, label=f"{line.preset.removeprefix('fedmd-')}: {line.name}")
    right.set(xlabel="round", ylabel="accuracy, %")
    left.legend(fontsize=7)
    right.legend(fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
