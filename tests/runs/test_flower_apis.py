"""Whatever carries a run, its releases are the same bit for bit: Flower's two APIs on Ray, so many local workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.core.files import read_arrays
from fedballot.methods.registry import get_method
from fedballot.runs.flower_api import APIS, VARIABLE
from fedballot.sim import simulate
from fedballot.strategies.rounds import PROGRESS
from tests.conftest import small_settings
from tests.inprocess import Counting

VOTES = {"epsilon": 40, "noise_seed": 5}
TASKS = {"clients": 4, "private_size": 400, "rounds": 2, "queries": 60, "k": 60, "share": "softmax"}
WEIGHTS = {"clients": 5, "private_size": 400, "rounds": 3, "epochs": 1, "client_models": "mlp-torch"}
ENGINES: dict[str, dict[str, Any]] = {
    "legacy": {"engine": "ray"},
    "message": {"engine": "ray"},
    "here": {"engine": "local", "workers": 1},
    "workers": {"engine": "local", "workers": 3},
}
CASES = {
    "votes under masks": ("pate-fl", {**VOTES, "clients": 6, "min_clients": 5, "secure_aggregation": True}),
    "cohorts": ("fedavg", {**WEIGHTS, "participation": 0.5}),
    "rounds": ("fedmd-nfdp", {**TASKS, "pretrain_epochs": 1, "epochs": 1, "noise_seed": 3}),
}


def arrays_of(out: Path) -> dict[str, np.ndarray]:
    """What a run has released and its server needs, and what each of its clients has released, in order."""
    found = {f"{path.stem}/{name}": array for path in out.glob("*.npz") for name, array in read_arrays(path).items()}
    for folder in out.glob("clients/*/ledger/releases"):
        for number, path in enumerate(sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)):
            found |= {f"{folder.parts[-3]}/{number}/{name}": array for name, array in read_arrays(path).items()}
    return {name: array for name, array in found.items() if name.rpartition("/")[2] != PROGRESS}


@pytest.mark.slow
@pytest.mark.parametrize(("method", "values"), CASES.values(), ids=CASES)
def test_all_engines_release_the_same_bits(
    method: str, values: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    runs = {}
    for name, engine in ENGINES.items():
        monkeypatch.setenv(VARIABLE, name if name in APIS else "legacy")
        progress, out = Counting(), tmp_path / name
        settings = small_settings(get_method(method).settings, values, engine)
        result = simulate(method, settings, out, resume=False, progress=progress)
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
