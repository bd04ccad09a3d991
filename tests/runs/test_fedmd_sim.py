"""FedMD: models of every kind in one federation, and a kill -9 that loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fedballot.core.files import read_arrays
from fedballot.core.setting import build
from fedballot.settings.fedmd import NfdpSettings
from tests.conftest import fitting
from tests.inprocess import run_here

pytestmark = pytest.mark.slow

DIGITS = {
    "dataset": "digits",
    "clients": 4,
    "private_size": 400,
    "public_size": 200,
    "test_size": 200,
    "client_models": "cnn-small,logistic-regression,mlp-torch,random-forest",
    "server_model": "logistic-regression",
    "queries": 100,
    "rounds": 3,
    "pretrain_epochs": 5,
    "epochs": 6,
    "batch_size": 16,
    "public_batch_size": 16,
    "share": "softmax",
    "k": 60,
    "noise_seed": 3,
    "workers": 2,
}


def settings() -> NfdpSettings:
    return build(NfdpSettings, fitting(NfdpSettings, DIGITS))


def command(out: Path) -> list[str]:
    assignments = [part for key, value in fitting(NfdpSettings, DIGITS).items() for part in ("--set", f"{key}={value}")]
    return [sys.executable, "-m", "fedballot.cli", "run", "fedmd-nfdp", "--out", str(out), "--quiet", *assignments]


def killed_after_round(out: Path, number: int) -> None:
    process = subprocess.Popen(command(out), start_new_session=True)
    try:
        deadline = time.monotonic() + 240
        while not list(out.glob(f"clients/*/run-*/model-{number + 1}")):
            assert process.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()


def test_a_killed_run_resumes_after_its_last_round_and_ends_as_the_uninterrupted_one(tmp_path):
    whole = run_here("fedmd-nfdp", settings(), tmp_path / "whole")
    assert whole["status"] == "done"
    assert whole["metrics"]["client_accuracy"]["mean"] > 0.45  # .71 seen
    assert all(value > 0.2 for value in whole["metrics"]["accuracy_per_client"])  # each kind of model
    assert whole["clients"]["answered"] == 16
    out = tmp_path / "r"
    killed_after_round(out, 2)
    assert json.loads((out / "result.json").read_text())["status"] == "running"
    ledgers = {path: path.read_bytes() for path in out.glob("clients/*/ledger/ledger.jsonl")}
    assert len(ledgers) == 4
    resumed = run_here("fedmd-nfdp", settings(), out, resume=True)
    assert [record["round"] for record in resumed["rounds"]] == [1, 2, 3, 4]
    assert resumed["metrics"] == whole["metrics"]
    consensus = [read_arrays(path / "release.npz")["consensus"] for path in (tmp_path / "whole", out)]
    assert np.array_equal(*consensus)
    assert {path: path.read_bytes() for path in ledgers} == ledgers
