"""FedKD's Tables 1, 2, 3 and 5 and its Figure 2 on stand-ins, beside the paper's figures.

    FEDBALLOT_DATA=DIR python benchmarks/fedkd_rows.py --seeds 3 --out runs/fedkd
    FEDBALLOT_DATA=DIR python benchmarks/fedkd_rows.py --rows agnews sst2 --seeds 1

Every row runs the methods' own clients and strategies, one after the other in this process and without a transport, so
that a client's model is trained once for all rows that share it; bytes are those of the serialised arrays, as a run
counts them. Rows whose JSON is in --out are not run again. Prints Markdown.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedballot.clients.workspace import Workspace
from fedballot.core.folders import ClientFolder
from fedballot.core.setting import names_of
from fedballot.methods.registry import all_methods, get_method, settings_types
from fedballot.runs.engine import federated_data, new_strategy, prepare_worker
from fedballot.settings.layers import parse_assignments, resolve
from fedballot.wire.messages import Reply, deserialise, serialise

DIGITS = (
    "private_size=3000 public_size=2000 test_size=2000 epochs=30 batch_size=32 lr=0.002 client_models=mlp-torch "
    "server_model=mlp-torch server_epochs=40 server_batch_size=64 server_lr=0.002"
)
NEAR = "public_dataset= test_source=public public_labels=known"  # unlabelled images of the task itself
CIFAR = (
    f"{NEAR} private_size=3000 public_size=2000 test_size=2000 epochs=30 batch_size=32 lr=0.002 "
    "client_models=cnn-small server_model=cnn-small server_epochs=40 server_batch_size=64 server_lr=0.002"
)
GRAPH = "student=propagated graph_features=deskew+hog"
PROPAGATED = f"ensemble=pairwise {GRAPH}"
QUARTER = f"{NEAR} private_size=12500 public_size=5000 test_size=5000 epochs=60 server_epochs=50"
FEDMD = "pretrain_epochs=0 rounds=5 queries=500 share=logits digest_loss=l2 public_batch_size=64"
TRAINED = "dataset public_dataset test_source private_size public_size test_size clients partition alpha min_size seed"
TRAINED += " client_models epochs batch_size lr"


@dataclass(frozen=True)
class Line:
    """One line of a table: a method with settings, and what the paper prints for its like."""

    table: str
    name: str
    method: str
    preset: str
    settings: str = ""
    paper: str = "–"


def lines() -> Iterator[Line]:
    """All rows; the paper's column is for CIFAR-10 (Tables 1 and 2), x-rays (3), DistilBERT (5)."""
    for alpha, values in (
        ("1", ("80.98", "61.1", "80.69", "80.37", "80.31")),
        ("0.1", ("65.46", "29.0", "71.36", "69.23", "68.13")),
    ):
        words, table = f"{DIGITS} alpha={alpha}", f"digits-{alpha}"
        yield Line(table, "fedkd", "fedkd", "fedkd-mnist", words, values[0])
        yield Line(table, "fedkd without noise", "fedkd", "fedkd-mnist", f"{words} gamma=inf")
        yield Line(table, "standalone", "standalone", "fedkd-mnist", words, values[1])
        yield Line(
            table, "feddf, 10 rounds", "feddf", "fedkd-mnist", f"{words} rounds=10 epochs=3 server_epochs=4", values[2]
        )
        fedgen = f"{words} rounds=10 epochs=3"
        yield Line(table, "fedgen, 10 rounds", "fedgen", "fedkd-mnist", fedgen, values[4])
        yield Line(table, "fedgen, 10 rounds, replay=10", "fedgen", "fedkd-mnist", f"{fedgen} replay=10")
        yield Line(table, "fedavg, 10 rounds", "fedavg", "fedkd-mnist", fedgen)
        yield Line(table, "fedmd, 5 rounds", "fedmd", "fedkd-mnist", f"{words} {FEDMD}", values[3])
        yield Line(table, "centralized", "centralized", "fedkd-mnist", f"{words} server_epochs=20")
        yield Line(table, "public-only", "public-only", "fedkd-mnist", words)
    far = f"{DIGITS} public_dataset=fashion-mnist public_labels=ignored"
    yield Line("public", "2,000 of Fashion-MNIST", "fedkd", "fedkd-mnist", far)
    yield Line("public", "2,000 of Fashion-MNIST, without noise", "fedkd", "fedkd-mnist", f"{far} gamma=inf")
    more = f"{DIGITS} public_size=6000 server_epochs=60"
    yield Line("public", "6,000 of USPS", "fedkd", "fedkd-mnist", more)
    yield Line("public", "6,000 of USPS, S=16, without noise", "fedkd", "fedkd-mnist", f"{more} levels=16 gamma=inf")
    for name, words, paper in (
        ("equal weights, KL at τ=3", "weights=equal distill_loss=kl", "79.92"),
        ("equation 1, KL at τ=3", "distill_loss=kl", "80.01"),
        ("equation 1, L2 of logits", "", "80.98"),
        ("equation 1, L1 of logits", "distill_loss=mae", "–"),
        ("equal weights, L2 of logits", "weights=equal", "–"),
        ("the same, public bound 10", "weights=equal logit_bound=10", "–"),
    ):
        yield Line("ablation", name, "fedkd", "fedkd-mnist", f"{DIGITS} {words}", paper)
    for gamma in ("1", "inf"):
        for answers, epochs in ((1, 40), (5, 8), (10, 4), (1, 200), (5, 40), (10, 20)):
            name = f"γ={gamma}, {answers} answers, {epochs} epochs"
            words = f"{DIGITS} gamma={gamma} answers={answers} server_epochs={epochs}"
            yield Line("answers", name, "fedkd", "fedkd-mnist", words)
    for levels in (4, 16):
        words = f"{DIGITS} gamma=inf levels={levels} answers=5 server_epochs=40"
        yield Line("answers", f"γ=inf, 5 answers, 40 epochs, S={levels}", "fedkd", "fedkd-mnist", words)
    for alpha in ("1", "0.1"):
        words, table = f"{DIGITS} alpha={alpha}", f"thousandth-{alpha}"
        few = f"{words} gamma=inf answers=5 levels=16"
        yield Line(table, "fedkd, S=16, 5 answers, pairwise", "fedkd", "fedkd-mnist", f"{few} ensemble=pairwise")
        yield Line(table, "fedkd, S=16, 5 answers, pairwise, propagated", "fedkd", "fedkd-mnist", f"{few} {PROPAGATED}")
        ten = f"{few} answers=10 {PROPAGATED}"
        yield Line(table, "fedkd, S=16, 10 answers, pairwise, propagated", "fedkd", "fedkd-mnist", ten)
        for answers in (10, 20):
            name = f"fedkd, S=16, {answers} answers, pairwise"
            yield Line(table, name, "fedkd", "fedkd-mnist", f"{few} answers={answers} ensemble=pairwise")
        yield Line(table, "fedkd, S=16, 5 answers, mean", "fedkd", "fedkd-mnist", few)
        yield Line(
            table, "fedkd, S=16, 1 answer, pairwise", "fedkd", "fedkd-mnist", f"{few} answers=1 ensemble=pairwise"
        )
        hundred = f"{words} rounds=100 epochs=3"
        yield Line(table, "fedavg, 100 rounds", "fedavg", "fedkd-mnist", hundred)
        yield Line(table, "feddf, 100 rounds", "feddf", "fedkd-mnist", f"{hundred} server_epochs=4")
        # what the constants of student=propagated were chosen on
        few = f"{words} gamma=inf answers=5 levels=16 ensemble=pairwise"
        usps, fashion = "dataset=usps public_dataset=mnist", f"dataset=fashion-mnist {NEAR}"
        for name, world, graph in (("USPS", usps, "deskew+hog"), ("Fashion-MNIST", fashion, "hog")):
            yield Line("students", f"{name}, α={alpha}, distilled", "fedkd", "fedkd-mnist", f"{few} {world}")
            told = f"{few} {world} student=propagated graph_features={graph}"
            yield Line("students", f"{name}, α={alpha}, propagated", "fedkd", "fedkd-mnist", told)
        near, table = f"alpha={alpha} {NEAR}", f"near-{alpha}"
        few = f"{DIGITS} {near} gamma=inf answers=5 levels=16 ensemble=pairwise"
        yield Line(table, "fedkd, S=16, 5 answers, pairwise", "fedkd", "fedkd-mnist", few)
        yield Line(table, "fedkd, S=16, 5 answers, pairwise, propagated", "fedkd", "fedkd-mnist", f"{few} {PROPAGATED}")
        yield Line(table, "public-only", "public-only", "fedkd-mnist", f"{DIGITS} {near}")
        yield Line(table, "fedavg, 100 rounds", "fedavg", "fedkd-mnist", f"{DIGITS} {near} rounds=100 epochs=3")
        feddf = f"{DIGITS} {near} rounds=100 epochs=3 server_epochs=4"
        yield Line(table, "feddf, 100 rounds", "feddf", "fedkd-mnist", feddf)
        words, table = f"{CIFAR} alpha={alpha}", f"cifar-{alpha}"
        few = f"{words} gamma=inf answers=5 levels=16 ensemble=pairwise"
        yield Line(table, "fedkd, S=16, 5 answers, pairwise", "fedkd", "fedkd-cifar10", few)
        graph = "student=propagated graph_features=hog"
        yield Line(table, "fedkd, S=16, 5 answers, pairwise, propagated", "fedkd", "fedkd-cifar10", f"{few} {graph}")
        hundred = f"{words} rounds=100 epochs=3"
        yield Line(table, "fedavg, 100 rounds", "fedavg", "fedkd-cifar10", hundred)
        yield Line(table, "feddf, 100 rounds", "feddf", "fedkd-cifar10", f"{hundred} server_epochs=4")
        yield Line(table, "standalone", "standalone", "fedkd-cifar10", words)
        yield Line(table, "centralized", "centralized", "fedkd-cifar10", words)
    for name, method, words, paper in (
        ("fedkd", "fedkd", "", "80.98"),
        ("fedkd without noise", "fedkd", "gamma=inf", "–"),
        ("standalone", "standalone", "", "61.1"),
    ):
        yield Line("resnet8", name, method, "fedkd-cifar10", f"{QUARTER} {words}", paper)
    for levels in (2, 4, 16, 200, 65536):
        yield Line("levels", f"S={levels}", "fedkd", "fedkd-mnist", f"{DIGITS} levels={levels} gamma=inf")
    for size in (500, 2000):
        for gamma in ("inf", "1", "0.3", "0.1"):
            words = f"{DIGITS} public_size={size} gamma={gamma}"
            yield Line("noise", f"γ={gamma}, {size} public records", "fedkd", "fedkd-mnist", words)
    for clients, paper in ((3, "75.02"), (5, "74.80"), (20, "–"), (50, "–")):
        yield Line("clients", f"K={clients}", "fedkd", "fedkd-mnist", f"{DIGITS} clients={clients}", paper)
    many = f"{DIGITS} clients=100 private_size=10000 epochs=20"
    yield Line(
        "dp",
        "fedkd without noise, equal weights, 2,000 queries",
        "fedkd",
        "fedkd-mnist",
        f"{many} gamma=inf weights=equal",
    )
    for queries in (100, 500, 2000):
        name = f"fedkd-dp, ε=8, {queries} queries"
        yield Line("dp", name, "fedkd-dp", "fedkd-mnist", f"{many} queries={queries} server_epochs=100")
    for epsilon, queries in ((1, 500), (1, 2000), (8, 500), (8, 2000)):
        name = f"fedkd-dp, ε={epsilon}, {queries} queries, propagated"
        told = f"{many} epsilon={epsilon} queries={queries} server_epochs=100 {GRAPH}"
        yield Line("dp", name, "fedkd-dp", "fedkd-mnist", told)
    copies = f"{many} queries=100 answers=5 server_epochs=100"
    yield Line("dp", "fedkd-dp, ε=8, 100 queries, 5 answers each", "fedkd-dp", "fedkd-mnist", copies)
    for epsilon in (1, 32):
        name = f"fedkd-dp, ε={epsilon}, 500 queries"
        yield Line("dp", name, "fedkd-dp", "fedkd-mnist", f"{many} epsilon={epsilon} server_epochs=100")
    twenty = f"{DIGITS} queries=500 clients=20 server_epochs=100"
    yield Line("dp", "fedkd-dp, ε=8, 500 queries, 20 clients", "fedkd-dp", "fedkd-mnist", twenty)
    best = "client_models=linear-torch optimizer=sgd augment=none rounds=20 epochs=5 clip=0.1 lr=0.1"
    for epsilon in (1, 8):
        words = f"{many} {best} delta=1e-5 epsilon={epsilon}"  # by pate-frontier.md's search
        yield Line("dp-rival", f"dp-fedavg, ε={epsilon}, 20 rounds", "dp-fedavg", "fedkd-mnist", words)
    for preset, values in (
        ("agnews", ("92.58", "86.30", "93.11", "92.57", "–")),
        ("sst2", ("91.50", "74.80", "90.07", "88.51", "–")),
    ):
        names = (
            ("fedkd", ""),
            ("standalone", ""),
            ("centralized", ""),
            ("feddf", "rounds=10 epochs=3 server_epochs=5"),
            ("public-only", ""),
        )
        for (method, words), paper in zip(names, values, strict=True):
            yield Line(preset, method, method, f"fedkd-{preset}", words, paper)
        yield Line(preset, "fedmd, 5 rounds", "fedmd", f"fedkd-{preset}", FEDMD)
        yield Line(preset, "fedkd without noise", "fedkd", f"fedkd-{preset}", "gamma=inf")
        yield Line(preset, "fedkd without noise, equal weights", "fedkd", f"fedkd-{preset}", "gamma=inf weights=equal")
        yield Line(preset, "fedkd, S=16", "fedkd", f"fedkd-{preset}", "levels=16")
        yield Line(preset, "fedkd-dp, ε=8, 200 queries", "fedkd-dp", f"fedkd-{preset}")
        yield Line(preset, "fedkd-dp, ε=8, 1,000 queries", "fedkd-dp", f"fedkd-{preset}", "queries=1000")
    yield from encoded()
    for method, words in (
        ("fedkd", ""),
        ("fedkd", "gamma=inf"),
        ("fedkd", "gamma=inf weights=equal"),
        ("standalone", ""),
        ("centralized", ""),
        ("public-only", ""),
        ("fedkd-dp", ""),
    ):
        yield Line("yeast", f"{method} {words}".strip(), method, "fedkd-yeast", words)


