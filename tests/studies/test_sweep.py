"""A sweep: which runs it makes, that it goes on where it stopped, and what its table says."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedballot.api.sweeping import check_point, check_there
from fedballot.core.errors import DataError, SettingsError
from fedballot.core.files import read_json
from fedballot.core.folders import held
from fedballot.report.sweep_plot import sweep_figure
from fedballot.settings.fedmd import NfdpSettings
from fedballot.studies.sweep import Point, Shared, grid, is_done, points_of, rows, values_of
from tests.command import fedballot

FIXED = {
    "dataset": "digits",
    "clients": 2,
    "private_size": 200,
    "public_size": 100,
    "test_size": 200,
    "client_models": "logistic-regression",
    "pretrain_epochs": 0,
    "rounds": 2,
    "share": "argmax",
    "workers": 1,
}


def test_a_grid_holds_every_combination_once(tmp_path):
    fixed, points = grid(NfdpSettings, ["k=18,60", "share=logits,argmax", "rounds=4", "seed=0,1"], tmp_path)
    assert fixed == {"rounds": "4"}
    assert len({tuple(point.values.items()) for point in points}) == len({point.folder for point in points}) == 8
    assert points[0].folder.name == "k=18,share=logits,seed=0"
    assert len({point.cell for point in points}) == 4


def test_semicolons_part_lists(tmp_path):
    _, points = grid(NfdpSettings, ["client_models=cnn,knn;mlp", "k=1"], tmp_path)
    assert [point.values["client_models"] for point in points] == ["cnn,knn", "mlp"]
    fixed, _ = grid(NfdpSettings, ["client-models=cnn,knn", "k=1,2"], tmp_path)
    assert fixed == {"client_models": "cnn,knn"}


@pytest.mark.parametrize("pairs", [[], ["k=3"], ["k=1,1"], ["k=1,"], ["k"]])
def test_what_is_no_grid_is_refused(pairs, tmp_path):
    with pytest.raises(SettingsError):
        grid(NfdpSettings, pairs, tmp_path)


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=6, unique=True))
def test_values_are_read_as_they_were_written(values):
    assert [int(value) for value in values_of(",".join(map(str, values)), is_tuple=False)] == values


def test_points_without_a_result_are_rows_that_say_so(tmp_path):
    (row,) = rows([Point({"k": "3"}, tmp_path / "k=3")])
    assert (row.seeds, row.accuracy, row.per_round) == (0, None, ())
    assert "k=3" in row.failed[0]
    assert sweep_figure([row]) is None
    assert not is_done(tmp_path / "k=3")


def test_a_setting_is_named_once(tmp_path):
    alone, several = Point({"epsilon": "1e9"}, tmp_path / "a"), Point({"model": "x(a=1)", "seed": "1"}, tmp_path / "b")
    assert alone.told("epsilon=1e+09 is too much") == "epsilon=1e+09 is too much"
    assert several.told("model=x(a=1): unknown") == "seed=1: model=x(a=1): unknown"
    assert several.told("done") == "model=x(a=1),seed=1: done"
    failed = rows(
        [alone, several], {alone.folder: "epsilon=1e+09 is too much", several.folder: "model=x(a=1): unknown"}
    )
    assert [row.failed for row in failed] == [("epsilon=1e+09 is too much",), ("seed=1: model=x(a=1): unknown",)]


def test_a_value_that_cannot_work_is_told_before_the_first_run(tmp_path):
    ended = _sweep(tmp_path / "s", "--set", "k=5,none")
    assert ended.returncode == 2
    assert "k='none'" in ended.stderr
    assert not (tmp_path / "s").exists()


def _sweep(out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    words = [part for key, value in FIXED.items() for part in ("--set", f"{key}={value}")]
    return fedballot("sweep", "fedmd-nfdp", "--out", out, *words, *more)


@pytest.fixture(scope="module")
def swept(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    out = tmp_path_factory.mktemp("sweeps") / "s"
    return out, _sweep(out, "--set", "k=5,50", "--jobs", "2")


@pytest.mark.slow
def test_a_sweep_runs_its_grid_and_prints_one_table(swept):
    out, ended = swept
    assert ended.returncode == 0, ended.stderr
    few, many = read_json(out / "sweep.json")
    assert (few["values"], many["values"]) == ({"k": "5"}, {"k": "50"})
    assert many["accuracy"] > few["accuracy"]  # that of five records may be chance's
    assert many["accuracy"] > 0.4
    assert many["delta"] == pytest.approx(1 - 0.99**50)
    assert many["epsilon"] == 0 < many["claimed_epsilon"]
    assert len(many["per_round"]) == 3
    assert 0.5 <= many["bytes_per_query"] < 2  # 4 bits a label, and NumPy's header
    assert (out / "sweep.png").stat().st_size > 5000
    for word in ("k", "bytes per query", "0.395", "50"):
        assert word in ended.stdout


@pytest.mark.slow
def test_a_sweep_goes_on_where_it_stopped(swept):
    out, _ = swept
    kept = (out / "k=5" / "result.json").stat().st_mtime_ns
    before = read_json(out / "k=50" / "result.json")
    interrupted = {**before, "status": "running"}
    (out / "k=50" / "result.json").write_text(json.dumps(interrupted))
    for path in (out / "k=50" / "clients" / "00001").glob("run-*"):
        shutil.rmtree(path)
    ended = _sweep(out, "--set", "k=5,50")
    assert ended.returncode == 0, ended.stderr
    assert "k=5: was done" in ended.stderr and "k=50: done" in ended.stderr
    assert (out / "k=5" / "result.json").stat().st_mtime_ns == kept
    after = read_json(out / "k=50" / "result.json")
    assert after["status"] == "done" and len(after["rounds"]) == 3


@pytest.mark.slow
def test_two_processes_do_not_work_on_one_sweep(swept):
    folder, _ = swept
    before = (folder / "sweep.json").read_bytes()
    with held(folder, "sweep"):
        ended = _sweep(folder, "--set", "k=5,50")
    assert ended.returncode == 1 and "another process works on this sweep" in ended.stderr
    assert (folder / "sweep.json").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "words"), [("sweep.json", "none of fedballot's files"), ("run.json", "holds a single run")]
)
def test_a_folder_of_something_else_is_left_as_it_is(name, words, tmp_path):
    (tmp_path / name).write_text("mine")
    ended = _sweep(tmp_path, "--set", "k=5,50")
    assert ended.returncode == 2 and words in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name] and (tmp_path / name).read_text() == "mine"


@pytest.mark.slow
def test_runs_of_other_settings_are_not_taken_for_those_of_this_sweep(swept):
    ended = _sweep(swept[0], "--set", "k=5,50", "--set", "replacement=false")
    assert ended.returncode == 2
    assert "replacement" in ended.stderr


def test_runs_that_end_before_they_have_a_folder_say_why_at_the_end(tmp_path):
    many = ("--set", "dataset=digits", "--set", "public_size=3000")
    done = fedballot("sweep", "standalone", *many, "--set", "seed=0,1", "--out", tmp_path / "s")
    assert done.returncode == 1
    last = " ".join(done.stderr.split("2 of 2 runs failed")[1].split())
    assert "public_size=3000" in last and "is not a folder" not in done.stderr


@pytest.mark.parametrize("name", ["dataset", "public_dataset", "schema"])
def test_data_that_are_not_there_are_told_once_and_before_the_first_run(name, tmp_path):
    done = fedballot("sweep", "standalone", "--set", f"{name}=gone.csv", "--set", "seed=0,1", "--out", tmp_path / "s")
    assert done.returncode == 2
    assert done.stderr.count("gone.csv: ") == 1 and "runs failed" not in done.stderr
    assert not (tmp_path / "s").exists()


def test_learners_that_are_not_there_are_told_once_and_before_the_first_run(tmp_path):
    given = ("--set", "dataset=digits", "--set", "client_models=knn,forrest", "--set", "seed=0,1")
    done = fedballot("sweep", "standalone", *given, "--out", tmp_path / "s")
    assert done.returncode == 2 and "client_models=forrest: unknown learner" in done.stderr
    assert not (tmp_path / "s").exists()


def test_a_long_value_still_has_a_folder_of_its_own(tmp_path):
    long = [",".join(["0.5"] * 99 + [last]) for last in ("1", "2")]
    first, second = (point.folder for point in points_of({"client_epsilons": long}, tmp_path))
    assert first != second and len(first.name) < 200 and first.name.startswith("client_epsilons=0.5,0.5")
    assert [point.folder for point in points_of({"client_epsilons": long}, tmp_path)] == [first, second]
    first.mkdir()


@pytest.mark.parametrize(
    ("given", "kind"), [({"dataset": "gone.csv"}, DataError), ({"client_models": "gone:tree"}, SettingsError)]
)
def test_a_sweep_that_is_done_needs_no_data_and_no_learners(given, kind, tmp_path):
    points = points_of({"seed": ["0", "1"]}, tmp_path)
    shared = Shared("standalone", None, None, {"dataset": "digits", **given})
    runs = {point.folder: check_point(shared, point) for point in points}
    for folder in runs:
        with pytest.raises(kind, match="gone"):
            check_there(runs)
        folder.mkdir()
        (folder / "result.json").write_text(json.dumps({"status": "done"}))
    check_there(runs)


@pytest.mark.slow
def test_a_failed_run_is_named_and_the_others_count(swept, tmp_path):
    out = tmp_path / "s"
    shutil.copytree(swept[0], out)
    ended = _sweep(out, "--set", "k=5,50,1000000")  # so many draws that no record is spared
    assert ended.returncode == 1
    assert "1 of 3 runs failed" in ended.stderr
    assert np.isclose(read_json(out / "sweep.json")[0]["accuracy"], read_json(swept[0] / "sweep.json")[0]["accuracy"])


def _begun(out: Path, *more: str) -> subprocess.Popen[str]:
    words = [part for key, value in FIXED.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "fedballot.cli", "sweep", "fedmd-nfdp", "--out", str(out), *words, *more]
    # whatever shell started the tests: one in the background has it ignored
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heard, start_new_session=True
    )


def _wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def _runners(parent: int) -> list[int]:
    done = subprocess.run(["pgrep", "-P", str(parent), "-f", "fedballot.cli.runner"], capture_output=True, check=False)
    return [int(word) for word in done.stdout.split()]


LONG = ("--set", "rounds=400", "--set", "k=5,6")


@pytest.mark.slow
def test_a_killed_process_takes_one_run_along(tmp_path):
    process = _begun(tmp_path / "s", "--set", "k=50", "--set", "rounds=400,1")
    _wait_for(tmp_path / "s" / "rounds=400" / "run.json", process)
    (runner,) = _runners(process.pid)
    os.kill(runner, signal.SIGKILL)
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 1
    assert "rounds=400: its process ended: exit code -9" in errors
    assert "rounds=1: done" in errors


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_sweep_starts_no_other_run(how, tmp_path):
    process = _begun(tmp_path / "s", *LONG)
    _wait_for(tmp_path / "s" / "k=5" / "clients" / "00000", process)
    runners = _runners(process.pid)
    if how == signal.SIGINT:
        os.killpg(process.pid, how)  # as a terminal does: its runner and that one's workers hear it, too
    else:
        process.send_signal(how)
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 130
    assert "its process ended" not in errors and "stopped" in errors
    assert read_json(tmp_path / "s" / "k=5" / "result.json")["status"] == "stopped"
    assert not (tmp_path / "s" / "k=6").exists()
    assert len(runners) == 1 and not Path(f"/proc/{runners[0]}").exists()
