"""Runs side by side, and that unlike guarantees are kept apart."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.transforms import Bbox
from PIL import Image

from fedballot.core.errors import DataError, SettingsError
from fedballot.core.numbers import NBSP
from fedballot.report.canvas import canvas, style
from fedballot.report.compare import compare
from fedballot.report.compare_page import compare_table, paper_table, write_compare
from fedballot.report.compare_plot import (
    bytes_figure,
    comparison_figure,
    privacy_figure,
    series,
    setting_figure,
    shown,
)
from fedballot.report.groups import lines_of
from fedballot.report.labels import label

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
    kinds = series(found.groups)
    assert kinds[found.groups[0].kind] == kinds[found.groups[1].kind]
    assert len({kinds[found.groups[i].kind] for i in (0, 2, 3)}) == 3
    assert found.groups[3].kind is found.groups[4].kind is None  # one without a finite ε promises as much as none
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
    rows = compare(runs).groups
    figure = privacy_figure(rows)
    assert figure is not None
    axes = figure.axes[0]
    marked = [line for line in axes.lines if line.get_marker() in ("o", "s", "^", "X")]
    points = {(round(float(x), 3), float(y)) for line in marked for x, y in zip(*line.get_data(), strict=True)}
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
    assert "http:" not in text and "https:" not in text
    assert all(value.startswith(("#", "data:")) for value in re.findall(r'(?:href|src)="([^"]*)"', text))
    assert text.count("<svg viewBox") == 3


@pytest.fixture
def grid(write_run: Write, result: dict[str, Any]) -> list[Path]:
    """Three epsilons with two seeds each, and a seeded run."""

    def one(name: str, epsilon: float, seed: int, accuracy: float, **changes: Any) -> Path:
        settings = result["settings"] | {"epsilon": epsilon, "seed": seed} | changes.pop("more", {})
        first = result["guarantees"][0] | {"epsilon": epsilon} | changes
        metrics = result["metrics"] | {"server_accuracy": accuracy}
        return write_run(name, arrays=None, settings=settings, seed=seed, metrics=metrics, guarantees=[first])

    values = [(1.0, 0.5), (4.0, 0.75), (16.0, 0.875)]
    runs = [one(f"e{e:g}-{seed}", e, seed, a + seed / 16) for e, a in values for seed in (0, 1)]
    return [*runs, one("seeded", 4.0, 0, 0.8, status="seeded", more={"noise_seed": 3})]


def test_runs_that_differ_in_their_seed_are_one_row_with_its_spread(grid: list[Path]) -> None:
    groups = compare(grid).groups
    assert [len(group.rows) for group in groups] == [2, 2, 2, 1]
    assert groups[0].over_seeds("server_accuracy") == (0.53125, 0.03125) and groups[3].over_seeds("accuracy")[1] is None
    assert groups[0].written("server_accuracy").replace(NBSP, " ") == "53.1 % ± 3.1"
    assert {"epsilon", "noise_seed"} == {*groups[0].differs}
    (line,) = lines_of(groups)
    assert line.setting == "epsilon" and line.values == (1.0, 4.0, 16.0)
    figure = setting_figure([line])
    assert figure is not None and np.allclose(figure.axes[0].lines[0].get_ydata(), [0.53125, 0.78125, 0.90625])


def test_presets_are_a_column_where_runs_differ_in_them(grid: list[Path], write_run: Write, tmp_path: Path) -> None:
    assert "preset" not in compare(grid).groups[0].differs and "preset" not in compare_table(compare(grid)).head
    runs = [*grid[:2], write_run("named", arrays=None, preset="demo", settings={"epochs": 5, "seed": 0})]
    found = compare(runs)
    assert [group.differs["preset"] for group in found.groups][-1] == "demo"
    assert compare_table(found).head[3] == "preset" and "preset" not in paper_table(found).head
    assert '<td data-value="demo">demo</td>' in write_compare(runs, tmp_path / "compare.html").read_text()


def test_a_seeded_run_stands_with_those_that_protect_nobody(grid: list[Path], tmp_path: Path) -> None:
    groups = compare(grid).groups
    figure = privacy_figure(groups)
    assert figure is not None
    places = {text.get_text(): text.xy[0] for text in figure.axes[0].texts}
    ticks = dict(
        zip((one.get_text() for one in figure.axes[0].get_xticklabels()), figure.axes[0].get_xticks(), strict=True)
    )
    assert places["4"] == ticks["none"] > places["3"] > places["2"] == pytest.approx(4.0)
    assert groups[3].kind is None and series(groups)[None] == ("muted", "X")
    page = write_compare(grid, tmp_path / "page.html").read_text()
    assert "✖</span> nobody" in page


def test_servers_and_clients_have_axes_of_their_own(write_run: Write, result: dict[str, Any], tmp_path: Path) -> None:
    metrics = result["metrics"] | {"server_accuracy": None, "client_accuracy": {"mean": 0.4, "std": 0.1}}
    alone = write_run("alone", arrays=None, method="standalone", metrics=metrics, guarantees=[])
    groups = compare([write_run("votes"), alone]).groups
    assert [group.name for group in shown(groups, "server")] == ["votes"]
    assert [group.name for group in shown(groups, "clients")] == ["alone"]
    assert len(comparison_figure(groups).axes) == 4
    page = write_compare([tmp_path / "votes", alone], tmp_path / "p.html").read_text()
    assert "Server accuracy and bytes" in page and "Clients’ own accuracy and bytes" in page


@given(st.lists(st.tuples(st.floats(0.1, 100), st.floats(0.5, 0.9)), min_size=1, max_size=12, unique=True))
@settings(max_examples=10, deadline=None)
def test_labels_do_not_overlap(points: list[tuple[float, float]]) -> None:
    with style():
        figure, axes = canvas(3.6)
        axes.set_xscale("log")
        axes.set_xlim(0.05, 200)
        axes.set_ylim(0.45, 0.95)
        label(figure, axes, [(x, y, str(place)) for place, (x, y) in enumerate(points, 1)])
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in axes.texts]
    for place, one in enumerate(boxes):
        for other in boxes[place + 1 :]:
            shared = Bbox.intersection(one, other)
            assert shared is None or shared.width * shared.height < 0.3 * one.width * one.height


def test_tables_are_written_as_their_ending_says(grid: list[Path], tmp_path: Path) -> None:
    csv = write_compare(grid, tmp_path / "t.csv")
    frame = pd.read_csv(csv)
    assert list(frame.columns[:5]) == ["run", "method", "status", "ε asked", "noise seed"] and len(frame) == 4
    assert frame["accuracy"][0].replace(NBSP, " ") == "53.1 % ± 3.1"
    markdown = write_compare(grid, tmp_path / "t.md").read_text().splitlines()
    assert len({line.count("|") for line in markdown}) == 1 and len(markdown) == 6
    latex = write_compare(grid, tmp_path / "t.tex").read_text()
    assert r"53.1 \% $\pm$ 3.1" in latex and latex.count(r"\\") == 5 and r"$\varepsilon$" in latex
    write_compare(grid, csv)
    (tmp_path / "mine.csv").write_text("of the user")
    with pytest.raises(SettingsError, match="none of fedballot"):
        write_compare(grid, tmp_path / "mine.csv")


def test_a_paper_s_table_has_what_a_paper_shows(
    write_run: Write, result: dict[str, Any], runs: list[Path], tmp_path: Path
) -> None:
    settings, first = result["settings"], result["guarantees"][0]
    bare = {"unit": "client", "epsilon": None, "delta": 1e-3, "status": "none"}
    more = [
        write_run("a", settings=settings | {"workers": 2, "epsilon": 4.0}),
        write_run("b", settings=settings | {"workers": 3, "noise_seed": 1}, guarantees=[first | {"status": "seeded"}]),
        write_run("c", settings=settings | {"epsilon": "inf"}, guarantees=[first | bare]),
    ]
    lines = write_compare(more, tmp_path / "t.md").read_text().splitlines()
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    assert head == ["method", "ε asked", "accuracy", "ε", "δ", "unit", "bytes up"]
    cells = [dict(zip(head, row, strict=True)) for row in rows]
    assert [one["unit"] for one in cells] == ["client (zero-out)", "nobody (seeded)", "–"]
    assert [one["δ"] for one in cells] == ["0.001", "0.001", "–"] and cells[2]["ε"] == "∞"
    latex = write_compare(runs, tmp_path / "t.tex").read_text()  # of several kinds, and one that failed
    assert r"what $\varepsilon$ speaks of" in latex and "trust: " in latex and "broken (failed)" in latex
    page = write_compare(more[2:], tmp_path / "t.html").read_text()
    assert re.search(r'data-label="δ"[^>]*>–<', page)


def test_picture(runs: list[Path], tmp_path: Path) -> None:
    with Image.open(write_compare(runs, tmp_path / "compare.png")) as picture:
        assert picture.format == "PNG" and picture.width > 1000


def test_runs_that_cannot_be_plotted_are_still_listed(runs: list[Path], tmp_path: Path) -> None:
    rows = compare(runs[-1:]).groups
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