# of SST-2 from trials on AG News; tables ...-rates are what the other data set's rates are to be chosen by
CHOSEN = {
    (preset, name): "0.005"
    for preset in ("agnews", "sst2")
    for name in ("fedkd", "fedkd without noise", "standalone", "centralized", "feddf", "public-only")
}
RATES = ("0.0005", "0.002", "0.005", "0.02", "0.05")
FEDDF = "rounds=10 epochs=3 server_epochs=5"


def encoded() -> Iterator[Line]:
    """Texts by MiniLM; tables that end in -rates are the search for the learning rate of the other data set's rows."""
    for preset, values in (
        ("agnews", ("92.58", "86.30", "93.11", "92.57")),
        ("sst2", ("91.50", "74.80", "90.07", "88.51")),
    ):
        table = f"fedkd-{preset}-minilm"
        rows = (
            ("fedkd", "fedkd", "", values[0]),
            ("fedkd without noise", "fedkd", "gamma=inf", "–"),
            ("standalone", "standalone", "", values[1]),
            ("centralized", "centralized", "", values[2]),
            ("feddf", "feddf", FEDDF, values[3]),
            ("public-only", "public-only", "", "–"),
        )
        for name, method, words, paper in rows:
            rate = CHOSEN[preset, name]
            yield Line(table, name, method, table, f"{words} lr={rate} server_lr={rate}", paper)
            for tried in RATES if name != "standalone" else ():  # its clients are fedkd's
                changed = f"{words} lr={tried} server_lr={tried}"
                yield Line(f"{table}-rates", f"{name}, {tried}", method, table, changed)
        yield Line(
            table,
            "fedkd, S=16",
            "fedkd",
            table,
            f"levels=16 lr={CHOSEN[preset, 'fedkd']} server_lr={CHOSEN[preset, 'fedkd']}",
        )
        told = f"lr={CHOSEN[preset, 'fedkd']} server_lr={CHOSEN[preset, 'fedkd']} student=propagated graph_features=l2"
        yield Line(table, "fedkd, propagated", "fedkd", table, told)
        yield Line(table, "fedkd without noise, propagated", "fedkd", table, f"gamma=inf {told}")
        for epsilon in ("1", "0.2"):
            yield Line(table, f"fedauxfdp-sum, record ε={epsilon}", "fedauxfdp-sum", table, f"epsilon={epsilon}")


