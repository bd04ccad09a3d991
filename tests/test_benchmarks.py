"""The scripts that made the tables of the pages still run."""

import importlib.util
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[1] / "benchmarks"


def test_a_row_of_private_knn(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("knn_rows", SCRIPTS / "knn_rows.py")
    rows = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "knn_rows", rows)  # dataclasses look their module up
    spec.loader.exec_module(rows)
    line = next(line for line in rows.lines() if line.table == "mnist" and line.name == "private-knn-fl, ε=1")
    found = rows.row(line, 0, tmp_path)
    assert found["metrics"]["server_accuracy"] > 0.8
    assert found == rows.row(line, 0, tmp_path)
    assert "| private-knn-fl, ε=1 | 1.00, 0.0001 |" in rows.markdown(line, [found])
