"""The bare work of a run: the same learners, seeds and data in a plain loop of forked processes, nothing around it.

    python benchmarks/plain.py fedavg clients=100 rounds=3
    python benchmarks/plain.py pate-fl --times 20 dataset=digits clients=4

Prints JSON: the server's accuracy, and the seconds of work without imports and data. FedAvg ends with the very weights
of `fedballot run`. Of PATE-FL it is the teachers, their votes and a student of the winners: no noise, nothing charged.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fedballot.core.seeds import Stream, seed_of
from fedballot.core.setting import build
from fedballot.distillation.aggregation import VectorMean
from fedballot.learners.flat import flatten, unflatten
from fedballot.learners.registry import make_learner
from fedballot.methods.registry import get_method
from fedballot.runs.engine import federated_data
from fedballot.runs.worker import one_thread
from fedballot.settings.layers import parse_assignments

Map = Callable[[Callable[[int], Any]], list[Any]]


class Work:
    """What the clients and the server of a run train, given its settings."""

    def __init__(self, method: str, words: list[str]) -> None:
        self.settings: Any = build(get_method(method).settings, parse_assignments(words))
        self.data = federated_data(self.settings)
        for name in self.settings.client_models:  # imports what they need: what comes after a fork is imported in each
            self.learner(name, 0)

    def learner(self, name: str, *streams: int, server: bool = False) -> Any:
        """An untrained learner, seeded as the run's."""
        settings, of = self.settings, "server_" if server else ""
        return make_learner(
            name,
            n_classes=len(self.data.classes),
            input_shape=self.data.public_x.shape[1:],
            seed=seed_of(settings.seed, *streams),
            epochs=getattr(settings, f"{of}epochs"),
            batch_size=getattr(settings, f"{of}batch_size"),
            lr=getattr(settings, f"{of}lr"),
        )

    def difference(self, start: Any, number: int, client: int) -> Any:
        """What a client of FedAvg answers in round ``number``."""
        name, rows = self.settings.client_models[0], self.data.parts[client]
        learner = self.learner(name, client, number)
        learner.set_weights(unflatten(start, [w.shape for w in learner.get_weights()]))
        learner.fit(np.asarray(self.data.private.x[rows]), np.asarray(self.data.private.y[rows]))
        return flatten(learner.get_weights()) - start

    def fedavg(self, everyone: Map) -> float:
        """All rounds; accuracy at the end."""
        server = self.learner(self.settings.client_models[0], Stream.SHARED_MODEL, 0)
        shapes = [w.shape for w in server.get_weights()]
        weights = flatten(server.get_weights())
        for number in range(1, self.settings.rounds + 1):
            mean = VectorMean()
            for difference in everyone(partial(self.difference, weights, number)):
                mean.add(difference)
            weights = (weights + mean.value()).astype(np.float32)
        return self.accuracy(server.set_weights(unflatten(weights, shapes)))

    def vote(self, client: int) -> Any:
        """What a client of PATE-FL would answer without noise: the winner of each public record."""
        models, rows = self.settings.client_models, self.data.parts[client]
        learner = self.learner(models[client % len(models)], client)
        learner.fit(np.asarray(self.data.private.x[rows]), np.asarray(self.data.private.y[rows]))
        return learner.predict_logits(self.data.public_x)[:, : len(self.data.classes)].argmax(axis=1)

    def pate(self, everyone: Map) -> float:
        """Teachers, their votes, and a student of the winners; its accuracy."""
        votes = np.stack(everyone(self.vote))
        tally = np.stack([(votes == label).sum(axis=0) for label in range(len(self.data.classes))], axis=1)
        student = self.learner(self.settings.server_model, Stream.STUDENT, server=True)
        return self.accuracy(student.fit(self.data.public_x, tally.argmax(axis=1)))

    def accuracy(self, learner: Any) -> float:
        """Of a learner on the test records."""
        return float((learner.predict_logits(self.data.test_x).argmax(axis=1) == self.data.test_y).mean())


def everyone_in(workers: int, clients: int, function: Callable[[int], Any]) -> list[Any]:
    """What ``function`` makes of each client's number; clients are dealt out to forked processes in turn."""

    def share(first: int, pipe: Any) -> None:
        with one_thread():
            pipe.send([function(client) for client in range(first, clients, workers)])

    if workers == 1:
        with one_thread():
            return [function(client) for client in range(clients)]
    context, pipes, processes = multiprocessing.get_context("fork"), [], []
    for first in range(workers):
        ours, theirs = context.Pipe(duplex=False)
        processes.append(context.Process(target=share, args=(first, theirs)))
        processes[-1].start()
        pipes.append(ours)
    parts = [pipe.recv() for pipe in pipes]
    for process in processes:
        process.join()
    return [parts[client % workers][client // workers] for client in range(clients)]


def main() -> None:
    """Do the work and say how long it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method", choices=["fedavg", "pate-fl"])
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--times", type=int, default=1)
    asked = parser.parse_intermixed_args()
    work = Work(asked.method, asked.settings)
    began = time.perf_counter()
    everyone = partial(everyone_in, asked.workers, work.settings.clients)
    for _ in range(asked.times):
        reached = work.fedavg(everyone) if asked.method == "fedavg" else work.pate(everyone)
    print(json.dumps({"accuracy": reached, "work_s": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
