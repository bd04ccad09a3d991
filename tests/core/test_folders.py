"""The run's folder: new, resumed, refused."""

import dataclasses
import os

import pytest

from fedballot.core.errors import DataError, SettingsError
from fedballot.core.folders import RunFolder
from fedballot.core.setting import Settings, setting


@dataclasses.dataclass(frozen=True)
class Asked(Settings):
    """Settings of a run."""

    clients: int = setting(3, "how many")
    workers: int = setting(1, "how many at once", reads="machine")


def test_a_new_folder_is_recorded_and_can_be_taken_up(tmp_path):
    first = RunFolder.open(tmp_path / "r", "pate-fl", Asked(3, 1), resume=False)
    assert not (tmp_path / "r").exists()
    first.save()
    again = RunFolder.open(tmp_path / "r", "pate-fl", Asked(3, 2), resume=True)
    assert again.request == first.request
    other = RunFolder.open(tmp_path / "s", "pate-fl", Asked(3), resume=False)
    assert other.request != first.request


@pytest.mark.parametrize(
    ("method", "settings", "resume", "words"),
    [
        ("pate-fl", Asked(3), False, "--resume"),
        ("standalone", Asked(3), True, "holds a run of pate-fl"),
        ("pate-fl", Asked(4), True, r"clients \(3 there\)"),
    ],
)
def test_another_run_is_refused(tmp_path, method, settings, resume, words):
    RunFolder.open(tmp_path / "r", "pate-fl", Asked(3), resume=False).save()
    with pytest.raises(SettingsError, match=words):
        RunFolder.open(tmp_path / "r", method, settings, resume=resume)


def test_a_folder_that_cannot_be_made_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"--out .*file/run: cannot be written: Not a directory"):
        RunFolder.open(tmp_path / "file" / "run", "pate-fl", Asked(), resume=False).save()


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(SettingsError, match="holds no fedballot run"):
        RunFolder.open(tmp_path, "pate-fl", Asked(), resume=False)
    with pytest.raises(DataError):
        RunFolder.read(tmp_path)


def test_what_a_start_has_left_that_died_before_its_record_was_there_is_in_nobody_s_way(tmp_path, monkeypatch):
    class Died(BaseException):
        pass

    def die(*_):
        raise Died

    run = RunFolder.open(tmp_path, "pate-fl", Asked(), resume=False)
    monkeypatch.setattr(os, "replace", die)
    monkeypatch.setattr(os, "unlink", die)
    with pytest.raises(Died):
        run.save()
    monkeypatch.undo()
    assert len(list(tmp_path.iterdir())) == 1
    RunFolder.open(tmp_path, "pate-fl", Asked(), resume=False).save()


@pytest.mark.parametrize("record", ["{}", "[]", "{"])
def test_a_damaged_record_is_named(tmp_path, record):
    (tmp_path / "run.json").write_text(record)
    with pytest.raises(DataError, match=r"run\.json"):
        RunFolder.read(tmp_path)
