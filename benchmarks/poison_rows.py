"""How far malicious clients move what is released and learned, method by method and defence by defence.

    python benchmarks/poison_rows.py --out runs/poisoning
    python benchmarks/poison_rows.py --rows fedkd fedavg --out runs/poisoning

Every row is a `fedballot attack --adversary active-client`; what is in --out is not done again. Prints Markdown of all
that is there; --print only that.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attack_rows import as_folder, known_to

import fedballot as fb
from fedballot.api.attacking import load_attack
from fedballot.studies.attacks.poisoning import Mean, Poisoned

COMMON = (
    "dataset=digits clients=10 private_size=800 public_size=200 test_size=300 client_models=logistic-regression "
    "server_model=logistic-regression engine=local workers=1 device=cpu"
)
WEIGHTS = "client_models=linear-torch rounds=5 epochs=4 lr=0.01"
FEDMD = "rounds=1 queries=200 pretrain_epochs=0"
EQUAL = "gamma=inf weights=equal"
MEDIAN = "aggregation=median"
TRIMMED = "aggregation=trimmed-mean trim=3"
SENT = {"flipped": "wrong labels", "permitted": "worst by the rules", "passing": "worst not refused"}


@dataclass(frozen=True)
class Line:
    """One row: a method with settings beside the common ones."""

    name: str
    method: str
    words: str = ""


def lines() -> Iterator[Line]:
    """All rows, votes first."""
    yield Line("pate-fl, ε=∞", "pate-fl", "student=argmax epsilon=inf")
    yield Line("pate-fl, ε=∞, masks", "pate-fl", "student=argmax epsilon=inf secure_aggregation=true")
    yield Line("pate-fl, ε=20", "pate-fl", "student=argmax epsilon=20 delta=0.001")
    yield Line("pate-fl, ε=20, masks", "pate-fl", "student=argmax epsilon=20 delta=0.001 secure_aggregation=true")
    yield Line("private-knn-fl, ε=4", "private-knn-fl", "student=argmax epsilon=4 k=5")
    yield Line("fedkd", "fedkd", "gamma=inf")
    yield Line("fedkd, logit_bound=1, weights=equal", "fedkd", f"{EQUAL} logit_bound=1")
    yield Line("fedkd, weights=equal", "fedkd", EQUAL)
    yield Line("fedkd, median", "fedkd", f"{EQUAL} {MEDIAN}")
    yield Line("fedkd, trimmed mean", "fedkd", f"{EQUAL} {TRIMMED}")
    for name, words in (("fedkd", "gamma=inf"), ("fedkd, median", f"{EQUAL} {MEDIAN}")):
        yield Line(f"{name}, uneven classes", "fedkd", f"{words} partition=dirichlet alpha=1")
    yield Line("fedmd, classes", "fedmd", FEDMD)
    yield Line("fedmd, probabilities", "fedmd", f"{FEDMD} share=softmax")
    yield Line("fedmd, probabilities, median", "fedmd", f"{FEDMD} share=softmax {MEDIAN}")
    yield Line("fedmd, logits", "fedmd", f"{FEDMD} share=logits")
    yield Line("fedmd, logits, median", "fedmd", f"{FEDMD} share=logits {MEDIAN}")
    yield Line("fedmd, logits, trimmed mean", "fedmd", f"{FEDMD} share=logits {TRIMMED}")
    yield Line("fedavg", "fedavg", WEIGHTS)
    yield Line("fedavg, median", "fedavg", f"{WEIGHTS} {MEDIAN}")
    yield Line("fedavg, trimmed mean", "fedavg", f"{WEIGHTS} {TRIMMED}")
    yield Line("dp-fedavg, ε=50", "dp-fedavg", f"{WEIGHTS} epsilon=50 delta=0.001 participation=1")
    yield Line("fedauxfdp-sum, ε=4", "fedauxfdp-sum", "epsilon=4")


def place(line: Line, out: Path) -> Path:
    """The row's folder."""
    return out / as_folder(line.name)


def do(line: Line, runs: int, out: Path) -> None:
    """Attack, unless that is done."""
    folder, settings = place(line, out), known_to(line.method, f"{COMMON} {line.words}")
    if not (folder / "attack.json").exists():
        fb.attack(line.method, adversary="active-client", out=folder, runs=runs, progress=False, **settings)


def found_in(line: Line, out: Path) -> Poisoned | None:
    """What was found; None where nothing was done."""
    folder = place(line, out)
    return load_attack(folder).poisoned if (folder / "attack.json").exists() else None


def accuracies(line: Line, found: Poisoned) -> str:
    """Accuracy with none, then 1 and most malicious clients, for each kind of message."""
    cells = [f"{100 * found.series('untargeted', 'flipped')[0].accuracy.value:.0f}"]
    for kind in SENT:
        series = found.series("untargeted", kind)
        cells.append(", ".join(_told(cell.accuracy) for cell in (series[1], series[-1])) if series else "–")
    return f"| {line.name} | {' | '.join(cells)} |"


def reached(line: Line, found: Poisoned) -> str:
    """Labels changed, and one class taken for another, by 1 and most malicious clients with the worst message."""
    worst = found.strengths[-1]
    free, aimed = found.series("untargeted", worst), found.series("targeted", worst)
    moved = [free[0].changed.value, *(_told(cell.changed) for cell in (free[1], free[-1]))]
    taken = [aimed[0].mistaken.value, *(_told(cell.mistaken) for cell in (aimed[1], aimed[-1]))]
    cells = [f"{100 * first:.0f} → {', '.join(others)}" for first, *others in (moved, taken)]
    return f"| {line.name} | {SENT[worst]} | {' | '.join(cells)} |"


def _told(one: Mean) -> str:
    return f"{100 * one.value:.0f} ({100 * one.low:.0f}–{100 * one.high:.0f})"


HEADS = {
    accuracies: "| accuracy | honest | wrong labels: 1, 3 | worst by the rules: 1, 3 | worst not refused: 1, 3 |",
    reached: "| | worst message | labels changed → 1, 3 | one class taken for another → 1, 3 |",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", default=[], help="names of rows, or of methods; none: all")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs/poisoning"))
    parser.add_argument("--print", action="store_true", help="only print what is there")
    given = parser.parse_args()
    chosen = [one for one in lines() if not given.rows or {one.name, one.method} & set(given.rows)]
    for line in [] if given.print else chosen:
        do(line, given.runs, given.out)
        print(line.name, "is done", flush=True)
    for told, head in HEADS.items():
        print(f"\n{head}\n{'|---' * (head.count('|') - 1)}|")
        for line in chosen:
            if (found := found_in(line, given.out)) is not None:
                print(told(line, found))


if __name__ == "__main__":
    main()
