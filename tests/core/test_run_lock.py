"""One process at a time works on a run."""

import subprocess
import sys
from pathlib import Path

import pytest

from fedballot.core.errors import RunError, SettingsError
from fedballot.core.folders import RunFolder
from fedballot.settings.parts import CommonSettings

HOLD = """
import sys, time
from fedballot.core.folders import RunFolder
from pathlib import Path
with RunFolder.read(Path(sys.argv[1])).held():
    print("held", flush=True)
    time.sleep(600)
"""


def opened(path: Path) -> RunFolder:
    return RunFolder.open(path, "pate-fl", CommonSettings(), resume=True)


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    run = opened(tmp_path / "run")
    run.save()
    holder = subprocess.Popen([sys.executable, "-c", HOLD, run.path], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout and holder.stdout.readline() == "held\n"
        with pytest.raises(RunError, match="another process works on this run"), run.held():
            pass
    finally:
        holder.kill()  # as a crash: the lock goes with it
        holder.wait()
    with run.held():
        pass


def test_a_folder_that_stays_empty_is_taken_away(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="broke off"), opened(tmp_path / "run").held():
        raise ValueError("broke off")
    assert not (tmp_path / "run").exists()
    with opened(tmp_path / "run").held():
        opened(tmp_path / "run")  # what holds the lock is no content


def test_a_run_that_began_meanwhile_is_not_taken_for_ours(tmp_path: Path) -> None:
    ours, theirs = opened(tmp_path / "run"), opened(tmp_path / "run")
    theirs.save()
    with pytest.raises(SettingsError, match="another run began there"), ours.held():
        pass
    with theirs.held():
        pass
