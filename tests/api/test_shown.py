"""Objects show themselves in a notebook: a table, and a figure that is a whole picture."""

from __future__ import annotations

import base64
import io
import re
from html import escape
from pathlib import Path

import pytest
from PIL import Image

import fedballot as fb
from fedballot.studies.frontier import Spot
from fedballot.studies.sweep import Row
from tests.conftest import QUICK_RUN
from tests.inprocess import RunnerHere


def pictures(html: str) -> list[Image.Image]:
    found = re.findall(r'src="data:image/png;base64,([^"]+)"', html)
    return [Image.open(io.BytesIO(base64.b64decode(one))) for one in found]


def test_runs_comparisons_and_sweeps_show_a_table_and_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fedballot.studies.sweep.Runner", RunnerHere)
    sweep = fb.sweep("pate-fl", epsilon=[4, 8], **QUICK_RUN)  # in a folder of its own, as a run without `out`
    assert sweep.folder.parent == Path("sweeps") and (sweep.folder / "sweep.html").exists()
    result = sweep.results[0]
    html = result._repr_html_()
    assert result.guarantee is not None and "Server accuracy" in html
    assert escape(result.guarantee.sentence()) in html and not pictures(html)
    for shown, rows in ((fb.compare(sweep.results), 2), (sweep, 2)):
        html = shown._repr_html_()
        (picture,) = pictures(html)
        assert min(picture.size) > 200 and picture.convert("L").getextrema()[0] < 128
        assert html.count("<tr") == rows + 1


def test_a_frontier_shows_each_method_at_each_epsilon(tmp_path: Path) -> None:
    def spot(method: str, epsilon: float | None, accuracy: float) -> Spot:
        row = Row({}, 2, accuracy, 0.01, epsilon, None, 1e-5, "one client", None, (), ())
        return Spot(method, epsilon, {"vote_fraction": "0.3"}, (), row)

    spots = (spot("pate-fl", 1.0, 0.5), spot("pate-fl", 4.0, 0.75), spot("<own>", None, 0.875))
    html = fb.Frontier(tmp_path, spots, 2, {"pate-fl": "one client"})._repr_html_()
    (picture,) = pictures(html)
    assert min(picture.size) > 200 and picture.convert("L").getextrema()[0] < 128
    assert html.count("<tr") == 4 and "&lt;own&gt;" in html and "vote_fraction=0.3" in html


def test_a_plan_shows_its_charges_its_guarantee_and_its_figure() -> None:
    plan = fb.budget("pate-fl", epsilon=2, clients=20)
    html = plan._repr_html_()
    assert escape(plan.guarantee.sentence()) in html and len(pictures(html)) == 1


def test_what_a_run_without_a_result_says_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "a<b").mkdir()
    stopped = fb.Result(tmp_path / "a<b", {"status": "stopped", "method": "pate-fl", "settings": {}})
    assert "a&lt;b" in stopped._repr_html_() and "stopped" in stopped._repr_html_()
