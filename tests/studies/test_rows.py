"""Rows of the results pages: each can run as it stands, and what is measured again is told from what is stored."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fedballot as fb
from fedballot.api.experiment import resolve
from fedballot.api.reproducing import takes
from fedballot.cli.main import app
from fedballot.core.errors import SettingsError
from fedballot.studies.rows import check_seeds, difference, stored_row, stored_rows
from fedballot.studies.sweep import Row

DOCS = Path(__file__).parents[2] / "docs"
MEASURED = Row({}, 3, 0.93, 0.01, 0.9, None, 1e-5, "one record", None, (), ())


@pytest.mark.parametrize("name", stored_rows())
def test_every_row_stands_on_its_page_and_can_run(name: str, tmp_path: Path) -> None:
    row = stored_row(name)
    assert resolve(row.method, dict(row.settings or {}), row.preset).clients >= 2
    assert re.search(rf"[`\s]{re.escape(name)}`", (DOCS / row.page).read_text())
    assert (row.minutes or 1) > 0 and (row.memory_gb or 1) > 0 and row.seeds > 0
    assert [point.folder.name for point in row.points(2, tmp_path)] == ["seed=0", "seed=1"]


def test_a_difference_is_told_from_the_seeds_spread() -> None:
    row = replace(stored_row("digits"), accuracy=92.0, spread=0.5)
    found = difference(row, MEASURED)
    assert found is not None and found.within and found.points == pytest.approx(1)
    assert found.sentence() == "+1.0 points against the stored row: within the seeds' spread (±2.2)"
    far = difference(replace(row, accuracy=96.0), MEASURED)
    assert far is not None and not far.within and far.sentence().startswith("−3.0 points")
    alone = difference(row, replace(MEASURED, spread=None))  # of one run nothing is known, not that it never varies
    assert alone is not None and alone.allowed == pytest.approx(2 * math.sqrt(2) * 0.5)
    assert difference(replace(row, accuracy=None), MEASURED) is None
    assert difference(row, replace(MEASURED, accuracy=None)) is None


def test_what_a_row_takes_is_told_beforehand() -> None:
    row = replace(stored_row("digits"), minutes=30, memory_gb=2)
    assert takes(row, 3).replace("\u202f", " ") == "digits: 3 runs to do, about 1 h 30 min on two cores, 2 GB of memory"
    assert takes(replace(row, minutes=None), 1).endswith("of memory (time not measured yet)")


@pytest.mark.parametrize(("given", "words"), [(("digit",), "did you mean 'digits'"), (("digits", 0), "at least 1")])
def test_what_is_no_row_is_refused(given: tuple[str, ...], words: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=words):
        fb.reproduce(given[0], seeds=given[1] if given[1:] else None, out=tmp_path)  # type: ignore[arg-type]


def test_the_command_lists_all_rows(capsys: pytest.CaptureFixture[str]) -> None:
    app(["reproduce", "--json"], standalone_mode=False)
    assert {row["name"] for row in json.loads(capsys.readouterr().out)} == {*stored_rows()}
    app(["reproduce"], standalone_mode=False)
    assert "digits" in capsys.readouterr().out


@pytest.mark.slow
def test_a_row_runs_goes_on_and_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = fb.reproduce("digits", seeds=1, out=tmp_path, progress=False)
    assert done.difference is not None and done.memory_gb is not None and done.memory_gb > 0.05
    assert done.measured.accuracy is not None and done.measured.accuracy > 0.5  # chance is .1
    kept = json.loads((tmp_path / "row.json").read_text())
    assert kept["measured"]["accuracy"] == done.measured.accuracy and kept["sentence"] == done.sentence
    page = (tmp_path / "row.md").read_text()
    assert done.sentence[1:] in page and "fedballot reproduce digits --seeds 1 --out" in page
    first = (tmp_path / "seed=0" / "result.json").read_bytes()
    app(["reproduce", "digits", "--seeds", "2", "--out", str(tmp_path)], standalone_mode=False)
    assert (tmp_path / "seed=0" / "result.json").read_bytes() == first
    assert "2 |" in (tmp_path / "row.md").read_text() and "stored" in capsys.readouterr().out
    assert "digits" in done._repr_html_()


@pytest.mark.parametrize("seeds", ["3", 2.5, True, 0])
def test_a_number_of_runs_is_a_whole_one(seeds: Any) -> None:
    with pytest.raises(SettingsError, match="expected a whole number, at least 1"):
        check_seeds(seeds)
