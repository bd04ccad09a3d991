"""PATE-FL under much noise: the tables of "Where it wavers" in docs/results/pate-frontier.md, with students.

    FEDBALLOT_DATA=DIR python benchmarks/pate_noise.py --epsilon 0.5 0.25 --seeds 3 --draws 20 --out runs/noise

Teachers are trained once for each seed, and their exact tally is kept in --out, so it is no release and is for
benchmark data only; draws that are there are not made again, so other settings need another folder. Each draw adds
fresh noise, seeded by the operating system and rounded to whole votes, at the sigma that epsilon asks for; labels and
students are the server's own. *Propagated* are labels if classes were not held even, the *limit* those of somebody who
knows the ten true groups of pool records and names them one to one by their summed tally. Prints a line for each seed
and epsilon, then means over all draws of all seeds; the draws' own figures are in --out.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from fedballot.clients.pate import PateClient
from fedballot.clients.workspace import Workspace
from fedballot.core.files import write_json
from fedballot.core.folders import ClientFolder
from fedballot.core.metrics import share_right
from fedballot.datasets.federation import FederatedData
from fedballot.distillation import students
from fedballot.distillation.field import votes_on_each
from fedballot.methods.registry import get_method, settings_types
from fedballot.runs.engine import federated_data, new_strategy, prepare_worker
from fedballot.settings.layers import parse_assignments, resolve
from fedballot.settings.voting import FULL_VOTES, PateSettings, mechanism

METHOD = "pate-fl"
LIMITS = 2_000  # draws of the limit, which needs sums of groups alone
Tally = npt.NDArray[np.int64]
Votes = npt.NDArray[np.int8]


def settings_of(preset: str, words: list[str]) -> PateSettings:
    """The preset with ``words``; clients are not measured, for nobody reads that here."""
    values = parse_assignments(["evaluate_clients=false", *words])
    settings = resolve(METHOD, settings_types(), preset=preset, values=values)
    assert isinstance(settings, PateSettings)
    if settings.vote_fraction > FULL_VOTES:
        raise SystemExit(
            f"vote_fraction={settings.vote_fraction:g}: at most {FULL_VOTES}, for whole ballots are read differently"
        )
    return settings


def exact_votes(settings: PateSettings, data: FederatedData, queries: Tally, out: Path) -> Iterator[Votes]:
    """Votes of each teacher (Q, C) without noise; teachers that are in ``out`` are not trained again."""
    for client_id in range(settings.clients):
        folder = ClientFolder(out / "clients" / f"{client_id}")
        folder.path.mkdir(parents=True, exist_ok=True)
        yield PateClient(Workspace(client_id, settings, data, folder, "cpu")).votes(queries)


def exact_tally(settings: PateSettings, data: FederatedData, queries: Tally, out: Path) -> Tally:
    """Votes of all teachers (Q, C) without noise; teachers that are in ``out`` are not trained again."""
    kept = out / "tally.npy"
    if not kept.exists():
        total = np.zeros((len(queries), len(data.classes)), dtype=np.int64)
        for votes in exact_votes(settings, data, queries, out):
            total += votes
        np.save(kept, total)
    return np.asarray(np.load(kept))


def limit(sums: npt.NDArray[np.float64], sizes: npt.NDArray[np.int64]) -> float:
    """Share of records whose group gets its own name, from the noisy votes (C, C) of each true group of ``sizes``."""
    group, name = linear_sum_assignment(sums, maximize=True)
    return float(sizes[group[group == name]].sum() / sizes.sum())


def limits(tally: Tally, truth: npt.NDArray[np.integer], sigma: float, draws: int) -> npt.NDArray[np.float64]:
    """`limit` under fresh noise, each time; a sum of n records has that of n queries."""
    groups = np.eye(tally.shape[1])[truth]
    sizes = groups.sum(axis=0)
    sums, spread = groups.T @ (tally - tally.mean(axis=0)), sigma * np.sqrt(sizes)[:, None]
    noise = np.random.default_rng().standard_normal((draws, *sums.shape))
    return np.array([limit(sums + spread * one, sizes.astype(np.int64)) for one in noise])


def confident(
    strategy: Any,
    tally: Tally,
    sigma: float,
    share: float,
    kept: float,
    labelled: Callable[[Tally, Tally, float], float],
) -> float:
    """Share of the pool labelled right where a share of the budget pays for a noisy check of each largest count.

    Only the share ``kept`` of the queries whose noisy count is largest is answered, with the rest of the budget: then a
    client's votes on those alone count. Source: Confident-GNMax, Papernot et al. 2018, "Scalable private learning with
    PATE", here with the threshold that keeps so many, and propagation as always.
    """
    rng, most = np.random.default_rng(), strategy.settings.max_votes
    counts = tally.max(axis=1) + rng.normal(0, sigma / math.sqrt(share), len(tally))
    rows = np.sort(np.argsort(-counts)[: round(kept * len(tally))])
    left = sigma * math.sqrt(min(most, len(rows)) / most / (1 - share))
    noisy = tally[rows] + np.rint(rng.normal(0, left, (len(rows), tally.shape[1]))).astype(np.int64)
    return labelled(noisy, strategy.queries[rows], left)


def one_draw(
    strategy: Any, tally: Tally, sigma: float, student: bool, checks: Sequence[tuple[float, float]] = ()
) -> dict[str, float]:
    """What the server makes of the tally under fresh noise: shares of labels that are right, the student's accuracy."""
    data, settings, queries = strategy.data, strategy.settings, strategy.queries
    noisy = tally + np.rint(np.random.default_rng().normal(0, sigma, tally.shape)).astype(np.int64)
    truth, features = np.asarray(data.public_y), strategy.graph.fit(data.public_x).transform(data.public_x)

    def labelled(noisy: Tally, queries: Tally, sigma: float) -> float:
        known = students.label_pool(
            noisy,
            queries,
            features,
            pool_size=len(truth),
            neighbours=settings.neighbours,
            spread=settings.spread,
            sigma=sigma,
        )
        return share_right(known.labels, truth[known.rows])

    with patch.object(students, "reads_better", lambda *given, **named: False):
        found = {"propagated": labelled(noisy, queries, sigma)}
    found["labels"] = labelled(noisy, queries, sigma)
    groups = np.eye(noisy.shape[1])[truth[queries]]
    sums = groups.T @ (noisy - noisy.mean(axis=0))
    found["limit"] = limit(sums, groups.sum(axis=0).astype(np.int64))
    found["argmax"] = share_right(noisy.argmax(axis=1), truth[queries])
    for share, kept in checks:
        found[f"check {share:g}, {kept:g} answered"] = confident(strategy, tally, sigma, share, kept, labelled)
    if student:
        learned = strategy.learn_from_sum(noisy, settings.clients)
        found["student labels"] = float(learned.metrics["label_accuracy"])
        found["student"] = share_right(learned.scores.argmax(axis=1), np.asarray(data.test_y))
    return found


