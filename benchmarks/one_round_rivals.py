"""DP-FedSGD on frozen features at a record's epsilon, searched, beside the one round of docs/results/one-round.md.

    FEDBALLOT_DATA=DIR python benchmarks/one_round_rivals.py mnist --epsilon 1 0.1
    python benchmarks/one_round_rivals.py cifar10-lite2-hog.npz      # a file of image_features.py
    python benchmarks/one_round_rivals.py mnist --product --out runs/rivals

The same split, pool and features as the row's; a linear head on principal components of the public pool. A record's
gradient of a linear head has a closed form, so this takes the method's steps for all records of a client at once
(Gaussian noise with the multiplier that the product solves, in place of its discrete one); --product runs each best
trial at seed 0 through the product as well, which takes one record at a time. Trials run at seed 0 and are judged on
test records, which favours the rival; the best one runs with fresh seeds. Prints Markdown.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import fedballot as fb
from fedballot.datasets.federation import FederatedData
from fedballot.datasets.sources import load
from fedballot.learners.extractors import make_extractor
from fedballot.methods.registry import settings_types
from fedballot.runs.engine import federated_data
from fedballot.settings import layers
from fedballot.settings.weights_private import DpFedsgdSettings, record_mechanism

METHOD = "dp-fedsgd"
SIZE = 512  # components that are kept; a trial takes the first of them
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Benchmark:
    """A preset with settings, and the public features that the row has."""

    preset: str
    chain: str
    settings: tuple[tuple[str, str], ...] = ()


NAMED = {
    "mnist": Benchmark("selective-mnist", "deskew+hog"),
    "fashion-mnist": Benchmark("selective-fashion", "hog"),
    "agnews": Benchmark("fedkd-agnews-minilm", ""),
}


def benchmark(name: str) -> Benchmark:
    """By name, or CIFAR-10's and Fashion-MNIST's by the file of an encoder's features."""
    if name in NAMED:
        return NAMED[name]
    preset = "selective-fashion" if "fashion" in Path(name).name else "selective-cifar10"
    return Benchmark(preset, "", (("dataset", name),))


@dataclass(frozen=True)
class Trial:
    """One point of the search."""

    components: int
    rounds: int
    rate: float
    clip: float
    lr: float

    def __str__(self) -> str:
        told = f"rounds={self.rounds}, rate={self.rate:g}, clip={self.clip:g}, lr={self.lr:g}"
        return f"{self.components} components, {told}"


def trials(components: tuple[int, ...]) -> Iterator[Trial]:
    """All of them; a client takes 1 / rate steps in each round, on batches of that share of its records."""
    steps = ((10, 1.0), (30, 1.0), (100, 1.0), (1, 0.1), (5, 0.1), (5, 0.3))
    for size, (rounds, rate), clip, lr in product(components, steps, (0.1, 0.3, 1.0), (2.0, 8.0, 32.0, 128.0)):
        yield Trial(size, rounds, rate, clip, lr)


def settings_of(name: str, seed: int, **values: object) -> Any:
    """DP-FedSGD's settings on the row's own records."""
    found = benchmark(name)
    given = {key: str(value) for key, value in {"seed": seed, **values}.items()}
    return layers.resolve(METHOD, settings_types(), preset=found.preset, values={**dict(found.settings), **given})


@lru_cache(maxsize=2)
def whole(name: str, seed: int) -> tuple[FederatedData, Any]:
    """The federation's data, and the extractor fitted on its public pool, whose first components are those of fewer."""
    data = federated_data(settings_of(name, seed))
    chain = "+".join(step for step in (benchmark(name).chain, "pca", "standardise") if step)
    extractor = make_extractor(chain, input_shape=data.public_x.shape[1:], components=SIZE)
    return data, extractor.fit(data.public_x)


@dataclass(frozen=True)
class Ready:
    """Each client's components and labels, and those of the test records."""

    clients: list[tuple[Floats, npt.NDArray[np.int64]]]
    test: tuple[Floats, npt.NDArray[np.int64]]
    n_classes: int


@lru_cache(maxsize=1)
def ready(name: str, seed: int) -> Ready:
    """The records of a seed's split."""
    data, extractor = whole(name, seed)
    clients = []
    for part in data.parts:
        x = np.asarray(data.private.x[part])
        clients.append((np.asarray(extractor.transform(x), np.float32), data.private.y[part].astype(np.int64)))
    test = np.asarray(extractor.transform(np.asarray(data.test_x)), np.float32)
    return Ready(clients, (test, data.test_y.astype(np.int64)), len(data.classes))


def normalised(x: Floats) -> Floats:
    """Each record by itself, as the linear model of the product has it, with a 1 behind for the intercept."""
    x = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    return np.hstack([x, np.ones((len(x), 1), np.float32)])


