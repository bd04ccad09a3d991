"""How apps are started, and that a run whose app never begins fails with words."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from flwr.supercore.constant import TaskType
from flwr.supercore.superexec.executor import ExecutionSpec, LaunchResult, LaunchResultStatus

from fedballot.core.errors import RunError
from fedballot.core.progress import Silent
from fedballot.core.setting import build
from fedballot.datasets.own import SITES
from fedballot.deploy import submit
from fedballot.deploy.addresses import free_port
from fedballot.deploy.handover import TOKEN
from fedballot.deploy.server import init_server
from fedballot.deploy.superexec import TRIES, Starts
from fedballot.methods.registry import get_method
from tests.deploy.harness import FAULTY, RUN, Processes, listens, says, wait_until, write_data

APP = f"import os, sys, time; print(os.environ['{TOKEN}'], *sys.argv[1:], flush=True); time.sleep(float(sys.argv[1]))"


class Apps:
    """Starts processes as Flower's executor does: one that sleeps for each task."""

    def __init__(self, seconds: float = 60) -> None:
        self.seconds = seconds
        self.started: list[subprocess.Popen[bytes]] = []
        self.failed: list[str] = []
        self.starts = Starts(self._launch, self._fail)

    def _launch(self, executor: Any, spec: ExecutionSpec) -> LaunchResult:
        line = [sys.executable, "-c", APP, str(self.seconds), "--token", spec.token, "more"]
        self.started.append(self.starts.start(line, stdout=subprocess.PIPE))
        return LaunchResult.accepted()

    def _fail(self, spec: ExecutionSpec, words: str) -> LaunchResult:
        self.failed.append(words)
        return LaunchResult.failed(words)

    def launch(self, task: int, kind: TaskType = TaskType.SERVER_APP) -> LaunchResultStatus:
        spec = ExecutionSpec(kind, "localhost:1", "secret", True, None, False, None, False, task)
        return self.starts.launch(None, spec).status

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()


def test_an_app_gets_its_token_where_others_cannot_read_it() -> None:
    apps = Apps(0)
    apps.launch(1)
    assert apps.started[0].args == [sys.executable, "-c", APP, "0", "more"]
    assert apps.started[0].communicate(timeout=60)[0] == b"secret 0 more\n"


def test_an_app_started_again_takes_the_place_of_the_one_before_and_a_run_s_only_so_often() -> None:
    apps = Apps()
    try:
        assert [apps.launch(1) for _ in range(TRIES)] == [LaunchResultStatus.ACCEPTED] * TRIES
        assert [process.wait(30) for process in apps.started[:-1]] == [-9] * (TRIES - 1)
        assert apps.started[-1].poll() is None and not apps.failed
        assert apps.launch(2) == LaunchResultStatus.ACCEPTED and apps.started[TRIES - 1].poll() is None
        assert apps.launch(1) == LaunchResultStatus.FAILED and apps.started[TRIES - 1].wait(30) == -9
        assert apps.failed == [
            "flwr-serverapp has not begun in time: this machine is too busy, or the app ends at once; started 3 times"
        ]
        assert [apps.launch(3, TaskType.CLIENT_APP) for _ in range(TRIES + 1)] == [LaunchResultStatus.ACCEPTED] * 4
    finally:
        apps.end()


@pytest.mark.slow
def test_a_run_whose_app_never_begins_fails_with_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit, "ASK_S", 1.0)
    write_data(tmp_path)
    fleet, control = free_port(), free_port()
    server = init_server(tmp_path / "server", ("localhost",), control=f"127.0.0.1:{control}", insecure=True)
    processes = Processes(tmp_path)
    try:
        line = ("server", "start", server.path, "--fleet", f"127.0.0.1:{fleet}")
        processes.start("server", *line, env={**FAULTY, "FEDBALLOT_START_S": "2"})
        wait_until("SuperLink", lambda: listens(control), 200)
        (server.path / "bin" / "flwr-serverapp").write_text("#!/bin/sh\nexec sleep 600\n")
        values = {"dataset": SITES, **RUN, "public_dataset": str(tmp_path / "public.npz")}
        run = submit.submit(
            server, "pate-fl", build(get_method("pate-fl").settings, values), tmp_path / "run", resume=False
        )
        began = time.monotonic()
        with pytest.raises(RunError, match=r"flwr-serverapp has not begun in time: .* started 3 times"):
            submit.follow(server, run, Silent())
        assert time.monotonic() - began < 120
        assert says(processes.log("server"), "flwr-serverapp has not begun in time")
    finally:
        processes.kill_all()
