"""What leaks of a client's records, method by method, beside the accuracy of the same settings.

    python benchmarks/attack_rows.py --data digits --seeds 1 2 3 --runs 64 --out runs/leakage
    FEDBALLOT_DATA=DIR python benchmarks/attack_rows.py --data fashion --rows fedkd fedavg --seeds 1 --out runs/leakage
    FEDBALLOT_DATA=DIR python benchmarks/image_features.py cifar10-lite2.npz --images 5000
    python benchmarks/attack_rows.py --data cifar --seeds 1 2 3 --runs 32 --out runs/leakage

Every row is a `fedballot attack` and a `fedballot run` at the same settings and seed; what is in --out is not done
again. Prints Markdown of all that is there; --print only that.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fedballot as fb
from fedballot.api.attacking import load_attack
from fedballot.core.setting import names_of
from fedballot.methods.registry import get_method
from fedballot.settings.layers import parse_assignments
from fedballot.studies.attacks.measure import Score
from fedballot.studies.attacks.membership import Leak

DATA = {
    "digits": "dataset=digits clients=5 private_size=500 public_size=400 test_size=300",
    "fashion": "dataset=fashion-mnist clients=5 private_size=1000 public_size=1000 test_size=1000",
    "cifar": "dataset=cifar10-lite2.npz clients=5 private_size=1000 public_size=1000 test_size=1000",
}
VECTORS = ("cifar",)
TRAINING = (
    "client_models=logistic-regression server_model=logistic-regression server_epochs=10 pretrain_epochs=0 "
    "engine=local workers=1 device=cpu"
)
WEIGHTS = "client_models=linear-torch rounds=10 epochs=4 batch_size=16 lr=0.01 participation=1"
FEDMD = "rounds=3 queries=400"
SHOWN = "learned"


@dataclass(frozen=True)
class Line:
    """One row: a method, who looks at it, and settings beside the common ones."""

    name: str
    method: str
    words: str = ""
    view: str = "server"
    adversary: str = "membership"
    images: bool = False  # its extractor takes no vectors


def lines() -> Iterator[Line]:
    """All rows, predictions first."""
    yield Line("fedkd", "fedkd", "gamma=inf")
    yield Line("fedkd, pool planted", "fedkd", "gamma=inf", adversary="active-server")
    yield Line("fedavg", "fedavg", WEIGHTS)
    yield Line("fedmd, classes", "fedmd", FEDMD)
    yield Line("fedmd, probabilities", "fedmd", f"{FEDMD} share=softmax")
    yield Line("fedmd, classes, pool planted", "fedmd", FEDMD, adversary="active-server")
    yield Line("fedmd, probabilities, pool planted", "fedmd", f"{FEDMD} share=softmax", adversary="active-server")
    yield Line("pate-fl, ε=4, the sum", "pate-fl", "epsilon=4 delta=0.001", view="output")
    yield Line("pate-fl, ε=4, each ballot", "pate-fl", "epsilon=4 delta=0.001")
    yield Line("pate-fl, ε=4, each ballot, pool planted", "pate-fl", "epsilon=4 delta=0.001", adversary="active-server")
    yield Line("private-knn-fl, ε=4, the sum", "private-knn-fl", "epsilon=4 k=10", view="output")
    yield Line("private-knn-fl, ε=4, each ballot", "private-knn-fl", "epsilon=4 k=10")
    yield Line("fedaux-f", "fedaux-f")
    yield Line("fedauxfdp, ε=0.5", "fedauxfdp")
    yield Line("fedavg-p, ε=0.5", "fedavg-p")
    yield Line("fedd-p, ε=0.5", "fedd-p")
    yield Line("fedauxfdp-sum, ε=0.5, the sum", "fedauxfdp-sum", view="output")
    yield Line("fedkd-dp, ε=8, the sum", "fedkd-dp", "queries=200", view="output")
    yield Line("fedmd-ldp, ε=1", "fedmd-ldp", FEDMD)
    yield Line("fedmd-nfdp, k=30", "fedmd-nfdp", f"{FEDMD} k=30")
    yield Line("dp-fedsgd, ε=4.3", "dp-fedsgd", "client_models=linear-torch rounds=5 participation=1")
    yield Line("dp-fedavg, ε=4.3, the average", "dp-fedavg", WEIGHTS, view="output")
    yield Line("fedprox", "fedprox", WEIGHTS)
    yield Line("fedavgm", "fedavgm", WEIGHTS)
    yield Line("fedavg, the average", "fedavg", WEIGHTS, view="output")
    yield Line("feddf", "feddf", f"{WEIGHTS} rounds=4 server_epochs=5")
    yield Line("fedgen", "fedgen", f"{WEIGHTS} client_models=mlp-torch rounds=4")
    yield Line("fedaux", "fedaux", f"{WEIGHTS} rounds=4 server_epochs=5", images=True)


def settings_of(line: Line, data: str, seed: int) -> dict[str, Any]:
    """Settings of a row, as far as its method has them."""
    return {**known_to(line.method, f"{DATA[data]} {TRAINING} {line.words}"), "seed": seed}


def known_to(method: str, words: str) -> dict[str, Any]:
    """Of the settings in words, those that a method has."""
    known = names_of(get_method(method).settings)
    return {key: value for key, value in parse_assignments(words.split()).items() if key in known}


def as_folder(name: str) -> str:
    """A row's name as that of a folder."""
    return "".join(sign if sign.isalnum() or sign in ".=-" else "_" for sign in name)


