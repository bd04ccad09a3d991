"""What of a record can be read from the difference of weights that FedAvg sends, of a linear model by its rows.

    python benchmarks/reconstruction.py --seeds 1 2 3

A softmax layer's gradient of one record is (p - y) x^T beside the bias's (p - y), so their quotient is the record, to
the last bit. The same quotient is formed of what a client really sends, after one step or 4 epochs, and compared
(Pearson's correlation over pixels) with its own records and with as many of the same kind that nobody holds.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from fedballot.core.folders import ClientFolder
from fedballot.learners.flat import unflatten
from fedballot.methods.registry import get_method
from fedballot.runs.engine import federated_data
from fedballot.settings.layers import build
from fedballot.studies.attacks.asking import answered, fresh_server, ready
from fedballot.studies.attacks.steps import gradients
from fedballot.wire.messages import deserialise

SETTINGS = {
    "dataset": "digits",
    "clients": 2,
    "public_size": 100,
    "test_size": 300,
    "client_models": ("linear-torch",),
    "lr": 0.01,
    "device": "cpu",
    "workers": 1,
}


def quotients(weights: list[np.ndarray]) -> np.ndarray:
    """A record for each class (C, p): rows of the layer's change over the bias's."""
    rows, bias = sorted((one.astype(np.float64) for one in weights), key=np.ndim, reverse=True)
    rows = rows if len(rows) == len(bias) else rows.T
    return np.asarray(rows / np.where(bias == 0, 1, bias)[:, None])


def alike(found: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Mean correlation of records with what was found for their classes."""
    pairs = zip(found[y], x.reshape(len(x), -1), strict=True)
    return float(np.mean([np.corrcoef(one, other)[0, 1] for one, other in pairs]))


def row(records: int, epochs: int, batch: int, seed: int) -> dict[str, Any]:
    """Correlations for a client of so many records."""
    method = get_method("fedavg")
    more = {"private_size": 2 * records, "epochs": epochs, "batch_size": batch, "seed": seed}
    settings = build(method.settings, {**SETTINGS, **more})
    data, device = federated_data(settings), ready(method, settings)
    strategy: Any = fresh_server(method, settings, data, device)
    request = next(one for one in strategy.ask(1, ["0", "1"]) if one.to == "0")
    with tempfile.TemporaryDirectory() as folder:
        reply = answered(method, settings, device, request, data, ClientFolder(Path(folder)))
    sent = quotients(unflatten(strategy.read(deserialise(reply.tensors)), strategy.shapes))
    x, y = data.private.x[data.parts[0]], data.private.y[data.parts[0]].astype(np.int64)
    learner = strategy.load(strategy.new_learner(0), strategy.weights)
    single = gradients(learner, x[:1], y[:1])[0]
    return {
        "gradient of one record": alike(quotients(unflatten(single, strategy.shapes)), x[:1], y[:1]),
        "own": alike(sent, x, y),
        "strangers": alike(sent, data.test_x, data.test_y.astype(np.int64)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2, 3])
    given = parser.parse_args()
    print("| records | epochs, batch | gradient of one record | sent: own records | sent: strangers |")
    print("|---|---|---|---|---|")
    for records, epochs, batch in ((1, 1, 16), (10, 1, 16), (100, 1, 128), (1, 4, 16), (10, 4, 16), (100, 4, 16)):
        found = [row(records, epochs, batch, seed) for seed in given.seeds]
        cells = " | ".join(f"{np.mean([one[name] for one in found]):.2f}" for name in found[0])
        print(f"| {records} | {epochs}, {batch} | {cells} |")


if __name__ == "__main__":
    main()
