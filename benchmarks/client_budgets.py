"""PATE-FL among clients that allow different losses: is a vote that counts less better than none, or than all at less?

    FEDBALLOT_DATA=DIR python benchmarks/client_budgets.py --low 0.25 --high 1 --shares 0.5 --seeds 3 --draws 10 \\
      --out runs/budgets

A share of the clients, drawn anew each time, allows a low epsilon, the others a high one. Compared are the ways to keep
to that: all at the low one; those with the high one alone; all, with votes that weigh as each allows
(`client_epsilons`); and all at the high one, which does not keep to it. Teachers are trained once for each seed, and
their exact votes are kept in --out, so these are no release, and for benchmark data only. Each draw adds the noise of
every client by its own mechanism, from the operating system, and the labels are the server's own. --students trains
the server's model too, in so many of the draws of each seed. Prints a line for each seed so far; draws that are in
--out are not made again, so other settings need another folder.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pate_noise import METHOD, Votes, exact_votes, settings_of

from fedballot.core.files import write_json
from fedballot.core.metrics import share_right
from fedballot.core.setting import build
from fedballot.datasets.federation import FederatedData
from fedballot.distillation.students import label_pool
from fedballot.methods.registry import get_method
from fedballot.privacy.mechanism import Facts
from fedballot.privacy.noise.randomness import os_noise
from fedballot.runs.engine import federated_data, new_strategy, prepare_worker
from fedballot.settings.voting import PateSettings

WAYS = ("all at the low one", "the high ones alone", "weighted", "all at the high one")


def kept_votes(settings: PateSettings, data: FederatedData, queries: npt.NDArray[np.int64], out: Path) -> Votes:
    """Votes of all teachers (N, Q, C) without noise, kept in ``out``."""
    kept = out / "votes.npy"
    if not kept.exists():
        np.save(kept, np.stack([*exact_votes(settings, data, queries, out)]))
    return np.asarray(np.load(kept))


def ways(settings: PateSettings, low: Sequence[bool], targets: tuple[float, float]) -> dict[str, tuple[Any, list[int]]]:
    """Of each way the settings, and the clients that take part."""
    everybody, willing = list(range(len(low))), [client for client, little in enumerate(low) if not little]
    own = [targets[0] if little else targets[1] for little in low]
    few = {"clients": len(willing), "min_clients": 0} if willing else {}
    changes: dict[str, tuple[dict[str, Any], list[int]]] = {
        WAYS[0]: ({"epsilon": targets[0]}, everybody),
        WAYS[1]: ({"epsilon": targets[1], **few}, willing),
        WAYS[2]: ({"epsilon": max(own), "client_epsilons": own}, everybody),
        WAYS[3]: ({"epsilon": targets[1]}, everybody),
    }
    return {
        way: (build(PateSettings, settings.to_dict(), change), who) for way, (change, who) in changes.items() if who
    }


def one_draw(
    settings: PateSettings, data: FederatedData, votes: Votes, who: list[int], student: bool
) -> dict[str, Any]:
    """What the server makes of these clients' ballots under fresh noise: labels and, if asked, its model."""
    strategy: Any = new_strategy(get_method(METHOD), settings, data, request_id="budgets")
    total, noise = np.zeros(votes.shape[1:], dtype=np.int64), os_noise()
    for place, client in enumerate(who):
        noisy: Any = settings.composition(Facts(classes=votes.shape[2], client=place)).parts["votes"]
        total += noisy.release(votes[client], noise)
    truth = np.asarray(data.public_y)
    known = label_pool(
        total / noisy.ballot,
        strategy.queries,
        strategy.graph.fit(data.public_x).transform(data.public_x),
        pool_size=len(truth),
        neighbours=settings.neighbours,
        spread=settings.spread,
        sigma=noisy.share_sigma * len(who) ** 0.5 / noisy.ballot,
    )
    found = {"labels": share_right(known.labels, truth[known.rows])}
    if student:
        learned = strategy.learn(strategy.keep_sum(total, range(len(who))))
        found["student"] = share_right(learned.scores.argmax(axis=1), np.asarray(data.test_y))
    return found


def told(rows: list[dict[str, Any]]) -> str:
    """Means and deviations over draws in per cent, as cells of a table."""
    cells = []
    for key in ("labels", "student"):
        values = [100 * row[key] for row in rows if key in row]
        cells.append(f"{np.mean(values):.1f} ± {np.std(values):.1f} ({len(values)})" if values else "–")
    return " | ".join(cells)


def main() -> None:
    """Train, draw, label, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="demo")
    parser.add_argument("--low", type=float, default=0.25)
    parser.add_argument("--high", type=float, default=1.0)
    parser.add_argument("--shares", nargs="+", type=float, default=[0.5], help="of the clients that allow the low one")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=10, help="of clients and noise, for each seed and share")
    parser.add_argument("--students", type=int, default=0, help="of these draws, how many train a student")
    parser.add_argument("--set", action="append", default=[], help="a setting of all rows")
    parser.add_argument("--out", type=Path, default=Path("runs/budgets"))
    given = parser.parse_args()
    prepare_worker(with_torch=True)
    print("| low share | seeds | way | labels | student |\n|---|---|---|---|---|")
    every: dict[tuple[float, str], list[dict[str, Any]]] = {}
    for seed in range(given.seeds):
        settings = settings_of(given.preset, [*given.set, f"seed={seed}", f"epsilon={given.high}"])
        data = federated_data(settings)
        queries = new_strategy(get_method(METHOD), settings, data, request_id="budgets").queries
        votes = kept_votes(settings, data, queries, given.out / f"{given.preset}-{seed}")
        for share in given.shares:
            path = given.out / f"{given.preset}-{given.low:g}-{given.high:g}-{share:g}-{seed}.json"
            rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
            for draw in range(len(rows), given.draws):
                order = np.random.default_rng([seed, draw]).permutation(settings.clients)
                low = [place < round(share * settings.clients) for place in order]
                rows.append(
                    {
                        way: one_draw(chosen, data, votes, who, draw < given.students)
                        for way, (chosen, who) in ways(settings, low, (given.low, given.high)).items()
                    }
                )
                write_json(path, rows)
            for way in WAYS:
                found = every.setdefault((share, way), [])
                found += [row[way] for row in rows if way in row]
                print(f"| {share:g} | 0 to {seed} | {way} | {told(found)} |", flush=True)


if __name__ == "__main__":
    main()