def run(line: Line, seed: int, out: Path) -> dict[str, Any]:
    """Run once, unless the result is there."""
    word = hashlib.sha256(f"{line}/{seed}".encode()).hexdigest()[:12]
    result = out / f"{line.table}-{word}.json"
    if result.exists():
        return dict(json.loads(result.read_text()))
    method = get_method(line.method)
    words = parse_assignments(line.settings.split())
    own = {key: value for key, value in words.items() if key in names_of(method.settings)}
    settings = resolve(line.method, settings_types(), preset=line.preset, values={**own, "seed": seed})
    data, folder, nodes = federated_data(settings), out / "scratch" / word, method.nodes(settings)
    shutil.rmtree(folder, ignore_errors=True)
    strategy = new_strategy(method, settings, data, request_id=word)
    shared = method.client_class.__module__ == "fedballot.clients.fedkd"
    models = hashlib.sha256(repr([getattr(settings, key, None) for key in TRAINED.split()]).encode()).hexdigest()[:12]
    clock = time.perf_counter()
    for number in range(1, strategy.rounds + 1):
        for request in strategy.ask(number, [str(client_id) for client_id in range(nodes)]):
            client_id = int(request.to)
            workspace = Workspace(client_id, settings, data, ClientFolder(folder / f"{client_id}"), "cpu")
            trained = out / "models" / models / f"{client_id}"
            if shared and trained.exists():
                workspace.folder.path.mkdir(parents=True, exist_ok=True)
                shutil.copy(trained, workspace.folder.model)
            arrays, _, metrics = method.client_class(workspace).fit(deserialise(request.tensors), request.config)
            strategy.receive(Reply(request.to, serialise(arrays), metrics))
            if shared and not trained.exists():
                trained.parent.mkdir(parents=True, exist_ok=True)
                Path(shutil.copy(workspace.folder.model, trained.with_suffix(".part"))).replace(trained)
        strategy.conclude(number)
    outcome = strategy.outcome()
    metrics = dict(outcome["metrics"])
    noted = [ClientFolder(folder / f"{client_id}").figures() for client_id in range(nodes)]
    matrices = [np.asarray(found["confusion"]) for found in noted if found and "confusion" in found]
    if matrices and "server_accuracy" not in metrics and "client_accuracy" not in metrics:
        values = [matrix.trace() / matrix.sum() for matrix in matrices]
        metrics["client_accuracy"] = {"mean": float(np.mean(values)), "std": float(np.std(values))}
    guarantee = strategy.guarantees()[0].to_dict()
    record = {
        "line": line.name,
        "table": line.table,
        "seed": seed,
        "settings": settings.to_dict(),
        "metrics": metrics,
        "epsilon": guarantee["epsilon"],
        "delta": guarantee["delta"],
        "status": guarantee["status"],
        "bytes_up": strategy.counts.bytes_up,
        "bytes_down": strategy.counts.bytes_down,
        "seconds": time.perf_counter() - clock,
    }
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(json.dumps(record))
    shutil.rmtree(folder, ignore_errors=True)
    return record


