"""Flower's two APIs carry the same run: the same releases bit for bit, the same counts, the same reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.core.files import read_arrays
from fedballot.methods.registry import get_method
from fedballot.runs.flower_api import VARIABLE
from fedballot.sim import simulate
from fedballot.strategies.rounds import PROGRESS
from tests.conftest import small_settings
from tests.inprocess import Counting

VOTES = {"epsilon": 40, "noise_seed": 5}
TASKS = {"clients": 4, "private_size": 400, "rounds": 2, "queries": 60, "k": 60, "share": "softmax"}
CASES = {
    "votes under masks": ("pate-fl", {**VOTES, "clients": 6, "min_clients": 5, "secure_aggregation": True}),
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
def test_both_apis_release_the_same_bits(method: str, values: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    runs = {}
    for api in ("legacy", "message"):
        monkeypatch.setenv(VARIABLE, api)
        progress, out, settings = Counting(), tmp_path / api, small_settings(get_method(method).settings, values)
        result = simulate(method, settings, out, resume=False, progress=progress)
        runs[api] = result, arrays_of(out), progress.stages
    (one, arrays, stages), (other, other_arrays, other_stages) = runs.values()
    assert len(arrays) > values["clients"] and arrays.keys() == other_arrays.keys()
    for name, array in arrays.items():
        assert array.dtype == other_arrays[name].dtype and np.array_equal(array, other_arrays[name]), name
    for part in ("metrics", "guarantees", "clients", "warnings", "aggregation"):
        assert one[part] == other[part], part
    assert one["communication"]["messages"] == other["communication"]["messages"]
    if "secure_aggregation" not in values:  # keys are drawn anew in each run
        assert one["communication"] == other["communication"]
    assert stages == other_stages
