"""Pages of sweeps, frontiers, plans and audits, and what can be taken away from a page."""

import base64
import csv
import html
import io
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedballot as fb
from fedballot.core.errors import SettingsError
from fedballot.privacy.audit.mechanisms import Finding
from fedballot.report.audit_page import audit_page
from fedballot.report.build import write_report
from fedballot.report.frontier_page import frontier_page
from fedballot.report.frontier_plot import fell_short, frontier_figure, given
from fedballot.report.measure_plots import STRONGEST, confusion_figure
from fedballot.report.palette import DARK, LIGHT, SERIES
from fedballot.report.plot import drawn
from fedballot.report.run_plots import per_class_figure
from fedballot.report.study import Study, write_study
from fedballot.report.sweep_page import sweep_page
from fedballot.report.sweep_plot import sweep_figure
from fedballot.report.tables import Table, to_csv, to_latex, to_markdown
from fedballot.studies.audit import AuditReport, Layer
from fedballot.studies.frontier import Spot
from fedballot.studies.sweep import Row
from tests.report.test_build import Page

MEANING = "one client (zero-out), seen: output only, trust: trusted aggregator; proved"


def row(values: dict[str, str], accuracy: float | None, epsilon: float | None, **more: Any) -> Row:
    kept = {"seeds": 2, "spread": 0.01, "claimed_epsilon": None, "delta": 1e-3, "meaning": MEANING}
    kept |= {"bytes_per_query": 10.0, "per_round": (), "failed": ()} | more
    return Row(values=values, accuracy=accuracy, epsilon=epsilon, **kept)


ROWS = [row({"epsilon": e, "clients": n}, float(e) / 20 + 0.1, float(e)) for e in ("1", "4") for n in ("10", "20")]


def spot(method: str, asked: float | None, has: float | None, accuracy: float, meaning: str = MEANING) -> Spot:
    return Spot(method, asked, {}, (), row({}, accuracy, has, meaning=meaning))


SPOTS = [
    spot("centralized", None, None, 0.97),
    spot("pate-fl", 1.0, 0.9999, 0.4),
    spot("pate-fl", 50.0, 8.93, 0.8),
    spot("fedkd-dp", 1.0, 1.0, 0.5),
    spot("fedkd-dp", 50.0, 50.0, 0.9),
]
UNITS = {"pate-fl": MEANING, "fedkd-dp": MEANING}
FINDING = Finding("two worlds", 1.0, 0.3, True)


def written(study: Study, path: Path) -> tuple[str, Page]:
    text = write_study(study, path).read_text(encoding="utf-8")
    assert "http:" not in text and "https:" not in text
    page = Page(text)
    assert not page.open and len(page.ids) == len(set(page.ids))
    assert all(value.startswith(("#", "data:")) for value in page.references)
    for whiskeredas in re.findall(r"<figure>.*?(<svg [^>]*>)", text, re.S):
        assert 'role="img"' in whiskeredas and re.search(r'aria-label="[^"]{10,}"', whiskeredas)
    return text, page


def files(text: str) -> dict[str, bytes]:
    """What a page carries, by name."""
    found = re.findall(r'<a href="data:[^;"]+(?:;charset=utf-8)?;base64,([^"]+)" download="([^"]+)"', text)
    return {name: base64.b64decode(content) for content, name in found}


def test_whiskers_end_within_the_axis() -> None:
    rows = [replace(one, spread=0.11) for one in ROWS]
    spots = [replace(one, measured=replace(one.measured, spread=0.06)) for one in SPOTS]
    for figure in (sweep_figure(rows), frontier_figure(spots, UNITS)):
        assert figure is not None
        whiskered = [axes for axes in figure.axes if axes.containers]
        assert whiskered
        for axes in whiskered:
            low, high = axes.get_ylim()
            ends = [y for bars in axes.containers for part in bars[2] for way in part.get_segments() for _, y in way]
            assert ends and low <= min(ends) and min(max(ends), 1) <= high


def test_a_method_without_noise_was_asked_for_infinity() -> None:
    bare = Spot("pate-fl", None, {}, (), row({"epsilon": "inf"}, 0.9, None))
    page = frontier_page([*SPOTS, bare], UNITS, 1)
    assert page.tables[0].rows[-1][:3] == ("pate-fl", "∞", "∞") and page.tables[0].rows[0][1] == "–"


def test_a_sweep_has_a_page_with_its_panels_and_cells(tmp_path: Path) -> None:
    text, _ = written(
        sweep_page("pate-fl demo", ROWS, "fedballot sweep pate-fl --set epsilon=1,4"), tmp_path / "s.html"
    )
    assert "2 values of epsilon and 2 values of clients, each with 2 seeds" in text
    assert "Accuracy over epsilon" in text and "Accuracy over clients" in text
    assert "fedballot sweep pate-fl --set epsilon=1,4" in text and "not private" not in text
    carried = files(text)
    assert {name.rpartition(".")[2] for name in carried} == {"svg", "pdf", "csv", "tex", "md"}
    assert all(content.startswith(b"%PDF") for name, content in carried.items() if name.endswith(".pdf"))
    assert all(b"<svg" in content for name, content in carried.items() if name.endswith(".svg"))
    (head, *lines) = csv.reader(io.StringIO(carried["sweep.csv"].decode()))
    assert head[:4] == ["epsilon", "clients", "runs", "accuracy"] and [line[0] for line in lines] == [
        "1",
        "1",
        "4",
        "4",
    ]


