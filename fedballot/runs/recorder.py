"""The record of a run: ``result.json``, from its start to its end or failure."""

from __future__ import annotations

import sys
import time
from functools import cache
from importlib import metadata
from typing import Any

import numpy as np

from fedballot import __version__
from fedballot.core.errors import FedballotError
from fedballot.core.files import write_atomic, write_json
from fedballot.core.folders import LOCK, RECORD, RunFolder
from fedballot.core.metrics import accuracy, mean_and_std, mean_of, of_confusion, spread_of
from fedballot.core.stopping import was_stopped
from fedballot.datasets.federation import FederatedData
from fedballot.datasets.own import SITES
from fedballot.datasets.schema.toml import to_toml
from fedballot.methods.api import Method
from fedballot.privacy.ledger import Costs
from fedballot.privacy.ledger.reconcile import reconcile
from fedballot.runs.description import PREPARATION, describe_model
from fedballot.runs.doubts import doubts, few_neighbours
from fedballot.runs.place import place
from fedballot.runs.results import load_release
from fedballot.runs.spent import spent
from fedballot.settings.parts import CommonSettings, client_models
from fedballot.strategies.base import BallotStrategy

SCHEMA = "1"
SCHEMA_FILE = "schema.toml"
BOOSTERS = ("xgboost", "xgboost-cpu", "lightgbm", "catboost")


