"""The scripts that made the tables of the pages still run."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[1] / "benchmarks"


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["votes", "probabilities", "weights"])
@pytest.mark.parametrize("order", ["as-asked", "random"])
def test_a_row_of_the_servers_memory(name, order, monkeypatch):
    found = script("server_memory", monkeypatch).measure(name, 12, order)
    assert found["answered"] == 12 and found["cpu_s"] > 0 and found["to_sum"] > 0


def test_a_row_of_private_knn(tmp_path, monkeypatch):
    rows = script("knn_rows", monkeypatch)
    line = next(line for line in rows.lines() if line.table == "mnist" and line.name == "private-knn-fl, ε=1")
    found = rows.row(line, 0, tmp_path)
    assert found["metrics"]["server_accuracy"] > 0.8
    assert found == rows.row(line, 0, tmp_path)
    assert "| private-knn-fl, ε=1 | 1.00, 0.0001 |" in rows.markdown(line, [found])