def place(line: Line, data: str, seed: int, out: Path) -> Path:
    """The row's folder."""
    return out / data / f"{as_folder(line.name)}-{seed}"


def do(line: Line, data: str, seed: int, runs: int, out: Path) -> None:
    """Attack and run, unless that is done."""
    folder, settings = place(line, data, seed, out), settings_of(line, data, seed)
    if not (folder / "attack.json").exists():
        known: Any = {"adversary": line.adversary, "view": line.view}
        fb.attack(line.method, out=folder, runs=runs, progress=False, **known, **settings)
    if line.adversary == "membership" and not (folder / "run" / "result.json").exists():
        fb.run(line.method, out=folder / "run", progress=False, **settings)


def accuracy(folder: Path) -> float | None:
    """Of the server's model, of its labels, or the clients' mean."""
    if not (folder / "run" / "result.json").exists():
        return None
    metrics = fb.load(folder / "run").metrics
    clients = (metrics.get("client_accuracy") or {}).get("mean")
    found = [metrics.get("server_accuracy"), clients, metrics.get("label_accuracy")]
    return next((value for value in found if value is not None), None)


def found_of(line: Line, data: str, seeds: list[int], out: Path) -> tuple[list[Leak], list[Score], list[float]]:
    """What was found with the seeds that are done, the scores shown, and the accuracies that are there."""
    folders = [place(line, data, seed, out) for seed in seeds]
    folders = [folder for folder in folders if (folder / "attack.json").exists()]
    leaks = [load_attack(folder).leaks[0] for folder in folders]
    scores = [next(one for one in leak.scores if one.attack == SHOWN) for leak in leaks]
    return leaks, scores, [value for folder in folders if (value := accuracy(folder)) is not None]


def row(line: Line, data: str, seeds: list[int], out: Path) -> str | None:
    """A row of Markdown over the seeds that are done."""
    leaks, scores, right = found_of(line, data, seeds, out)
    if not leaks:
        return None
    told = leaks[0].promise
    areas = [score.auc for score in scores]
    cells = [
        line.name,
        f"{100 * statistics.mean(right):.1f} %" if right else "–",
        f"{statistics.mean(areas):.3f} ({min(areas):.3f}–{max(areas):.3f})",
        *(_rate([score.rates[place] for score in scores]) for place in (0, 1)),
        f"{max(leak.epsilon for leak in leaks):.2f}",
        "none" if told is None else f"{told.epsilon:.3g}, {told.delta:.2g}",
        str(len(leaks)),
    ]
    return f"| {' | '.join(cells)} |"


def _rate(rates: list[Any]) -> str:
    low, high = min(one.low for one in rates), max(one.high for one in rates)
    return f"{100 * statistics.mean(one.value for one in rates):.2f} % ({100 * low:.2f}–{100 * high:.2f})"


HEAD = (
    "| | accuracy | AUC (seeds) | found at 0.1 % false alarms | at 1 % | ε shown | ε, δ proved | seeds |\n"
    "|---|---|---|---|---|---|---|---|"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=tuple(DATA), default="digits")
    parser.add_argument("--rows", nargs="*", default=[], help="names of rows, or of methods; none: all")
    parser.add_argument("--seeds", nargs="*", type=int, default=[1])
    parser.add_argument("--runs", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path("runs/leakage"))
    parser.add_argument("--print", action="store_true", help="only print what is there")
    given = parser.parse_args()
    asked = [one for one in lines() if not given.rows or {one.name, one.method} & set(given.rows)]
    chosen = [one for one in asked if not one.images or given.data not in VECTORS]
    for seed in [] if given.print else given.seeds:
        for line in chosen:
            do(line, given.data, seed, given.runs, given.out)
            print(row(line, given.data, [seed], given.out), flush=True)
    print(HEAD)
    for line in chosen:
        if (text := row(line, given.data, given.seeds, given.out)) is not None:
            print(text)


if __name__ == "__main__":
    main()
