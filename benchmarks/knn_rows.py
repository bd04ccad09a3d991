"""Private-kNN-FL beside the paper's Table 2, over epsilon, k and extractors, and beside baselines on the same features.

    FEDBALLOT_DATA=DIR python benchmarks/knn_rows.py --seeds 5 --out runs/knn
    python benchmarks/knn_rows.py --tables mnist          # offline

Clients and Strategy are the real ones, called one after the other in this process instead of through Flower's engine:
what leaves a client and what the server makes of it are the same, and a row takes a second. A row that is in --out is
not run again. Prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from fedballot.clients.workspace import Workspace
from fedballot.core.folders import ClientFolder
from fedballot.core.setting import build
from fedballot.datasets.sources import load
from fedballot.learners.extractors import make_extractor
from fedballot.methods.registry import get_method, settings_types
from fedballot.runs.engine import federated_data, new_strategy
from fedballot.settings import layers
from fedballot.settings.parts import CommonSettings
from fedballot.wire.messages import Reply, deserialise, serialise

COMPONENTS = 32
OFFICE, MNIST = "knn-office-caltech10", "knn-mnist"
FEATURES, DIGITS = "hellinger+standardise", "deskew+hog+pca+standardise"
TARGETS = {"W": ("webcam", "amazon+caltech+dslr", 206, 3.9), "D": ("dslr", "amazon+caltech+webcam", 110, 3.7)}
LEAST = {  # the best of the tables dp-least-W, dp-least-D and dp-digits at seed 0
    ("W", "rounds=1, rate=0.1, clip=1, lr=2"),
    ("D", "rounds=5, rate=1, clip=1, lr=0.5"),
    ("digits", "rounds=5, rate=1, clip=1, lr=0.5"),
}
SHORT = {"pca": "hellinger+standardise+l2+pca", "l2": "hellinger+standardise+l2"}


@dataclass(frozen=True)
class Line:
    """One row: a method with settings on a preset, the paper's figure, and the ready features that it gets, if any."""

    table: str
    name: str
    method: str
    preset: str
    settings: tuple[str, ...] = ()
    paper: float | None = None
    features: str = ""


def target(letter: str, *, epsilon: float | str | None = None) -> tuple[str, ...]:
    """Settings that make one domain the public one; epsilon is the paper's unless given."""
    public, private, size, own = TARGETS[letter]
    domains = (f"dataset=office-caltech10@{private}", f"public_dataset=office-caltech10@{public}")
    return (*domains, f"public_size={size}", *(() if epsilon == "" else (f"epsilon={epsilon or own}",)))


