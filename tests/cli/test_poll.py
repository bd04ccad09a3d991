"""``fedballot poll`` on a small table: sizes follow from the data where nothing is set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sklearn.datasets import load_breast_cancer

from fedballot.cli import poll as command
from fedballot.cli.first import plan_first
from fedballot.core.errors import DataError
from fedballot.runs.engine import federated_data


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    data = load_breast_cancer(as_frame=True)
    frame = data.frame.drop(columns="target").assign(diagnosis=data.target.map({0: "malignant", 1: "benign"}))
    frame.to_csv(tmp_path / "all.csv", index=False)
    frame[:400].to_csv(tmp_path / "private.csv", index=False)
    frame[400:].drop(columns="diagnosis").to_csv(tmp_path / "pool.csv", index=False)
    return tmp_path


def ask(folder: Path, **values: object) -> dict[str, Any]:
    out = folder / "poll"
    words = [f"{key}={value}" for key, value in {"label": "diagnosis", **values}.items()]
    command.poll(set_=words, out=out, quiet=True, json=True)
    result: dict[str, Any] = json.loads((out / "result.json").read_text())
    return result


def test_one_table_is_enough(tables: Path) -> None:
    result = ask(tables, dataset=tables / "all.csv")
    assert result["metrics"]["poll"]["verdict"] != ""
    plan = plan_first("pate-fl", {"dataset": str(tables / "all.csv")}, {"label": "diagnosis"}).settings["pate-fl"]
    chosen = {name: result["settings"][name] for name in command.CHOSEN}
    assert chosen == {name: getattr(plan, name) for name in command.CHOSEN}
    # the poll is about the pool of the run that `try` makes
    assert result["data"]["fingerprint"] == federated_data(plan).public_fingerprint


def test_a_pool_without_labels(tables: Path) -> None:
    result = ask(tables, dataset=tables / "private.csv", public_dataset=tables / "pool.csv", clients=5)
    assert (result["settings"]["public_size"], result["settings"]["clients"]) == (169, 5)
    assert result["settings"]["public_labels"] == "ignored"
    assert result["metrics"]["poll"]["advice"] and result["clients"]["answered"] == 5


def test_what_is_set_stays(tables: Path) -> None:
    result = ask(tables, dataset=tables / "private.csv", public_dataset=tables / "pool.csv", public_size=100, clients=4)
    settings = result["settings"]
    assert [settings[name] for name in ("public_size", "private_size", "test_size")] == [100, 0, 1]
    assert settings["public_labels"] == "known"


def test_the_private_file_has_classes(tables: Path) -> None:
    with pytest.raises(DataError, match=r"pool\.csv: no column 'diagnosis'"):
        ask(tables, dataset=tables / "pool.csv", public_dataset=tables / "private.csv")
