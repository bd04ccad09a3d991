"""The command and a worker that dies, or a signal that stops it: words, a status, and a run that goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import fedballot
from tests.conftest import SMALL

LEARNER = """
import contextlib, multiprocessing, os, pathlib, signal, time
from sklearn.linear_model import LogisticRegression

class Once(LogisticRegression):
    def fit(self, *given, **named):
        run, mine = multiprocessing.parent_process(), pathlib.Path(f"fault-{os.getpid()}")
        if run is not None:
            with contextlib.suppress(FileNotFoundError):  # two workers: one takes it
                pathlib.Path("fault").rename(mine)
        if mine.exists():
            fault = mine.read_text()
            os.kill(run.pid if fault == "SIGTERM" else os.getpid(), getattr(signal, fault))
            time.sleep(100)
        return super().fit(*given, **named)

def make(n_classes):
    return Once(max_iter=200)
"""


@pytest.mark.parametrize(
    ("fault", "code", "status", "words"),
    [
        ("SIGKILL", 1, "failed", "was killed by signal 9 (Killed) while client "),
        ("SIGTERM", 130, "stopped", "stopped; go on with: fedballot run pate-fl "),
    ],
)
def test_a_run_ends_in_words_and_goes_on(
    tmp_path: Path, fault: str, code: int, status: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "once.py").write_text(LEARNER)
    (tmp_path / "fault").write_text(fault)
    values = {**SMALL, "client_models": "once:make", "epsilon": 40, "engine": "local"}
    pairs = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    command = ["run", "pate-fl", "--out", "run", *pairs]
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{tmp_path}", "COLUMNS": "400"}

    def result() -> dict[str, object]:
        return dict(json.loads((tmp_path / "run" / "result.json").read_text()))

    first = subprocess.run(
        [sys.executable, "-m", "fedballot", *command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert first.returncode == code and words in first.stderr and "Traceback" not in first.stderr, first.stderr
    assert "--resume" in first.stderr and result()["status"] == status
    before = {path: path.read_bytes() for path in tmp_path.glob("run/clients/*/ledger/releases/*.npz")}
    monkeypatch.syspath_prepend(tmp_path)
    second = fedballot(*command, "--resume", cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    assert result()["clients"] == {"asked": 8, "answered": 8, "rejected": {}, "first_details": {}}
    assert all(path.read_bytes() == content for path, content in before.items())
