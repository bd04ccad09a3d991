"""Real runs, on Ray and in local workers: a whole result, faults that are counted, an end that loses nothing.

What is a method's own affair runs without the engine; tests/runs/test_flower_apis.py compares the engines.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from flwr.common import Context
from flwr.simulation import run_simulation
from sklearn.datasets import load_breast_cancer

from fedballot.api.trackers import CsvTracker
from fedballot.core.callbacks import Callback, Callbacks
from fedballot.core.errors import RunError, SettingsError
from fedballot.core.files import read_arrays
from fedballot.core.folders import RunFolder
from fedballot.core.progress import Silent
from fedballot.core.setting import build
from fedballot.datasets.schema.toml import read_schema
from fedballot.methods.registry import get_method
from fedballot.runs.engine import make_client, make_server
from fedballot.runs.flower_api import flower_api
from fedballot.runs.run_config import client_number
from fedballot.settings.voting import PateSettings
from fedballot.sim import LogFile, simulate
from tests.command import fedballot
from tests.conftest import SMALL, fitting, small_settings
from tests.held import HOLD, hold
from tests.inprocess import Counting, run_here

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_does_not_fill_the_terminal_with_what_the_log_lost(capsys):
    log = LogFile("/dev/full")
    log.handle(logging.LogRecord("flwr", logging.INFO, "here", 1, "a line", None, None))
    with pytest.raises(OSError, match="No space left"):
        log.close()
    assert capsys.readouterr().err == ""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One whole PATE-FL run on real digits, with two kinds of scikit-learn learners."""
    out, progress = tmp_path_factory.mktemp("runs") / "pate", Counting()
    own = {"epsilon": 40, "delta": 1e-3, "client_models": "logistic-regression,knn"}
    settings = small_settings(PateSettings, own)
    return out, settings, simulate("pate-fl", settings, out, resume=False, progress=progress), progress


@pytest.mark.smoke
def test_a_run_writes_a_whole_result(run):
    out, settings, result, progress = run
    assert result == json.loads((out / "result.json").read_text())
    assert result["status"] == "done"
    assert result["settings"] == settings.to_dict()
    assert result["clients"] == {"asked": 8, "answered": 8, "rejected": {}, "first_details": {}}
    assert result["communication"]["messages"] == 16
    ballots = 8 * 300 * 10
    assert ballots < result["communication"]["bytes_up"] <= 2 * ballots + 8 * 200
    timing = result["timing"]
    assert 0 <= timing["engine_overhead"] < 1
    assert timing["client_compute_s"] <= timing["workers"] * timing["train_s"]
    assert timing["startup_s"] + timing["train_s"] + timing["distill_s"] <= timing["wall_s"] * 1.02
    (one,) = result["rounds"]
    assert 0 <= one["began_s"] < one["ended_s"] and one["compute_s"] == timing["client_compute_s"]
    assert one["began_s"] + one["wall_s"] + one["server_s"] <= one["ended_s"] + 1e-3
    assert result["metrics"]["client_accuracy"]["mean"] > 0.7
    assert (timing["engine"], timing["workers"]) == ("local", 2)
    assert [stage[1:] for stage in progress.stages if stage[0] == "round 1: clients"] == [[8, 8]]
    assert (out / "server-model-0").exists()


@pytest.mark.smoke
def test_the_accuracy_is_far_above_chance(run):
    # noise of 5.7 on at most 8 votes: .6 to .9 seen, chance is .1
    assert run[2]["metrics"]["server_accuracy"] > 0.45
    assert run[2]["metrics"]["label_accuracy"] > 0.45


@pytest.mark.smoke
def test_the_release_holds_the_tally(run):
    out, _, result, _ = run
    release = read_arrays(out / "release.npz")
    assert release["histogram"].shape == (300, 10)
    shares = [read_arrays(path)["votes"] for path in sorted((out / "clients").glob("*/ledger/releases/*.npz"))]
    assert len(shares) == 8
    assert np.array_equal(release["histogram"], np.sum(shares, axis=0))
    accuracy = np.mean(release["labels"] == release["true_labels"])
    assert accuracy == pytest.approx(result["metrics"]["label_accuracy"])


@pytest.mark.smoke
def test_guarantees_name_unit_view_and_trust(run):
    found = run[2]["guarantees"]
    headline = found[0]
    assert (headline["unit"], headline["view"], headline["trust"]) == ("client", "output only", "trusted aggregator")
    assert headline["status"] == "proved"
    assert headline["epsilon"] <= 40
    assert {guarantee["unit"] for guarantee in found} == {"client", "record"}
    server = next(guarantee for guarantee in found if guarantee["view"] == "server's view")
    assert server["epsilon"] > headline["epsilon"]
    assert all(guarantee["sentence"] for guarantee in found)


