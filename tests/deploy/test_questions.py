"""Flower's own command, asked more than once by one process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import psutil
import pytest

from fedballot.core.errors import RunError
from fedballot.deploy import flower
from fedballot.deploy.questions import Questions
from tests.deploy.harness import wait_until

LIMIT_S = 180.0

ASKS = """
import os, sys
from fedballot.deploy.questions import Questions
questions = Questions(os.environ)
questions.ask(["--version"], 180)
print(questions._process.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Questions]:
    asked = Questions(flower.environment(tmp_path_factory.mktemp("flwr")))
    yield asked
    asked.end()
    assert not asked.lives


def test_words_errors_and_exit_codes_come_back_and_no_question_changes_the_next(questions: Questions) -> None:
    for _ in range(2):
        told = questions.ask(["--version"], LIMIT_S)
        assert version("flwr") in told.out and (told.error, told.code) == ("", 0)
        wrong = questions.ask(["no-such-command"], LIMIT_S)
        assert "no-such-command" in wrong.error and (wrong.out, wrong.code) == ("", 2)


def test_one_that_is_killed_or_too_slow_is_told_and_another_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text('[superlink.fedballot]\naddress = "127.0.0.1:9"\ninsecure = true\n')
    first = flower._questions(tmp_path)
    os.kill(first._process.pid, signal.SIGSTOP)
    monkeypatch.setattr(flower, "COMMAND_TIMEOUT_S", 0.1)
    with pytest.raises(RunError, match=r"`flwr supernode list`: no answer from the server in 0\.1 s"):
        flower.ask(tmp_path, "supernode", "list")
    assert not first.lives
    second = flower._questions(tmp_path)
    os.kill(second._process.pid, signal.SIGKILL)
    with pytest.raises(EOFError):
        second.ask(["--version"], LIMIT_S)
    assert not second.lives and flower._questions(tmp_path) not in (first, second)
    flower._questions(tmp_path).end()


def test_it_ends_with_whoever_asks() -> None:
    with subprocess.Popen([sys.executable, "-c", ASKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as asking:
        assert asking.stdout is not None
        process = psutil.Process(int(asking.stdout.readline()))
        asking.kill()
    wait_until("the end", lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, 60)