def steps(x: Floats, y: npt.NDArray[np.int64], weights: Floats, settings: DpFedsgdSettings, noise: Any) -> Floats:
    """The weights (d + 1, classes) after a client's noisy steps of a round."""
    multiplier = record_mechanism(settings, weights.size).multiplier
    for _ in range(settings.steps):
        batch = np.flatnonzero(noise.random(len(y)) < settings.rate) if settings.rate < 1 else slice(None)
        h, labels = x[batch], y[batch]
        p = np.exp((logits := h @ weights) - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(len(p)), labels] -= 1
        norms = np.linalg.norm(p, axis=1) * np.linalg.norm(h, axis=1)
        p *= np.minimum(1, settings.clip / np.maximum(norms, 1e-12))[:, None]
        drawn = noise.normal(0, multiplier * settings.clip, weights.shape)
        weights = weights - (settings.lr / settings.batch_size * (h.T @ p + drawn)).astype(np.float32)
    return weights


def words_of(name: str, trial: Trial, epsilon: float, seed: int) -> dict[str, Any]:
    """What the trial changes."""
    return {
        "epsilon": epsilon,
        "delta": 1e-5,
        "rounds": trial.rounds,
        "clip": trial.clip,
        "lr": trial.lr,
        "epochs": 1,
        "rate": trial.rate,
        "batch_size": max(1, round(trial.rate * statistics.mean(len(y) for _, y in ready(name, seed).clients))),
        "client_models": "linear-torch",
        "evaluate_clients": False,
    }


def simulated(name: str, trial: Trial, epsilon: float, seed: int) -> float:
    """Accuracy in per cent."""
    found, noise = ready(name, seed), np.random.default_rng()
    settings = settings_of(name, seed, **words_of(name, trial, epsilon, seed))
    clients = [(normalised(x[:, : trial.components]), y) for x, y in found.clients]
    weights = np.zeros((trial.components + 1, found.n_classes), np.float32)
    for _ in range(trial.rounds):
        moved = [steps(x, y, weights, settings, noise) for x, y in clients]
        weights = np.mean(moved, axis=0, dtype=np.float32)
    x, y = found.test
    return 100 * float(((normalised(x[:, : trial.components]) @ weights).argmax(axis=1) == y).mean())


def through_product(name: str, trial: Trial, epsilon: float, seed: int, out: Path) -> float:
    """Accuracy in per cent of a run of the product on a file of the components; kept in ``out``."""
    folder = out / f"{Path(name).stem}-{trial}-{epsilon:g}-{seed}".replace(" ", "")
    if (folder / "result.json").exists():
        return 100 * float(fb.load(folder).accuracy or 0)
    _, extractor = whole(name, seed)
    source, arrays = load(settings_of(name, seed).dataset), {}
    parts = {"": source.train} if source.test is None else {"_train": source.train, "_test": source.test}
    for part, examples in parts.items():
        arrays[f"x{part}"] = extractor.transform(np.asarray(examples.x))[:, : trial.components].astype(np.float32)
        arrays[f"y{part}"] = examples.y
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{Path(name).stem}-{trial.components}-{seed}.npz"
    np.savez(file, **arrays)
    words = dict(benchmark(name).settings) | words_of(name, trial, epsilon, seed)
    words |= {"dataset": str(file), "encoder": "", "seed": seed, "engine": "local"}
    result = fb.run(METHOD, preset=benchmark(name).preset, out=folder, **words)
    return 100 * float(result.accuracy or 0)


def main() -> None:
    """Search, then run the best with fresh seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help=f"{', '.join(NAMED)}, or a file of image_features.py")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 0.1])
    parser.add_argument("--components", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--seeds", type=int, default=3, help="fresh seeds, 1 and on, of the best trial")
    parser.add_argument("--product", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("runs/rivals"))
    given = parser.parse_args()
    if not all(0 < size <= SIZE for size in given.components):
        parser.error(f"--components {given.components}: expected 1 to {SIZE}")
    if given.seeds < 1:
        parser.error(f"--seeds {given.seeds}: expected at least 1")
    best: dict[float, Trial] = {}
    for epsilon in given.epsilon:
        print(f"\n### {given.data}, epsilon = {epsilon:g}\n\n| trial, seed 0 | accuracy |\n|---|---|", flush=True)
        found = {trial: simulated(given.data, trial, epsilon, 0) for trial in trials(tuple(given.components))}
        for trial, accuracy in sorted(found.items(), key=lambda pair: -pair[1])[:10]:
            print(f"| {trial} | {accuracy:.1f} % |")
        best[epsilon] = max(found, key=found.__getitem__)
        print(f"\n{len(found)} trials", flush=True)
    for seed in range(1, given.seeds + 1):
        for epsilon, trial in best.items():
            accuracy = simulated(given.data, trial, epsilon, seed)
            print(f"epsilon = {epsilon:g}, {trial}, seed {seed}: {accuracy:.2f} %", flush=True)
    if given.product:
        for epsilon, trial in best.items():
            got = through_product(given.data, trial, epsilon, 0, given.out)
            print(f"the product, epsilon = {epsilon:g}, {trial}, seed 0: {got:.2f} %", flush=True)


if __name__ == "__main__":
    main()