class Recorder:
    """Writes ``result.json`` as a run goes on: when it starts, when it is done, when it fails.

    Parameters
    ----------
    folder
        Of the run.
    method, settings, data
        The experiment.
    workers
        Parallel workers (simulation) or clients (deployment).
    engine
        What runs the clients: "local", "ray" or "flower", that is processes that Flower started.
    """

    def __init__(
        self,
        folder: RunFolder,
        method: Method,
        settings: CommonSettings,
        data: FederatedData,
        workers: int,
        engine: str,
    ) -> None:
        self.folder, self.method, self.settings, self.data = folder, method, settings, data
        self.workers, self.engine = workers, engine
        self._clock, self._started = time.perf_counter(), time.time()
        self.result: dict[str, Any] = {
            "schema": SCHEMA,
            "status": "running",
            "error": None,
            "method": method.name,
            "settings": settings.to_dict(),
            "preset": folder.preset,
            "key_settings": settings.headline(),
            "unread": settings.unread(),
            "seed": settings.seed,
            "classes": list(data.classes),
            "started": folder.started,
            "versions": dict(versions()),
            "made": dict(place()),
            "data": {
                "dataset": settings.dataset,
                "public_dataset": settings.public_dataset or settings.dataset,
                "n_private": None if settings.dataset == SITES else int(sum(part.size for part in data.parts)),
                "n_public": len(data.public_y),
                "n_test": len(data.test_y),
                "fingerprint": data.public_fingerprint,
                "client_sizes": None if settings.dataset == SITES else [int(part.size) for part in data.parts],
            },
        }
        if data.encoder is not None:
            self.result["data"]["encoder"] = {
                "name": data.encoder.name,
                "digest": data.encoder.digest,
                "versions": dict(data.encoder.versions),
            }
        if folder.changed:
            self.result["changed"] = [dict(change) for change in folder.changed]
        folder.save()
        if data.schema is not None:
            text = to_toml(data.schema).encode()
            write_atomic(folder.path / SCHEMA_FILE, lambda stream: stream.write(text))
        if data.preparation is not None:
            data.preparation.save(folder.path / PREPARATION)
        write_json(folder.result, self.result)

    def failed(self, error: BaseException) -> None:
        """The run failed or was stopped; what it has so far stays readable."""
        status = "failed"
        words = str(error) if isinstance(error, FedballotError) else f"{type(error).__name__}: {error}"
        if was_stopped(error):
            status, words = "stopped", "stopped before the run was done; --resume takes it up"
        self.result = {**self.result, "status": status, "error": words}
        write_json(self.folder.result, self.result)

    def withdraw(self) -> None:
        """Take a run away that failed before anybody was asked; where others have put a file beside, all stays."""
        path = self.folder.path
        ours = {self.folder.result.name, self.folder.log.name, SCHEMA_FILE, PREPARATION}
        if {entry.name for entry in path.iterdir()} <= {*ours, RECORD, LOCK}:
            for name in ours:
                (path / name).unlink(missing_ok=True)
            self.folder.discard()

    def done(self, strategy: BallotStrategy[Any]) -> None:
        """The run is done: the whole result, if its clients' ledgers hold what it promises.

        Raises
        ------
        RunError
            If they do not.
        """
        outcome, guarantees = strategy.outcome(), strategy.guarantees()
        if strategy.clients_root is not None:
            folders = {int(path.parent.name): path for path in strategy.clients_root.glob("*/ledger")}
            answered: dict[str, int] = {}
            for record in strategy.round_records:
                name = strategy.charged_as(record["round"])
                answered[name] = max(answered.get(name, 0), record["answered"])
            amplified = strategy.composition().amplified

            def costs(client_id: int) -> Costs:
                return strategy.composition(client_id).costs()

            some = any(guarantee.among for guarantee in guarantees)  # are promised more than all
            own = (lambda client_id: strategy.composition(client_id).guarantees()) if some else None
            reconcile(folders, costs, answered, guarantees, amplified, own)
            self.result["ledgers"] = spent(folders.values())
        strategy.save(self.folder)
        describe_model(self.folder, self.method, self.settings, self.data)
        self._per_round(strategy.round_records)
        counts = strategy.counts
        wall_s = time.perf_counter() - self._clock
        told, available = strategy.client_compute_s or None, self.workers * strategy.rounds_wall_s
        metrics = {**self._clients(), **outcome["metrics"]}
        doubtful = doubts(metrics, load_release(self.folder.path), self.data.classes)
        self.result = {
            **self.result,
            "status": "done",
            "metrics": metrics,
            "rounds": strategy.round_records,
            "guarantees": [guarantee.worded() for guarantee in guarantees],
            "warnings": [
                *self.data.notes,
                *few_neighbours(self._models(), [part.size for part in self.data.parts]),
                *outcome.get("warnings", []),
                *doubtful,
                *_blank_words(strategy),
                *_changed_words(self.folder),
            ],
            "aggregation": strategy.aggregation,
            "communication": {
                "bytes_up": counts.bytes_up,
                "bytes_down": counts.bytes_down,
                "messages": counts.messages,
            },
            "clients": {
                "asked": counts.asked,
                "answered": counts.answered,
                "rejected": dict(counts.rejected),
                "first_details": counts.first_details,
            },
            "timing": {
                "wall_s": wall_s,
                "startup_s": max(0.0, (strategy.first_began or self._started) - self._started),
                "train_s": strategy.rounds_wall_s,
                "distill_s": outcome["distill_s"],
                "client_compute_s": told,
                "engine": self.engine,
                "workers": self.workers,
                "engine_overhead": 1 - told / available if told and available > 0 else None,
            },
        }
        write_json(self.folder.result, self.result)

    def _models(self) -> tuple[str, ...]:
        """What clients train on records of their own; one that has those of all is none of them."""
        return () if self.method.single_client else client_models(self.settings)

    def _clients(self) -> dict[str, Any]:
        """Accuracy of the clients' own models, where their folders lie beside the run (a simulation)."""
        blank: dict[str, Any] = {"server_accuracy": None, "label_accuracy": None, "client_accuracy": None}
        figures = [self.folder.client(client_id).figures() for client_id in range(self.settings.clients)]
        aucs = [mean_of(found["auc"]) for found in figures if found and "auc" in found]
        if aucs and not self.method.single_client:
            return {**blank, "client_auc": mean_and_std([value for value in aucs if value is not None])}
        matrices = [np.asarray(found["confusion"]) for found in figures if found and "confusion" in found]
        if not matrices or self.method.single_client:
            return blank
        values = [accuracy(matrix) for matrix in matrices]
        measures = spread_of([of_confusion(matrix) for matrix in matrices])
        return {
            **blank,
            "client_accuracy": mean_and_std(values),
            "accuracy_per_client": values,
            "client_measures": measures,
        }

    def _per_round(self, records: list[dict[str, Any]]) -> None:
        """Add to each round what the clients noted about it; a client that missed a round is null there."""
        noted = [
            (self.folder.client(client_id).figures() or {}).get("rounds", {})
            for client_id in range(self.settings.clients)
        ]
        for record in records:
            values = [found.get(str(record["round"])) for found in noted]
            known = [value for value in values if value is not None]
            if known:
                record["metrics"] |= {"client_accuracy": mean_and_std(known), "accuracy_per_client": values}


def _blank_words(strategy: BallotStrategy[Any]) -> list[str]:
    blank = strategy.blank()
    if not blank:
        return []
    return [
        f"the work of {len(blank)} clients failed behind their charge, so they answered blank; clients/{blank[0]:05d}/"
        "errors.txt says why"
    ]


def _changed_words(folder: RunFolder) -> list[str]:
    return [
        f"{change['setting']} was {change['from']!r} when clients were asked, and {change['to']!r} when the run was "
        "taken up; what they had answered was kept, and nothing charged again"
        for change in folder.changed
    ]


@cache  # reading them takes 10 ms
def versions() -> dict[str, str]:
    """Versions of what a result may depend on; packages that are not installed are left out."""
    names = ("flwr", "ray", "numpy", "scipy", "scikit-learn", "dp-accounting", "torch", *BOOSTERS)
    out = {"fedballot": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    for name in names:
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return out
