"""Callbacks and trackers of experiments: real runs, and what the libraries themselves read back."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import struct
import subprocess
import sys
import time
import urllib.request
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fedballot as fb
from fedballot.api.experiment import resolve
from fedballot.api.trackers import TRACKERS, final_figures, parameters, trackers
from fedballot.methods.registry import all_methods, get_method
from fedballot.runs.engine import federated_data, new_strategy

ROUNDS = 3  # of fedmd: the first consensus, and two more
PRIVATE: dict[str, Any] = {
    "dataset": "digits",
    "private_size": 400,
    "public_size": 100,
    "test_size": 100,
    "clients": 6,
    "client_models": "logistic-regression",
    "server_model": "logistic-regression",
    "workers": 1,
    "progress": False,
}
MANY: dict[str, Any] = {**PRIVATE, "rounds": ROUNDS - 1, "client_models": ["logistic-regression"]}
del MANY["server_model"]


def needs(module: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"{module} is not installed")


class Diary(fb.Callback):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def run_started(self, folder: Path, result: Mapping[str, Any]) -> None:
        self.seen.append(("started", result["status"], result["guarantees"]))

    def round_ended(self, number: int, record: Mapping[str, Any]) -> None:
        self.seen.append(("round", number, record))

    def run_ended(self, folder: Path, result: Mapping[str, Any]) -> None:
        assert (folder / "report.html").exists()
        self.seen.append(("ended", result))

    def run_failed(self, folder: Path, result: Mapping[str, Any]) -> None:
        self.seen.append(("failed", result["status"], result["error"]))


class Broken(fb.Callback):
    def round_ended(self, number: int, record: Mapping[str, Any]) -> None:
        raise OSError("the tracker's disk is full")


def test_a_callback_hears_the_start_each_round_and_the_end(tmp_path: Path) -> None:
    diary = Diary()
    done = fb.run("fedmd", out=tmp_path / "r", callbacks=[diary], **MANY)
    assert [one[0] for one in diary.seen] == ["started", *["round"] * ROUNDS, "ended"]
    assert diary.seen[0][1] == "running" and diary.seen[-1][1] == done.values
    assert [one[1] for one in diary.seen[1:-1]] == [1, 2, 3]
    for (_, _, told), written in zip(diary.seen[1:-1], done.values["rounds"], strict=True):
        assert {**written, "metrics": told["metrics"]} == told and set(told["metrics"]) <= set(written["metrics"])


def test_one_that_raises_is_warned_of_once_and_the_run_goes_on(tmp_path: Path) -> None:
    diary = Diary()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        done = fb.run("fedmd", out=tmp_path / "r", callbacks=[Broken(), diary], **MANY)
    about = [str(one.message) for one in caught if "dropped" in str(one.message)]
    assert about == ["Broken is dropped, the run goes on: OSError: the tracker's disk is full"]
    assert done.status == "done" and len(diary.seen) == 2 + ROUNDS


def test_a_run_that_fails_says_so_and_one_that_is_taken_up_tells_all_rounds(tmp_path: Path) -> None:
    class Stop(Diary):
        def round_ended(self, number: int, record: Mapping[str, Any]) -> None:
            super().round_ended(number, record)
            if number == 2:
                raise KeyboardInterrupt

    first, again = Stop(), Diary()
    with pytest.raises(KeyboardInterrupt):
        fb.run("fedmd", out=tmp_path / "r", callbacks=[first], **MANY)
    assert first.seen[-1][:2] == ("failed", "stopped")
    fb.run("fedmd", out=tmp_path / "r", resume=True, callbacks=[again], **MANY)
    assert [one[1] for one in again.seen if one[0] == "round"] == [1, 2, 3] and again.seen[-1][0] == "ended"


def test_the_planned_guarantee_is_told_before_the_first_client_is_asked(tmp_path: Path) -> None:
    diary = Diary()
    done = fb.run("pate-fl", out=tmp_path / "r", callbacks=[diary], epsilon=8, **PRIVATE)
    (first, *_) = diary.seen[0][2]
    assert first["unit"] == "client" and done.guarantee is not None
    assert first["epsilon"] == pytest.approx(done.guarantee.epsilon)


def test_what_is_logged_stands_in_the_result_and_names_no_single_client(tmp_path: Path) -> None:
    done = fb.run("fedmd", out=tmp_path / "r", track="csv", **MANY)
    rows = pd.read_csv(tmp_path / "r" / "track.csv", dtype={"value": str})
    said = {what: part.set_index("name")["value"] for what, part in rows.groupby("what")}
    assert said["setting"]["clients"] == "6" and said["setting"]["method"] == "fedmd"
    assert said["guarantee"]["guarantee.status"] == "none"
    assert float(said["final"]["client_accuracy.mean"]) == done.metrics["client_accuracy"]["mean"]
    assert rows[rows["what"] == "round"]["round"].astype(int).unique().tolist() == [1, 2, 3]
    assert said["run"]["status"] == "done"
    assert not rows[rows["what"] != "setting"]["name"].str.contains("per_client").any()
    assert set(said["setting"].index) == set(parameters(done.values))
    text = json.dumps(done.values)
    assert all(json.dumps(value) in text for value in final_figures(done.values).values() if value % 1)


def test_names_that_are_none_are_refused_before_a_run(tmp_path: Path) -> None:
    with pytest.raises(fb.SettingsError, match="must be one of csv, tensorboard, mlflow, wandb"):
        fb.run("fedmd", out=tmp_path / "r", track="neptune", **MANY)
    assert not (tmp_path / "r").exists() and trackers("") == []
    for name, (_, module) in TRACKERS.items():
        if importlib.util.find_spec(module) is None:
            with pytest.raises(fb.SettingsError, match=rf"fedballot\[{name}\]"):
                trackers(name)


@needs("tensorboardX")
@needs("tensorboard")
def test_tensorboard_reads_its_files(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    done = fb.run("pate-fl", out=tmp_path / "r", track="tensorboard", epsilon=8, **PRIVATE)
    board = EventAccumulator(str(tmp_path / "r" / "tensorboard"))
    board.Reload()
    (final,) = board.Scalars("final/server_accuracy")
    assert final.value == pytest.approx(done.accuracy)
    assert [one.step for one in board.Scalars("round/answered")] == [1]
    words = board.Tensors("guarantee/in words/text_summary")[0].tensor_proto.string_val[0].decode()
    assert done.guarantee is not None and words == done.guarantee.sentence()
    assert "| clients | 6 |" in board.Tensors("settings/text_summary")[0].tensor_proto.string_val[0].decode()


@pytest.fixture
def mlflow_server(tmp_path: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = f"sqlite:///{tmp_path / 'mlflow.db'}"
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", place, "--port", str(port)]
    command += ["--artifacts-destination", str(tmp_path / "artifacts"), "--workers", "1"]
    with (tmp_path / "server.log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{url}/health", timeout=1)
                break
            except OSError:
                assert server.poll() is None, (tmp_path / "server.log").read_text()
                time.sleep(0.5)
        yield url
    finally:
        os.killpg(server.pid, 15)
        server.wait(30)


@pytest.mark.slow
@needs("mlflow")
@needs("sqlalchemy")
def test_an_mlflow_server_holds_each_run_of_a_sweep(
    tmp_path: Path, mlflow_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_server)
    grid = fb.sweep("pate-fl", out=tmp_path / "s", track="mlflow", epsilon=[4, 8], **PRIVATE)
    client = MlflowClient(mlflow_server)
    place = client.get_experiment_by_name("fedballot")
    held = {run.data.params["epsilon"]: run for run in client.search_runs([place.experiment_id])}
    assert set(held) == {"4.0", "8.0"} and {run.info.status for run in held.values()} == {"FINISHED"}
    for result in grid.results:
        run = held[str(result.settings["epsilon"])]
        assert run.data.metrics["final.server_accuracy"] == pytest.approx(result.accuracy)
        assert run.data.tags["guarantee.unit"] == "client" and run.data.tags["guarantee.status"] == "proved"
        assert result.guarantee is not None
        assert run.data.tags["guarantee.sentence"] == result.guarantee.sentence()
        assert float(run.data.tags["guarantee.epsilon"]) == result.guarantee.epsilon
        assert [one.path for one in client.list_artifacts(run.info.run_id)] == ["report.html"]
        assert [one.step for one in client.get_metric_history(run.info.run_id, "answered")] == [1]


@pytest.mark.slow
@needs("mlflow")
def test_a_server_that_is_not_there_does_not_cost_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with pytest.warns(RuntimeWarning, match="MlflowTracker is dropped"):
        assert fb.run("fedmd", out=tmp_path / "r", track="mlflow", **MANY).status == "done"


def log_records(content: bytes, start: int, block: int = 32768) -> Iterator[bytes]:
    """The records of a LevelDB log, which a .wandb file is after its header."""
    place, parts = 0, b""
    while place + 7 <= len(content):
        left = block - (place + start) % block
        if left < 7:
            place += left
            continue
        _, size, kind = struct.unpack_from("<IHB", content, place)
        parts += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


@pytest.mark.slow
@needs("wandb")
def test_weights_and_biases_offline_is_read_back(tmp_path: Path) -> None:
    from wandb.proto import wandb_internal_pb2

    done = fb.run("fedmd", out=tmp_path / "r", track="wandb", **MANY)
    (path,) = (tmp_path / "r" / "wandb").glob("offline-run-*/*.wandb")
    records = []
    for data in log_records(path.read_bytes()[7:], 7):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        records.append(record)
    rounds = [
        {(item.key or item.nested_key[0]): json.loads(item.value_json) for item in one.history.item}
        for one in records
        if one.WhichOneof("record_type") == "history"
    ]
    assert [one["round/answered"] for one in rounds] == [6, 6, 6]
    summary = {
        (item.key or ".".join(item.nested_key)): json.loads(item.value_json)
        for one in records
        if one.WhichOneof("record_type") == "summary"
        for item in one.summary.update
    }
    assert summary["client_accuracy.mean"] == pytest.approx(done.metrics["client_accuracy"]["mean"])
    assert list((path.parent / "files").glob("report.html"))


@pytest.mark.parametrize("name", sorted(all_methods()))
def test_every_method_states_its_guarantee_before_it_runs(name: str) -> None:
    sizes = {"private_size": 1200, "public_size": 300, "test_size": 200, "clients": 3}
    settings = resolve(name, {"dataset": "digits", **sizes})
    strategy = new_strategy(get_method(name), settings, federated_data(settings), request_id="r")
    assert all(one.worded()["mechanism"] for one in strategy.guarantees())


def test_a_poll_is_a_run_that_says_whether_the_pool_fits(tmp_path: Path) -> None:
    sizes = {"private_size": 1200, "public_size": 300, "test_size": 200, "clients": 12, "workers": 1}
    said = fb.poll(tmp_path / "p", dataset="digits", epsilon=8, track="csv", progress=False, **sizes)
    assert said.verdict in said.values["metrics"]["poll"]["verdict"] and said.advice
    cells = said.cells()
    assert len(cells) == len(said.metrics["poll"]["cells"]) and cells["pool"].sum() == pytest.approx(1)
    assert (tmp_path / "p" / "track.csv").exists() and isinstance(said, fb.Result)
