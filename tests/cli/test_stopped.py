"""Ctrl-C, wherever it falls: a word, exit code 130, no traceback, and how to go on where there is something to."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.test_first import write_table
from tests.held import HOLD, hold

FEDBALLOT = [sys.executable, "-m", "fedballot"]
FOREST = "client_models=random-forest(n_estimators=60)"


def start(words: list[str], folder: Path) -> subprocess.Popen[str]:
    """A process in a group of its own, as a shell starts one; its output goes to one file."""
    root = str(Path(__file__).parents[2])
    return subprocess.Popen(
        words,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": root, "COLUMNS": "200"},
        start_new_session=True,
        stdout=(folder / "said").open("w"),
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        text=True,
    )


def interrupted(words: list[str], folder: Path, begun: Path, holds: str) -> str:
    """What a command has said that got Ctrl-C as soon as a file holds these words."""
    process = start(words, folder)
    deadline = time.monotonic() + 120
    while not (begun.exists() and holds in begun.read_text()):
        assert process.poll() is None and time.monotonic() < deadline, (folder / "said").read_text()
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    code = process.wait(60)
    while time.monotonic() < deadline:  # what it has started may write for as long as it lives
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    said = (folder / "said").read_text()
    assert code == 130 and "stopped" in said and "Traceback" not in said, said
    return said


@pytest.mark.parametrize("module", ["typer", "fedballot.settings.layers", "fedballot.methods.registry"])
def test_while_it_imports(tmp_path, module):
    script = tmp_path / "script.py"
    script.write_text(
        "import signal, sys\n"
        "from fedballot.cli.__main__ import main\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}:\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.argv = ['fedballot', 'methods']\n"
        "main()\n"
    )
    process = start([sys.executable, str(script)], tmp_path)
    assert process.wait(60) == 130
    assert (tmp_path / "said").read_text() == "stopped\n"


def test_before_a_run_has_begun_there_is_nothing_to_go_on_with(tmp_path):
    write_table(tmp_path / "cancer.csv", "label")
    sizes = ("clients=4", "private_size=200", "public_size=200", "test_size=100", "workers=2", "engine=local")
    words = [word for one in ("dataset=cancer.csv", FOREST, *sizes) for word in ("--set", one)]
    said = interrupted(
        [*FEDBALLOT, "run", "pate-fl", *words, "--out", "own"], tmp_path, tmp_path / "said", "reading settings"
    )
    assert (tmp_path / "own" / "run.json").exists() or "go on" not in said


def test_the_process_that_forks_workers_says_nothing_while_it_imports(tmp_path):
    (tmp_path / "slow.py").write_text("import pathlib, time\npathlib.Path('begun').write_text('slow')\ntime.sleep(1)\n")
    (tmp_path / "script.py").write_text(
        "import os, time\n"
        "from fedballot.runs.workers import prepare\n"
        "prepare(['slow'])\n"
        "try:\n"
        "    time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped', flush=True)\n"
        "    os._exit(130)\n"
    )
    assert interrupted([sys.executable, "script.py"], tmp_path, tmp_path / "begun", "slow") == "stopped\n"


@pytest.mark.slow
def test_try_says_how_the_run_under_way_goes_on(tmp_path, monkeypatch):
    held = tmp_path / "hold"
    hold(held)
    monkeypatch.setenv(HOLD, str(held))
    models = ("client_models=tests.held:make", "server_model=logistic-regression")
    words = [word for one in models for word in ("--set", one)]
    write_table(tmp_path / "cancer.csv", "label")
    begun = tmp_path / "of mine" / "pate-fl" / "run.json"
    said = interrupted([*FEDBALLOT, "try", "cancer.csv", *words, "--out", "of mine"], tmp_path, begun, "pate-fl")
    held.unlink()
    command = shlex.split(said.rpartition("go on with: fedballot ")[2])
    assert command[:2] == ["run", "pate-fl"] and command[-1] == "--resume"
    assert start([*FEDBALLOT, *command], tmp_path).wait(120) == 0
    assert (begun.parent / "report.html").exists()
