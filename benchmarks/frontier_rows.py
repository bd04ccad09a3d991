"""PATE-FL beside the methods that share weights, at the same epsilon: the paper's Table 1 (MNIST, Digit) and Figure 3.

    FEDBALLOT_DATA=DIR python benchmarks/frontier_rows.py --seeds 3 --out runs/frontier
    FEDBALLOT_DATA=DIR python benchmarks/frontier_rows.py --rows clients --methods dp-fedavg --set rounds=10

Runs that are in --out are not run again; each line is written to --out/rows.jsonl as it is done, and printed as
Markdown. The paper's Digit rows have SVHN beside MNIST as private data; these have MNIST alone.
The frontier itself (Figure 2) is `fedballot frontier`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

MNIST, USPS, USPS_DA = "pate-mnist-noniid", "pate-usps", "pate-usps-da"


@dataclass(frozen=True)
class Line:
    """One line: a method with settings, and the accuracy in percent that the paper prints for it."""

    rows: str
    name: str
    method: str
    preset: str
    settings: tuple[str, ...] = ()
    paper: float | None = None


def lines() -> Iterator[Line]:
    """Table 1's rows of MNIST and Digit, and Figure 3 (a) and (b), whose figures the paper draws but does not print."""
    for method, paper in (("centralized", None), ("fedavg", 97.8), ("dp-fedavg", 84.2), ("pate-fl", 95.1)):
        yield Line("mnist", f"{method}, MNIST non-IID", method, MNIST, (), paper)
    for method in ("fedprox", "fedavgm", "dp-fedsgd"):
        yield Line("kin", f"{method}, MNIST non-IID", method, MNIST)
    for preset, papers in ((USPS, (87.6, 76.3, 83.8)), (USPS_DA, (86.9, 71.2, 92.5))):
        da = "+DA" if preset == USPS_DA else ""
        for method, paper in zip(("fedavg", "dp-fedavg", "pate-fl"), papers, strict=True):
            yield Line("digit", f"{method}{da}, MNIST to USPS", method, preset, (), paper)
    for size in (50, 100, 200, 400, 600):
        for method in ("fedavg", "dp-fedavg", "pate-fl"):
            yield Line("data", f"{method}, {size} records each", method, MNIST, (f"private_size={100 * size}",))
    for clients in (10, 20, 50, 100, 200, 400, 800):
        for method in ("fedavg", "dp-fedavg", "pate-fl"):
            aim = () if method == "fedavg" else ("epsilon=5", "delta=1e-3")
            settings = (f"clients={clients}", f"min_clients={clients}", *aim)
            yield Line("clients", f"{method}, {clients} clients", method, MNIST, settings)


def run(line: Line, out: Path, words: list[str]) -> dict[str, object]:
    """Run once, unless the result is there; one that was begun is taken up."""
    result = out / "result.json"
    if not result.exists() or json.loads(result.read_text())["status"] != "done":
        command = [sys.executable, "-m", "fedballot.cli", "run", line.method, "--preset", line.preset]
        command += ["--out", str(out), "--quiet", *words, *(["--resume"] if (out / "run.json").exists() else [])]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return dict(json.loads(result.read_text()))


def main() -> None:
    """Run the rows that were asked for and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=["mnist", "kin", "digit", "data", "clients"])
    parser.add_argument("--methods", nargs="+", help="only these")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], help="a setting of every line, such as rounds=10")
    parser.add_argument("--out", type=Path, default=Path("runs/frontier"))
    given = parser.parse_args()
    print("| | ε, δ | accuracy | paper |\n|---|---|---|---|")
    for line in lines():
        if line.rows not in given.rows or (given.methods and line.method not in given.methods):
            continue
        values = []
        for seed in range(given.seeds):
            chosen = (*line.settings, *given.set, f"seed={seed}")
            words = [part for word in chosen for part in ("--set", word)]
            result = run(line, given.out / f"{line.rows}-{line.name.replace(' ', '-').replace(',', '')}-{seed}", words)
            values.append(float(result["metrics"]["server_accuracy"]))  # type: ignore[index]
        guarantee = result["guarantees"][0]  # type: ignore[index]
        told = "–" if guarantee["epsilon"] is None else f"{guarantee['epsilon']:.3g}, {guarantee['delta']:.3g}"
        paper = "–" if line.paper is None else f"{line.paper:.1f} %"
        mean, spread = 100 * np.mean(values), 100 * np.std(values)
        with (given.out / "rows.jsonl").open("a") as stream:
            stream.write(json.dumps({**asdict(line), "set": given.set, "accuracies": values, "told": told}) + "\n")
        print(f"| {line.name} | {told} | {mean:.1f} ± {spread:.1f} % | {paper} |", flush=True)


if __name__ == "__main__":
    main()