def lines() -> Iterator[Line]:
    """All rows."""
    knn = "private-knn-fl"
    paper = {"W": (75.4, 90.5, 32.6), "D": (84.3, 96.8, 48.3)}
    for letter, (ours, ceiling, gradients) in paper.items():
        table, plain = f"office-{letter}", target(letter, epsilon="")
        yield Line(table, "private-knn-fl", knn, OFFICE, target(letter), ours)
        yield Line(table, "private-knn-fl, argmax student", knn, OFFICE, (*target(letter), "student=argmax"))
        yield Line(table, "private-knn-fl, no noise", knn, OFFICE, target(letter, epsilon="inf"))
        yield Line(table, "private-knn-fl, no noise, k=5", knn, OFFICE, (*target(letter, epsilon="inf"), "k=5"))
        yield Line(table, "centralized", "centralized", OFFICE, plain, ceiling, FEATURES)
        yield Line(table, "standalone", "standalone", OFFICE, plain, None, FEATURES)
        whole = ("rounds=1", "clip=1")
        for model, chain, searched in (
            ("mlp-torch", FEATURES, whole),
            ("linear-torch", FEATURES, whole),
            ("linear-torch", f"{SHORT['pca']}+standardise", ("rounds=5", "clip=1")),
            ("linear-torch", f"{SHORT['pca']}+standardise", ("rounds=5", "clip=3")),
        ):
            models = ("delta=1e-4", f"client_models={model}")
            name = f"dp-fedsgd, {model}, {chain}, {' '.join(searched)}"
            common = (*target(letter), *models, *searched)
            yield Line(f"dp-{letter}", name, "dp-fedsgd", OFFICE, common, gradients, chain)
        for epsilon in (0.5, 1, 2, 4, 8, 16):
            yield Line(f"epsilon-{letter}", f"ε={epsilon:g}", knn, OFFICE, target(letter, epsilon=epsilon))
        for k in (5, 10, 20, 40, 80):
            yield Line(f"k-{letter}", f"k={k}", knn, OFFICE, (*target(letter), f"k={k}"))
        chains = ("none", "l2", "hellinger", SHORT["l2"], "l2+pca", SHORT["pca"])
        for chain in chains:
            changes = (f"extractor={chain}", f"graph_features={chain}")
            yield Line(f"extractor-{letter}", chain, knn, OFFICE, (*target(letter), *changes))
        for components in (16, 64):
            changes = (f"components={components}",)
            yield Line(f"extractor-{letter}", f"{SHORT['pca']}, {components}", knn, OFFICE, (*target(letter), *changes))
    for epsilon in (0.25, 0.5, 1, 2, 4):
        yield Line("mnist", f"private-knn-fl, ε={epsilon:g}", knn, MNIST, (f"epsilon={epsilon}",))
    yield Line("mnist", "private-knn-fl, no noise", knn, MNIST, ("epsilon=inf",))
    heads = product(((1, 0.1), (5, 0.1), (5, 1)), (0.3, 1), (0.5, 2, 8))
    for (rounds, rate), clip, lr in heads:  # "dp-least" and "dp-digits" are searched at seed 0
        name = f"rounds={rounds}, rate={rate}, clip={clip}, lr={lr}"
        words = (*name.split(", "), "epochs=2", "client_models=linear-torch")
        for letter in paper:
            office = (*target(letter, epsilon=0.5), "delta=1e-4", *words)
            chain = f"{SHORT['pca']}+standardise"
            yield Line(f"dp-least-{letter}", name, "dp-fedsgd", OFFICE, office, features=chain)
            if (letter, name) in LEAST:
                yield Line("dp-least", f"dp-fedsgd on {letter}", "dp-fedsgd", OFFICE, office, features=chain)
        digits = ("epsilon=0.25", "delta=1e-4", *words)
        yield Line("dp-digits", name, "dp-fedsgd", MNIST, digits, features=DIGITS)
        if ("digits", name) in LEAST:
            yield Line("dp-least", "dp-fedsgd on digits", "dp-fedsgd", MNIST, digits, features=DIGITS)
    for method in ("centralized", "standalone"):
        yield Line("mnist", method, method, MNIST, features=DIGITS)
    for chain in ("none", "pca", "deskew", "deskew+pca", "hog+pca", "deskew+hog", "deskew+hog+pca"):
        changes = (f"extractor={chain}", f"graph_features={chain}")
        yield Line("mnist-extractor", chain, knn, MNIST, changes)
    for k in (5, 10, 20, 40, 80):
        yield Line("mnist-k", f"k={k}", knn, MNIST, (f"k={k}",))
    yield from cifar()


def cifar() -> Iterator[Line]:
    """CIFAR-10 by EfficientNet-Lite2 (image_features.py): neighbours, and a head by DP-FedSGD on the same features.

    The search is at seed 0: the tables "cifar-knn" and "cifar-dp"; its best are the lines of "cifar".
    """
    images = ("dataset=cifar10-lite2.npz", "delta=1e-4")
    components = "l2+pca+standardise"

    def neighbours(table: str, name: str, chain: str, k: int, epsilon: float) -> Line:
        changes = (f"extractor={chain}", f"graph_features={chain}", "server_features=standardise", f"k={k}")
        return Line(table, name, "private-knn-fl", MNIST, (*images, f"epsilon={epsilon}", *changes))

    def head(table: str, name: str, chain: str, words: str, epsilon: float) -> Line:
        changes = (f"epsilon={epsilon}", *words.split(", "), "epochs=2", "client_models=linear-torch")
        return Line(table, name, "dp-fedsgd", MNIST, (*images, *changes), features=chain)

    for chain, k in product(("none", "none+pca", "l2+pca"), (10, 20, 40, 80)):
        yield neighbours("cifar-knn", f"{chain}, k={k}", chain, k, 1)
    searched: tuple[tuple[str, tuple[float, ...], tuple[float, ...]], ...] = (
        ("", (0.3, 1, 3), (0.5, 2)),
        ("l2", (0.3, 1), (0.5, 2)),
        (components, (0.3, 1), (0.5, 2, 8)),
    )
    for chain, clips, rates in searched:
        for (rounds, rate), clip, lr in product(((1, 0.1), (5, 0.1), (5, 1)), clips, rates):
            words = f"rounds={rounds}, rate={rate}, clip={clip}, lr={lr}"
            yield head("cifar-dp", f"{chain}{chain and ', '}{words}", chain, words, 1)
    best = "rounds=5, rate=0.1, clip=0.3, lr=8"
    for epsilon in (0.5, 1, 4):
        yield neighbours("cifar", f"private-knn-fl, ε={epsilon:g}", "none+pca", 40, epsilon)
        yield head("cifar", f"dp-fedsgd, ε={epsilon:g}", components, best, epsilon)
    yield neighbours("cifar", "private-knn-fl, no noise", "none+pca", 40, math.inf)
    for method in ("centralized", "standalone"):
        yield Line("cifar", method, method, MNIST, images[:1])