def told(rows: list[dict[str, float]], others: npt.NDArray[np.float64]) -> str:
    """Means and deviations over draws in per cent, as cells of a table."""
    cells = []
    for key in ("argmax", "propagated", "labels", "limit", "student"):
        values = [100 * row[key] for row in rows if key in row]
        cells.append(f"{np.mean(values):.1f} ± {np.std(values):.1f} ({len(values)})" if values else "–")
    return " | ".join([*cells, f"{100 * others.mean():.1f}", f"{100 * (others == 1).mean():.0f} %"])


def pair(word: str) -> tuple[float, float]:
    """Two shares from ``0.1,0.5``."""
    first, second = map(float, word.split(","))
    if not (0 < first < 1 and 0 < second <= 1):
        raise argparse.ArgumentTypeError(f"{word}: expected a share between 0 and 1, and one up to 1, such as 0.1,0.5")
    return first, second


def main() -> None:
    """Train, draw, label, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="pate-mnist-noniid")
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.5, 0.25])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=20, help="of noise, for each seed and epsilon")
    parser.add_argument("--students", type=int, default=1, help="of these draws, how many train a student")
    parser.add_argument(
        "--check",
        nargs="+",
        type=pair,
        default=[],
        metavar="SHARE,KEPT",
        help="confident-GNMax beside: the share of the budget for the check, and of the queries that are answered",
    )
    parser.add_argument("--set", action="append", default=[], help="a setting of all rows")
    parser.add_argument("--out", type=Path, default=Path("runs/noise"))
    given = parser.parse_args()
    prepare_worker(with_torch=True)
    print(
        "| ε | seed | noise / votes | argmax | propagated | labels | limit | student | limit, other draws | all right |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    every: dict[float, tuple[list[dict[str, float]], list[float]]] = {one: ([], []) for one in given.epsilon}
    for seed in range(given.seeds):
        for epsilon in given.epsilon:
            settings = settings_of(given.preset, [*given.set, f"seed={seed}", f"epsilon={epsilon}"])
            data, noise = federated_data(settings), mechanism(settings)
            assert noise is not None
            sigma = noise.share_sigma * math.sqrt(settings.clients)
            strategy: Any = new_strategy(get_method(METHOD), settings, data, request_id="noise")
            tally = exact_tally(settings, data, strategy.queries, given.out / f"{given.preset}-{seed}")
            path = given.out / f"{given.preset}-{epsilon:g}-{seed}.json"
            rows: list[dict[str, float]] = json.loads(path.read_text()) if path.exists() else []
            for number in range(len(rows), given.draws):
                rows.append(one_draw(strategy, tally, sigma, number < given.students, given.check))
                write_json(path, rows)
            truth = np.asarray(data.public_y)[strategy.queries]
            others = limits(tally, truth, sigma, LIMITS)
            ratio = sigma / votes_on_each(tally.astype(np.float64))
            print(f"| {epsilon:g} | {seed} | {ratio:.1f} | {told(rows, others)} |", flush=True)
            every[epsilon][0].extend(rows)
            every[epsilon][1].extend(others)
    for epsilon, (rows, found) in every.items():
        print(f"| {epsilon:g} | all | | {told(rows, np.array(found))} |")
    for epsilon, (rows, _) in every.items():
        for key in (key for key in rows[0] if key.startswith("check")):
            values = [100 * row[key] for row in rows]
            print(f"epsilon = {epsilon:g}, {key}: {np.mean(values):.1f} ± {np.std(values):.1f} % of labels right")


if __name__ == "__main__":
    main()
