"""Whatever carries a run, its releases are the same bit for bit: Flower's two APIs, Ray, so many local workers."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.core.files import read_arrays
from fedballot.core.folders import RunFolder
from fedballot.methods.registry import get_method
from fedballot.runs.engine import make_server
from fedballot.runs.flower_api import APIS, VARIABLE, flower_api
from fedballot.sim import _client, simulate
from fedballot.strategies.rounds import PROGRESS
from tests.conftest import small_settings
from tests.inprocess import Counting
from tests.link import Link

VOTES = {"epsilon": 40, "noise_seed": 5}
TASKS = {"clients": 4, "private_size": 400, "rounds": 2, "queries": 60, "k": 60, "share": "softmax"}
WEIGHTS = {"clients": 5, "private_size": 400, "rounds": 3, "epochs": 1, "client_models": "mlp-torch"}
ONE_ACTOR = {"workers": 1}  # each imports torch for seconds
LOCAL: dict[str, dict[str, Any]] = {
    "here": {"engine": "local", "workers": 1},
    "workers": {"engine": "local", "workers": 3},
}
CASES = {  # torch first: the process that forks workers imports what the first run asks for, and only that
    "cohorts": ("fedavg", {**WEIGHTS, **ONE_ACTOR, "participation": 0.5}, "message"),
    "votes under masks": ("pate-fl", {**VOTES, "clients": 6, "min_clients": 5, "secure_aggregation": True}, "legacy"),
    "rounds": ("fedmd-nfdp", {**TASKS, "pretrain_epochs": 1, "epochs": 1, "noise_seed": 3}, ""),
}


def arrays_of(out: Path) -> dict[str, np.ndarray]:
    """What a run has released and its server needs, and what each of its clients has released, in order."""
    found = {f"{path.stem}/{name}": array for path in out.glob("*.npz") for name, array in read_arrays(path).items()}
    for folder in out.glob("clients/*/ledger/releases"):
        for number, path in enumerate(sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)):
            found |= {f"{folder.parts[-3]}/{number}/{name}": array for name, array in read_arrays(path).items()}
    return {name: array for name, array in found.items() if name.rpartition("/")[2] != PROGRESS}


def linked(method: str, settings: Any, out: Path, progress: Counting) -> dict[str, Any]:
    """A run through Flower's API of the environment, on Flower's own link."""
    folder, api = RunFolder.open(out, method, settings, resume=False), flower_api()
    side = make_server(get_method(method), settings, folder, workers=settings.worker_count, progress=progress)
    client = partial(_client, method, settings, out / "clients")
    Link(api.client_app(client), side.strategy.nodes).run(api.server_app(lambda context: side))
    return side.recorder.result


@pytest.mark.slow
@pytest.mark.parametrize(("method", "values", "on_ray"), CASES.values(), ids=CASES)
def test_all_engines_release_the_same_bits(
    method: str, values: dict[str, Any], on_ray: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """Each API carries each case on Flower's link, and one case on Ray."""
    runs = {}
    for name in (*LOCAL, *APIS, *(["ray"] if on_ray else [])):
        monkeypatch.setenv(VARIABLE, name if name in APIS else on_ray or "legacy")
        progress, out = Counting(), tmp_path / name
        settings = small_settings(get_method(method).settings, values, LOCAL.get(name, {"engine": "ray"}))
        if name in APIS:
            result = linked(method, settings, out, progress)
        else:
            result = simulate(method, settings, out, resume=False, progress=progress)
            assert (result["status"], result["timing"]["engine"]) == ("done", settings.engine)
            assert result == json.loads((out / "result.json").read_text())
        stages = [stage for stage in progress.stages if stage[0].startswith("round")]
        runs[name] = result, arrays_of(out), stages
    (one, arrays, stages), *others = runs.values()
    assert arrays and len(stages) >= values.get("rounds", 1)
    for other, other_arrays, other_stages in others:
        assert arrays.keys() == other_arrays.keys()
        for name, array in arrays.items():
            assert array.dtype == other_arrays[name].dtype and np.array_equal(array, other_arrays[name]), name
        for part in ("metrics", "guarantees", "clients", "warnings", "aggregation"):
            assert one[part] == other[part], part
        assert one["communication"]["messages"] == other["communication"]["messages"]
        if "secure_aggregation" not in values:  # keys are drawn anew in each run
            assert one["communication"] == other["communication"]
        assert stages == other_stages
