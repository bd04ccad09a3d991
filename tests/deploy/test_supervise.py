"""What a supervised process says, and that its death and that of its starter are seen."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedballot.core.errors import RunError
from fedballot.deploy.supervise import relayed, run_supervised


def test_colours_go_where_nobody_looks_at_a_terminal() -> None:
    line = b"\x1b[92mINFO \x1b[0m:      fedballot: answered r/1\n"
    assert relayed(line, "text", coloured=True) == line
    assert relayed(line, "text", coloured=False) == b"INFO :      fedballot: answered r/1\n"


@pytest.mark.parametrize(
    ("line", "level", "text"),
    [
        (b"\x1b[93mWARNING \x1b[0m:   fedballot: refused \xc3\xa9\n", "WARNING", "fedballot: refused é"),
        (b"ERROR:     it broke: why: \xff\n", "ERROR", "it broke: why: �"),
        (b"plain words: INFO: not a level\n", "INFO", "plain words: INFO: not a level"),
    ],
)
def test_a_line_as_json(line: bytes, level: str, text: str) -> None:
    told = json.loads(relayed(line, "json", coloured=False))
    assert (told["level"], told["text"]) == (level, text) and told["time"].endswith("+00:00")
    assert relayed(b"\n", "json", coloured=False) == b""


def test_words_and_the_exit_code_come_back(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    line = [sys.executable, "-c", "print('INFO :  one'); print('two'); raise SystemExit(3)"]
    ended = run_supervised(line, dict(os.environ), words=b"two", log="json")
    assert (ended.code, ended.said) == (3, True)
    told = [json.loads(one) for one in capfdbinary.readouterr().out.splitlines()]
    assert [one["text"] for one in told] == ["one", "two"]


def test_a_starter_that_dies_ends_its_process(tmp_path: Path) -> None:
    note, starter = tmp_path / "pids", "# from fedballot.deploy.superexec import main\nimport time; time.sleep(600)"
    script = (
        "import pathlib, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {starter!r}])\n"
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid))\n"
        "time.sleep(600)"
    )
    killer = (
        "import os, pathlib, time\n"
        f"note = pathlib.Path({str(note)!r})\n"
        "while not note.exists() or not note.read_text(): time.sleep(.05)\n"
        "time.sleep(2.5)\n"
        "os.kill(int(note.read_text()), 9)"
    )
    with subprocess.Popen([sys.executable, "-c", killer]) as other:
        began = time.monotonic()
        with pytest.raises(RunError, match="flower-superexec, which starts the apps, has died"):
            run_supervised([sys.executable, "-c", script], dict(os.environ))
        assert other.wait() == 0 and time.monotonic() - began < 60