@pytest.mark.smoke
def test_resuming_a_finished_run_changes_no_release(run):
    out, settings, result, _ = run
    before = {path: path.read_bytes() for path in (out / "clients").rglob("releases/*.npz")}
    again = simulate("pate-fl", settings, out, resume=True, progress=Silent())
    assert {path: path.read_bytes() for path in (out / "clients").rglob("releases/*.npz")} == before
    assert again["metrics"] == result["metrics"]


@pytest.mark.parametrize("method", ["standalone", "centralized"])
def test_baselines_have_the_same_result_format(method, tmp_path):
    result = run_here(method, small_settings(get_method(method).settings), tmp_path / "r")
    kind = "server_accuracy" if method == "centralized" else "client_accuracy"
    value = result["metrics"][kind]
    assert (value["mean"] if isinstance(value, dict) else value) > 0.8
    assert result["guarantees"][0]["status"] == "none"


def _broken_client(settings, root: Path, context: Context):
    """A real client, damaged in its own way by its number."""
    client_id = client_number(context)
    client = make_client("pate-fl", settings, root, client_id)
    good = client.fit

    def fit(parameters, config):
        if client_id == 0:
            raise RuntimeError("a client's program broke")
        if client_id == 1:
            config = {**config, "fingerprint": "sha256:other"}
        if client_id == 2:
            client.answer = lambda arrays, config: (_ for _ in ()).throw(ValueError("record 17 of patient X"))
        arrays, n, metrics = good(parameters, config)
        if client_id == 3:
            arrays = [np.full((300, 10), np.nan)]
        if client_id == 4:
            arrays = [arrays[0][:10]]
        if client_id == 5:
            metrics["client_id"] = 6
        return arrays, n, metrics

    client.fit = fit
    return client


BROKEN = {"epsilon": 40, "clients": 12, "student": "argmax"}