def test_seeded_and_failed_runs_of_a_sweep_are_named(tmp_path: Path) -> None:
    seeded = [replace(one, meaning=MEANING.replace("proved", "seeded")) for one in ROWS]
    assert "Seeded: not private" in written(sweep_page("x", seeded), tmp_path / "a.html")[0]
    failed = [row({"epsilon": "1"}, None, None, seeds=0, meaning="–", failed=("no room on the disk",))]
    text, _ = written(sweep_page("x", failed), tmp_path / "b.html")
    assert "1 runs failed, the first: no room on the disk" in text


def test_a_frontier_says_what_was_asked_and_what_was_given_and_why(tmp_path: Path) -> None:
    assert [given(one) for one in SPOTS[1:3]] == [0.9999, 8.93] and [fell_short(one) for one in SPOTS[1:]] == [
        False,
        True,
        False,
        False,
    ]
    figure = frontier_figure(SPOTS, UNITS)
    assert figure is not None
    assert [text.get_text() for text in figure.axes[0].texts] == ["asked 50, given 8.93"]
    whiskeredat = [list(map(float, line.get_xdata())) for line in figure.axes[0].lines if len(line.get_xdata()) == 2]
    assert [0.9999, 8.93] in whiskeredat and [1.0, 50.0] in whiskeredat
    text, _ = written(frontier_page(SPOTS, UNITS, 4), tmp_path / "f.html")
    assert "So of pate-fl (asked 50, given 8.93)" in text and "integer share" in text
    assert "integer share" not in written(frontier_page(SPOTS[:2], UNITS, 4), tmp_path / "g.html")[0]


def test_a_plan_has_a_page_whatever_the_method(tmp_path: Path) -> None:
    planned = fb.budget("pate-fl", budget=10.0, epsilon=1.0, clients=100)
    text = planned.write(tmp_path / "p.html").read_text()
    assert planned.guarantee.sentence() in html.unescape(text) and text.count("<figure>") == 3
    assert "σ = 60.4." in text and "Σ" not in text
    assert "Mironov" in files(text)["accountants.csv"].decode()
    other = fb.budget("fedauxfdp", facts={"classes": 10, "features": 64, "records": 100, "negatives": 100})
    assert "<figure>" not in other.write(tmp_path / "o.html").read_text()
    assert other.write(tmp_path / "o.tex").read_text().startswith("% \\usepackage{booktabs}")
    with pytest.raises(SettingsError, match="figure of noisy votes only"):
        other.write(tmp_path / "o.png")
    (tmp_path / "mine.html").write_text("of the user")
    with pytest.raises(SettingsError, match="none of fedballot"):
        other.write(tmp_path / "mine.html")


def test_an_audit_that_refutes_a_claim_says_so_first(tmp_path: Path) -> None:
    sound = AuditReport("pate-fl", 1.0, 1e-5, 2000, (Layer("votes", "mechanism", FINDING),))
    assert "stands" in written(audit_page(sound), tmp_path / "a.html")[0]
    broken = replace(sound, layers=(Layer("votes", "clients", replace(FINDING, found=3.0, passed=False)),))
    text, _ = written(audit_page(broken), tmp_path / "b.html")
    assert text.index("The claim is contradicted") < text.index("<h1>")


def test_a_run_s_page_carries_its_figures_and_tables(write_run: Callable[..., Path]) -> None:
    folder = write_run()
    quick, whole = files(write_report(folder).read_text()), files(write_report(folder, pdf=True).read_text())
    assert {"class.svg", "client.svg", "lead.svg"} <= {*quick} and not any(name.endswith(".pdf") for name in quick)
    assert {"class.svg", "class.pdf", "lead.pdf"} <= {*whole}


def test_signs_of_a_table_survive_every_format() -> None:
    table = Table("t", "c", ("name", "ε"), (("50 % of a_b & c | d", "1 ± 2"), ("10⁻³", "∞")), texts=(0,))
    assert next(csv.reader(io.StringIO(to_csv(table)))) == ["name", "ε"]
    assert to_markdown(table).splitlines()[2] == "| 50 % of a_b & c \\| d | 1 ± 2 |"
    latex = to_latex(table)
    assert r"50 \% of a\_b \& c | d & 1 $\pm$ 2 \\" in latex and r"10$^{-}$$^{3}$ & $\infty$ \\" in latex


@pytest.mark.parametrize("names", [["$a_$", "b$", "^$\\frac"], ["a very long name of a class indeed"] * 3, ["x"] * 3])
def test_names_of_classes_are_plain_text_and_no_warning_leaks(names: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for figure in (per_class_figure([0.1, 0.2, 0.3], names, 0.2), confusion_figure(np.eye(3, dtype=int), names)):
            plot = drawn("t", figure, "x", names[0], "", pdf=True)
            assert html.escape(names[0][:3]) in plot.svg


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """As WCAG 2.2 defines it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def over(colour: str, paper: str, opacity: float) -> str:
    mixed = (
        round(opacity * int(colour[place : place + 2], 16) + (1 - opacity) * int(paper[place : place + 2], 16))
        for place in (1, 3, 5)
    )
    return "#" + "".join(f"{one:02x}" for one in mixed)


def test_contrast_is_measured_as_wcag_does() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21) and contrast("#777777", "#ffffff") < 4.5


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_marks_can_be_told_from_the_paper(palette: dict[str, str]) -> None:
    paper = palette["paper"]
    texts = ("ink", "muted", "blue", "vermilion", "green", "purple", "amber", "red")
    assert min(contrast(palette[name], paper) for name in texts) >= 4.5  # WCAG AA, text
    marks = {*texts, "sky", "faint", *(name for name, _ in SERIES)}
    assert min(contrast(palette[name], paper) for name in marks) >= 3  # WCAG AA, what is not text
    for name in ("blue", "vermilion"):  # numbers on the cells of a confusion matrix
        assert contrast(palette["ink"], over(palette[name], paper, STRONGEST)) >= 4.5