def resolve(line: Line, seed: int, folder: Path) -> CommonSettings:
    """The settings of a row; with ``features`` the data are files of ready features, fitted on the public pool."""
    words = dict(word.split("=", 1) for word in (*line.settings, f"seed={seed}"))
    settings = layers.resolve(line.method, settings_types(), preset=line.preset, values=words)
    if not line.features:
        return settings
    data = federated_data(settings)
    extractor = make_extractor(line.features, input_shape=data.public_x.shape[1:], components=COMPONENTS)
    extractor.fit(data.public_x)
    files: dict[str, Any] = {}
    for key in ("dataset", "public_dataset"):
        if name := getattr(settings, key):
            train, files[key] = load(name).train, str(folder / f"{key}.npz")
            groups = {} if train.groups is None else {"groups": train.groups}
            np.savez(files[key], x=extractor.transform(np.asarray(train.x)), y=train.y, **groups)
    return build(type(settings), settings.to_dict(), files)


def run(line: Line, seed: int, folder: Path) -> dict[str, Any]:
    """Run a row's method once, in this process."""
    method, settings = get_method(line.method), resolve(line, seed, folder)
    data, nodes = federated_data(settings), method.nodes(settings)
    strategy = new_strategy(method, settings, data, request_id=f"row/{seed}")
    clients = [
        method.client_class(Workspace(i, settings, data, ClientFolder(folder / str(i)), "cpu")) for i in range(nodes)
    ]
    for number in range(1, strategy.rounds + 1):
        for request in strategy.ask(number, [str(i) for i in range(nodes)]):
            out, _, metrics = clients[int(request.to)].fit(deserialise(request.tensors), request.config)
            strategy.receive(Reply(request.to, serialise(out), metrics))
        strategy.conclude(number)
    outcome = strategy.outcome()
    figures = [ClientFolder(folder / str(i)).figures() for i in range(nodes)]
    found = [np.array(one["confusion"]) for one in figures if one]
    return {
        "metrics": outcome["metrics"],
        "guarantees": [guarantee.to_dict() for guarantee in strategy.guarantees()],
        "client_accuracy": [float(np.trace(m) / m.sum()) for m in found] if nodes > 1 else [],
        "bytes_up": strategy.counts.bytes_up,
        "settings": settings.to_dict(),
    }


def row(line: Line, seed: int, out: Path) -> dict[str, Any]:
    """The result of a row for one seed, from ``out`` if it is there."""
    path = out / f"{line.table}-{line.name.replace(' ', '-').replace('/', '_')}-{seed}.json"
    if not path.exists():
        with tempfile.TemporaryDirectory(prefix="knn-rows-") as folder:
            found = run(line, seed, Path(folder))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".part").write_text(json.dumps(found))
        path.with_suffix(".part").rename(path)
    return dict(json.loads(path.read_text()))


def accuracy(result: dict[str, Any]) -> float:
    """Of the server's model, or the mean of the clients'."""
    metrics = result["metrics"]
    return float(metrics.get("server_accuracy") or metrics["client_accuracy"]["mean"])


def main() -> None:
    """Run the tables that were asked for and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tables = list(dict.fromkeys(line.table for line in lines()))
    parser.add_argument(
        "--tables", nargs="+", default=[t for t in tables if not t.startswith(("dp-", "cifar"))], choices=tables
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("runs/knn"))
    given = parser.parse_args()
    for table in given.tables:
        print(f"\n### {table}\n\n| | record ε, δ | server accuracy | labels right | clients alone | paper |")
        print("|---|---|---|---|---|---|", flush=True)
        for line in (line for line in lines() if line.table == table):
            found = [row(line, seed, given.out) for seed in range(given.seeds)]
            print(markdown(line, found), flush=True)


def markdown(line: Line, found: list[dict[str, Any]]) -> str:
    """A row of the table: means and standard deviations over the seeds."""
    kept = [g for g in found[0]["guarantees"] if g["unit"] == "record" and g["status"] == "proved"]
    told = f"{kept[0]['epsilon']:.2f}, {kept[0]['delta']:g}" if kept and kept[0]["epsilon"] else "–"
    labels = [one["metrics"]["label_accuracy"] for one in found if one["metrics"].get("label_accuracy") is not None]
    alone = [value for one in found for value in one["client_accuracy"]]
    cells = [
        line.name,
        told,
        spread([accuracy(one) for one in found]),
        spread(labels),
        f"{100 * np.mean(alone):.1f} %" if alone else "–",
        "–" if line.paper is None else f"{line.paper:.1f} %",
    ]
    return "| " + " | ".join(cells) + " |"


def spread(values: list[float]) -> str:
    """Mean and standard deviation in percent."""
    return f"{100 * np.mean(values):.1f} ± {100 * np.std(values):.1f} %" if values else "–"


if __name__ == "__main__":
    main()
