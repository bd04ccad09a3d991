"""Runs side by side, and that unlike guarantees are kept apart."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from fedballot.core.errors import DataError, SettingsError
from fedballot.report.compare import compare, write_compare
from fedballot.report.compare_plot import bytes_figure, comparison_figure, privacy_figure, series

Write = Callable[..., Path]


@pytest.fixture
def runs(write_run: Write, result: dict[str, Any]) -> list[Path]:
    first = result["guarantees"][0]

    def one(name: str, accuracy: float, up: int, guarantees: list[dict[str, Any]], **changes: Any) -> Path:
        metrics = result["metrics"] | {"server_accuracy": accuracy}
        sent = {"bytes_up": up, "bytes_down": 0, "messages": 2}
        return write_run(
            name, arrays=None, method=name, metrics=metrics, communication=sent, guarantees=guarantees, **changes
        )

    return [
        one("pate-fl", 0.975, 980_000, [first]),
        one("pate-small", 0.968, 980_000, [first | {"epsilon": 1.0}]),
        one("fedmd-nfdp", 0.91, 4_000_000, [first | {"epsilon": 0, "delta": 0.0625, "unit": "record"}]),
        one("fedkd", 0.93, 8_000_000, [first | {"epsilon": None, "status": "paper's claim"}]),
        one("centralized", 0.985, 0, []),
        one("broken", 0.5, 10, [], status="failed", error="stopped"),
    ]


def test_rows_hold_the_first_guarantee(runs: list[Path]) -> None:
    rows = compare(runs).rows
    assert [row.name for row in rows] == [path.name for path in runs]
    assert [row.number for row in rows] == [1, 2, 3, 4, 5, 6]
    first = rows[0]
    assert (first.server_accuracy, first.epsilon, first.delta, first.unit) == (0.975, 4.3, 1e-3, "client")
    assert (first.guarantee_status, first.bytes_up, first.wall_s) == ("proved", 980_000, 52.1)
    assert rows[4].epsilon is None and rows[4].meaning is None


def test_unlike_guarantees_get_their_own_colour_and_a_warning(runs: list[Path]) -> None:
    found = compare(runs)
    kinds = series(found.rows)
    assert kinds[found.rows[0].meaning] == kinds[found.rows[1].meaning]
    assert len({kinds[found.rows[i].meaning] for i in (0, 2, 3)}) == 3
    assert found.rows[3].meaning is found.rows[4].meaning is None  # one without a finite ε promises as much as none
    text = " ".join(found.notes)
    assert "different kinds" in text and "different δ" in text
    assert "centralized" in text and "broken (failed)" in text
    assert not compare(runs[:2]).notes


@pytest.mark.parametrize("key", ["unit", "adjacency", "view", "trust", "status"])
def test_each_part_of_a_guarantee_sets_runs_apart(write_run: Write, result: dict[str, Any], key: str) -> None:
    first = result["guarantees"][0]
    found = compare([write_run("a"), write_run("b", guarantees=[first | {key: "another"}])])
    assert any("different kinds" in note for note in found.notes)


def test_weak_bounds_and_large_deltas_are_named(write_run: Write, result: dict[str, Any], tmp_path: Path) -> None:
    first = result["guarantees"][0]
    weak = write_run("weak", guarantees=[first | {"epsilon": 100.0}])
    shamed = write_run("shamed", guarantees=[first | {"epsilon": 0.5, "delta": 0.01}])
    strong = write_run("strong", guarantees=[first | {"epsilon": 0.5}])
    found = compare([weak, shamed, strong])
    assert any("excludes next to nothing: weak." in note for note in found.notes)
    assert any("at least 1/n" in note and note.endswith(": shamed.") for note in found.notes)
    assert [row.tone for row in found.rows] == ["bad", "warn", "good"]
    page = write_compare([weak, shamed, strong], tmp_path / "page.html").read_text()
    assert re.findall(r'class="badge (\w+)">proved', page) == ["bad", "warn", "good"]


@pytest.mark.parametrize("change", [{"status": "none", "epsilon": None}, {"status": "seeded"}])
def test_what_guarantees_nothing_protects_nobody(
    write_run: Write, result: dict[str, Any], tmp_path: Path, change: dict[str, Any]
) -> None:
    run = write_run("bare", guarantees=[result["guarantees"][0] | change])
    page = write_compare([run], tmp_path / "page.html").read_text()
    cell = re.search(r'<td data-label="Protects">(.*?)</td>', page, re.S)
    assert cell is not None and "nobody" in cell[1] and "one client" not in cell[1]


def test_seeded_runs_are_named(write_run: Write, result: dict[str, Any]) -> None:
    found = compare([write_run("tests-only", guarantees=[result["guarantees"][0] | {"status": "seeded"}])])
    assert any("Not private" in note and "tests-only" in note for note in found.notes)


def test_plots_show_finished_runs_at_their_place(runs: list[Path]) -> None:
    rows = compare(runs).rows
    figure = privacy_figure(rows)
    assert figure is not None
    axes = figure.axes[0]
    points = {(round(float(x), 3), float(y)) for line in axes.lines for x, y in zip(*line.get_data(), strict=True)}
    assert {(4.3, 0.975), (1.0, 0.968)} <= points and len(points) == 5
    left = min(x for x, _ in points)
    assert (left, 0.91) in points and left < 1.0
    ticks = [label.get_text() for label in axes.get_xticklabels()]
    assert ticks[-2:] == ["0", "none"] and axes.get_xscale() == "log"
    other = bytes_figure(rows)
    assert other is not None and other.axes[0].get_xscale() == "log"
    names = {text.get_text() for text in axes.texts}
    assert "6" not in names


def test_page_is_self_contained(runs: list[Path], tmp_path: Path) -> None:
    text = write_compare(runs, tmp_path / "out" / "compare.html").read_text(encoding="utf-8")
    assert all(name in text for name in ("pate-fl", "fedmd-nfdp", "centralized", "failed"))
    assert "http:" not in text and "https:" not in text and "<script" not in text
    assert all(value.startswith(("#", "data:")) for value in re.findall(r'(?:href|src)="([^"]*)"', text))
    assert text.count("<svg viewBox") == 3


def test_picture(runs: list[Path], tmp_path: Path) -> None:
    with Image.open(write_compare(runs, tmp_path / "compare.png")) as picture:
        assert picture.format == "PNG" and picture.width > 1000


def test_runs_that_cannot_be_plotted_are_still_listed(runs: list[Path], tmp_path: Path) -> None:
    rows = compare(runs[-1:]).rows
    assert privacy_figure(rows) is None and bytes_figure(rows) is None
    comparison_figure(rows)
    assert "broken" in write_compare(runs[-1:], tmp_path / "one.html").read_text()
    baseline = write_compare(runs[4:5], tmp_path / "two.html").read_text()
    assert "nobody" in baseline


def test_errors_name_what_is_missing(runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere"):
        compare([runs[0], tmp_path / "nowhere"])
    with pytest.raises(DataError, match=r"no result\.json"):
        compare([tmp_path])
    with pytest.raises(SettingsError, match="at least one run folder"):
        compare([])
    with pytest.raises(SettingsError, match=r"\.html, \.png"):
        write_compare(runs, tmp_path / "compare.gif")
    assert not (tmp_path / "compare.gif").exists()