def test_broken_clients_are_counted_and_the_run_goes_on(tmp_path):
    out, settings = tmp_path / "r", small_settings(PateSettings, BROKEN, {"min_clients": 6})
    folder = RunFolder.open(out, "pate-fl", settings, resume=False)
    side, api = make_server(get_method("pate-fl"), settings, folder, workers=2, progress=Silent()), flower_api()
    run_simulation(
        server_app=api.server_app(lambda context: side),
        client_app=api.client_app(partial(_broken_client, settings, out / "clients")),
        num_supernodes=12,
        backend_config={"init_args": {"num_cpus": 1}, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    result = side.recorder.result
    assert result["status"] == "done"
    assert result["clients"]["answered"] == 6
    rejected = result["clients"]["rejected"]
    assert rejected == {
        "no answer": 1,
        "fingerprint": 1,
        "raised": 1,
        "non-finite": 1,
        "shape": 1,
        "duplicate": 1,
    }
    told = json.dumps(result["clients"]["first_details"])
    assert "patient" not in told
    assert "patient" in (tmp_path / "r" / "clients" / "00002" / "errors.txt").read_text()


def test_too_many_broken_clients_are_a_clear_error(tmp_path):
    out, settings = tmp_path / "r", small_settings(PateSettings, BROKEN, {"min_clients": 10})
    with pytest.raises(RunError, match="only 6 of 12 clients"):
        run_here("pate-fl", settings, out, client=partial(_broken_client, settings, out / "clients"))
    result = json.loads((out / "result.json").read_text())
    assert result["status"] == "failed"
    assert "min_clients" in result["error"]


SLOW = {**SMALL, "clients": 16, "client_models": "tests.held:make", "epsilon": "40"}


@pytest.fixture
def held(tmp_path, monkeypatch):
    """While this file is there, runs beside it wait once two clients have answered."""
    path = tmp_path / "hold"
    hold(path)
    monkeypatch.setenv(HOLD, str(path))
    return path


def command(out: Path, **values: str) -> list[str]:
    words = [part for key, value in {**SLOW, **values}.items() for part in ("--set", f"{key}={value}")]
    return ["run", "pate-fl", "--out", str(out), "--quiet", *words]


def started(out: Path, **values: str) -> subprocess.Popen[str]:
    """A run whose second client has just answered."""
    process = subprocess.Popen(
        [sys.executable, "-m", "fedballot.cli", *command(out, **values)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 240
    while len(list((out / "clients").glob("*/ledger/releases/*.npz"))) < 2:
        assert process.poll() is None, "the run ended before it could be stopped"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def resume(out: Path, held: Path) -> None:
    """Take the run up, in this process."""
    held.unlink()
    ended = fedballot(*command(out), "--resume")
    assert ended.returncode == 0, ended.stderr


def test_a_run_that_is_told_to_end_says_so_and_goes_on_later(tmp_path, held):
    out = tmp_path / "r"
    process = started(out)
    process.terminate()
    words = process.communicate(timeout=60)[1]
    result = json.loads((out / "result.json").read_text())
    assert (process.returncode, result["status"]) == (130, "stopped")
    assert "--resume" in words and "--resume" in result["error"]
    answered = {path: path.read_bytes() for path in out.glob("clients/*/ledger/releases/*.npz")}
    assert 2 <= len(answered) < 16
    resume(out, held)
    assert json.loads((out / "result.json").read_text())["status"] == "done"
    assert all(path.read_bytes() == content for path, content in answered.items())


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc for the processes of a run")
def test_a_run_whose_ray_dies_ends(tmp_path, held):
    out = tmp_path / "r"
    process = started(out, engine="ray", workers="1")
    table = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in table.splitlines()]
    (raylet,) = (int(pid) for pid, parent, name in rows if int(parent) == process.pid and name == "raylet")
    for one in (raylet, *(int(pid) for pid, parent, _ in rows if int(parent) == raylet)):
        os.kill(one, signal.SIGKILL)
    words = process.communicate(timeout=240)[1]  # not round_timeout_s, an hour
    assert process.returncode == 1 and "error:" in words
    assert json.loads((out / "result.json").read_text())["status"] == "failed"


def test_a_killed_run_is_readable_and_resumes_without_retraining(tmp_path, held):
    out = tmp_path / "r"
    process = started(out)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert json.loads((out / "result.json").read_text())["status"] == "running"
    kept = {path: path.read_bytes() for path in out.glob("clients/*/ledger/releases/*.npz")}
    models = {path: path.stat().st_mtime_ns for path in out.glob("clients/*/model")}
    assert 2 <= len(kept) < 16
    resume(out, held)
    assert json.loads((out / "result.json").read_text())["status"] == "done"
    assert all(path.read_bytes() == content for path, content in kept.items())
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in models.items())
    assert len(list(out.glob("clients/*/ledger/releases/*.npz"))) == 16


@pytest.mark.parametrize(
    "change",
    [
        {"clients": 1, "private_size": 100},
        {"partition": "classes-per-client", "classes_per_client": 1, "clients": 10},
        {"queries": 50},
        {"epsilon": "inf"},
        {"vote_fraction": 1, "abstain": "false", "student": "argmax"},
        {"passes": 2},
        {"noise_seed": 3},
        {"sigma": 30, "student": "propagated"},
        {"epochs": 0, "server_epochs": 0, "client_models": "cnn-small", "server_model": "cnn"},
    ],
    ids=lambda change: "-".join(change),
)
def test_corners_run(change, tmp_path):
    settings = small_settings(PateSettings, {"epsilon": 40, "clients": 3, "evaluate_clients": "false"}, change)
    result = run_here("pate-fl", settings, tmp_path / "r")
    assert result["status"] == "done"
    assert 0 <= result["metrics"]["server_accuracy"] <= 1
    assert result["metrics"]["client_accuracy"] is None
    headline = result["guarantees"][0]
    if change.get("epsilon") == "inf":
        assert (headline["epsilon"], headline["status"]) == (None, "none")
        assert result["communication"]["bytes_up"] == 3 * (128 + 150)
    if "noise_seed" in change:
        assert headline["status"] == "seeded"
        assert "NOT PRIVATE" in headline["sentence"]


def test_two_classes_and_one_file_per_client(tmp_path):
    """Real tabular data with two classes, each client its own CSV file, three kinds of models."""
    x, y = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(0)
    order, x = rng.permutation(len(y)), (x - x.mean(axis=0)) / x.std(axis=0)
    names = [f"f{column}" for column in range(x.shape[1])]
    parts = np.array_split(order[:300], 3)
    for client, rows in enumerate([*parts, order[300:]]):
        turned = rng.permutation(len(names))  # every file has its columns in an order of its own
        lines = [",".join(["label", *(names[column] for column in turned), "Unnamed: 0"])]
        lines += [
            ",".join([("malignant", "benign")[y[row]], *map(str, x[row][turned]), str(number)])
            for number, row in enumerate(rows)
        ]
        (tmp_path / ("public.csv" if client == 3 else f"site{client}.csv")).write_text("\n".join(lines))
    settings = build(
        PateSettings,
        {
            "dataset": str(tmp_path / "site*.csv"),
            "public_dataset": str(tmp_path / "public.csv"),
            "partition": "by-group",
            "clients": 3,
            "public_size": 150,
            "test_size": 100,
            "client_models": "logistic-regression,random-forest,knn",
            "server_model": "logistic-regression",
            "epsilon": "inf",
            "abstain": "false",
            "workers": 2,
        },
    )
    result = run_here("pate-fl", settings, tmp_path / "run")
    assert result["classes"] == ["benign", "malignant"]
    assert result["metrics"]["server_accuracy"] > 0.8
    assert any("'Unnamed: 0' is left out" in warning for warning in result["warnings"])
    assert len(read_schema(tmp_path / "run" / "schema.toml").columns) == 30
    assert (tmp_path / "run" / "preparation.skops").exists()


def test_settings_that_cannot_work_are_refused_before_anything_starts(tmp_path):
    for change, words in (
        ({"public_size": 3000}, "1,797|1797"),
        ({"client_models": "cnn-smal"}, "cnn-small"),
    ):
        with pytest.raises(SettingsError, match=words):
            simulate("pate-fl", small_settings(PateSettings, change), tmp_path / "r", resume=False, progress=Silent())
        assert not (tmp_path / "r" / "clients").exists()


class Heard(Callback):
    """What a tracker is told."""

    def __init__(self):
        self.told = []

    def run_started(self, folder, result):
        self.told.append("started")


class NoClassifier:
    """A model that cannot learn from anything."""

    def fit(self, x, y):
        raise ValueError("not today")

    def predict_proba(self, x):
        return np.ones((len(x), 2))


@pytest.mark.parametrize(
    ("method", "changed"),
    [
        ("fedauxfdp-sum", {"epsilon": "1e9"}),
        ("fedauxfdp-sum", {"embedding": "pca", "dimension": "65"}),
        ("fedauxfdp", {"epsilon": "1e-300"}),
        ("fedauxfdp", {"server_model": f"{__name__}:NoClassifier"}),
        ("fedaux", {"score_epsilon": "1e-300", "client_models": "mlp-torch", "extractor": "pca"}),
        ("private-knn-fl", {"sigma": "1e-9"}),
        ("dp-fedavg", {"noise_multiplier": "1e-9", "client_models": "linear-torch"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_a_run_that_fails_before_anybody_is_asked_leaves_nothing(method, changed, tmp_path):
    kind, heard = get_method(method).settings, Heard()
    given = {**SMALL, "client_models": "logistic-regression", **changed}
    settings = build(kind, fitting(kind, given))
    name = "server_model" if "server_model" in changed else list(changed)[-1 if "dimension" in changed else 0]
    with pytest.raises(SettingsError, match=f"^{name}="):
        simulate(
            method,
            settings,
            tmp_path / "r",
            resume=False,
            progress=Silent(),
            callbacks=Callbacks([CsvTracker(), heard]),
        )
    assert not (tmp_path / "r").exists() and heard.told == []


def test_a_run_that_was_there_before_keeps_its_folder(tmp_path):
    settings = small_settings(PateSettings, {"sigma": "1e-9"})
    RunFolder.open(tmp_path / "r", "pate-fl", settings, resume=False).save()
    with pytest.raises(SettingsError, match=r"^sigma="):
        simulate("pate-fl", settings, tmp_path / "r", resume=True, progress=Silent())
    assert json.loads((tmp_path / "r" / "result.json").read_text())["status"] == "failed"


@pytest.mark.parametrize(("method", "free"), [("fedauxfdp", True), ("ds-fl", False)])
def test_a_run_that_is_taken_up_is_told_what_it_can_change(method, free, tmp_path):
    reads = {} if free else {"server_features": "hog"}
    settings = build(get_method(method).settings, fitting(get_method(method).settings, SMALL), reads)
    changed, out = replace(settings, server_model="cnn-small"), tmp_path / "r"
    other = "student_reads=records" if free else "server_features empty"
    with pytest.raises(SettingsError, match=f"^server_model=cnn-small: .* With {other} it reads the records"):
        simulate(method, changed, out, resume=False, progress=Silent())
    RunFolder.open(out, method, settings, resume=False).save()
    (out / "checkpoint.npz").touch()  # all have answered
    says = r"^server_model=cnn-small: .*takes images.*; use [^;]*$" if free else "settings differ .*: server_model"
    with pytest.raises(SettingsError, match=says) as found:
        simulate(method, changed, out, resume=True, progress=Silent())
    assert "records themselves" not in str(found.value)
