"""What of a run's result a pack tells: nothing that was computed from a client's records but what a guarantee covers.

A simulation's result also holds what only a simulation can know, such as how many records each client has.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedballot.core.errors import DataError
from fedballot.runs.results import load_result

DATA = ("dataset", "public_dataset", "n_public", "n_test", "fingerprint")
METRICS = (
    "server_accuracy",
    "server_accuracy_per_class",
    "server_measures",
    "server_auc",
    "server_auc_per_class",
    "label_accuracy",
    "released_noise_sigma",
)
WHOLE = ("schema", "status", "method", "settings", "seed", "classes", "started", "guarantees", "versions")
OPTIONAL: Mapping[str, Any] = {"key_settings": [], "changed": [], "warnings": [], "aggregation": {}}


def finished_run(folder: Path) -> dict[str, Any]:
    """The public part of a run's result.

    Raises
    ------
    DataError
        If there is no run, it is not done, or its result is damaged.
    """
    result = load_result(folder)
    if result["status"] != "done":
        reason = f": {result['error']}" if result.get("error") else ""
        raise DataError(f"{folder}: the run is {result['status']}, not done{reason}; finish it with --resume first")
    return public_part(result)


def public_part(result: Mapping[str, Any]) -> dict[str, Any]:
    """A finished result without all that stays with the clients; ``simulated`` says whether they were made up."""
    rounds = [{key: one.get(key) for key in ("round", "asked", "answered")} for one in result["rounds"]]
    return {
        **{key: result[key] for key in WHOLE},
        **{key: result.get(key) or empty for key, empty in OPTIONAL.items()},
        "data": {key: result["data"].get(key) for key in DATA},
        "metrics": {key: result["metrics"][key] for key in METRICS if key in result["metrics"]},
        "rounds": rounds,
        "clients": {
            "asked": max((one["asked"] or 0 for one in rounds), default=0),
            "rejected": dict(result["clients"].get("rejected") or {}),
        },
        "bytes_up": result["communication"].get("bytes_up"),
        "simulated": result["data"].get("n_private") is not None,
    }
