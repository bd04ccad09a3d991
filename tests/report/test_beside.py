"""A run beside clients alone and pooled records."""

import json
from pathlib import Path
from typing import Any

import pytest

from fedballot.core.errors import SettingsError
from fedballot.report.beside import beside_plot, beside_table, levels, load_beside
from fedballot.report.build import write_report

BALANCED = {"balanced_accuracy": 0.5}


@pytest.fixture
def alone(result: dict[str, Any], write_run: Any) -> Path:
    metrics = {
        "client_accuracy": {"mean": 0.5, "std": 0.25},
        "accuracy_per_client": [0.25, 0.75, None],
        "client_measures": {"balanced_accuracy": {"mean": 0.5, "std": 0.0}},
    }
    return Path(write_run("alone", arrays=None, method="standalone", metrics=metrics, guarantees=[]))


@pytest.fixture
def pooled(result: dict[str, Any], write_run: Any) -> Path:
    metrics = {"server_accuracy": 0.9912, "server_measures": BALANCED}
    stated = [result["guarantees"][0] | {"epsilon": None, "delta": None, "status": "none"}]
    return Path(write_run("pooled", arrays=None, method="centralized", metrics=metrics, guarantees=stated))


def read(folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return values


def test_the_server_stands_between_clients_alone_and_pooled_records(
    result: dict[str, Any], alone: Path, pooled: Path
) -> None:
    found = levels(result, [read(pooled), read(alone)], "accuracy")
    assert [level.name for level in found] == ["clients alone", "pate-fl’s server", "all records pooled"]
    assert [level.mean for level in found] == [0.5, 0.9712, 0.9912] and found[0].each == (0.25, 0.75)
    own = levels(result, [read(pooled)], "accuracy")[0]  # what was measured of the clients before they took part
    assert (own.name, own.mean) == ("clients alone", result["metrics"]["client_accuracy"]["mean"])
    plot, table = (make(result, [read(pooled), read(alone)]) for make in (beside_plot, beside_table))
    assert plot is not None and "47.1 points above clients alone, 2.0 points below all records pooled" in plot.caption
    assert table is not None and [row[-1] for row in table.rows] == ["–", "one client (zero-out)", "nobody"]
    assert beside_plot(result, []) is None and beside_table(result, []) is None


def test_where_there_is_no_accuracy_areas_under_the_curve_are_compared(result: dict[str, Any]) -> None:
    one = result | {"metrics": {"server_auc": 0.75}}
    other = result | {"method": "standalone", "metrics": {"client_auc": {"mean": 0.625, "std": 0.0}}, "guarantees": []}
    table = beside_table(one, [other])
    assert table is not None and table.head[1] == "AUC" and [row[1] for row in table.rows] == ["0.625", "0.750"]


def test_the_page_draws_them_and_other_data_are_refused(write_run: Any, alone: Path, pooled: Path) -> None:
    run = write_run()
    page = write_report(run, beside=[alone, pooled]).read_text()
    assert "Clients alone, federated, pooled" in page and "On the same test records" in page
    values = read(alone)
    for part, name, value in (("settings", "seed", 3), ("data", "fingerprint", "other")):
        changed = values | {part: values[part] | {name: value}}
        (alone / "result.json").write_text(json.dumps(changed))
        with pytest.raises(SettingsError, match=rf"alone: had other data than .*run: {name} \("):
            write_report(run, beside=[alone])
    (alone / "result.json").write_text(json.dumps(values | {"status": "failed"}))
    with pytest.raises(SettingsError, match=r"alone is failed, not done"):
        load_beside(run, read(run), [alone])