def score(record: dict[str, Any]) -> float:
    """Accuracy (or mean AUC) of the server's model, or the mean of the clients'."""
    metrics = record["metrics"]
    for key in ("server_auc", "server_accuracy"):
        if metrics.get(key) is not None:
            return float(metrics[key])
    return float((metrics.get("client_auc") or metrics["client_accuracy"])["mean"])


def main() -> None:
    """Run the tables that were asked for and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=sorted({line.table for line in lines()}))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs/fedkd"))
    given = parser.parse_args()
    prepare_worker(with_torch=True)
    for table in given.rows:
        print(f"\n| {table} | ε | result | consensus | MB up | MB down | paper |\n|---|---|---|---|---|---|---|")
        for line in lines():
            if line.table != table or line.method not in all_methods():
                continue
            records = [run(line, seed, given.out) for seed in range(given.seeds)]
            scores = [score(record) for record in records]
            last = records[-1]
            told = "–" if last["epsilon"] is None else f"{last['epsilon']:.3g}"
            right = [record["metrics"].get("label_accuracy") for record in records]
            labels = "–" if None in right else f"{100 * np.mean(right):.1f}"
            up, down = last["bytes_up"] / 1e6, last["bytes_down"] / 1e6
            cells = f"{100 * np.mean(scores):.1f} ± {100 * np.std(scores):.1f} | {labels} | {up:.3g} | {down:.3g}"
            print(f"| {line.name} | {told} | {cells} | {line.paper} |", flush=True)


if __name__ == "__main__":
    main()
