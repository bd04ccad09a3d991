"""The timeline on a run's page."""

import re
from typing import Any

import pytest

from fedballot.report.build import write_report
from fedballot.report.timeline import timeline_figure, timeline_of, timeline_plot


def with_times(result: dict[str, Any], compute_s: float | None = 9.0) -> dict[str, Any]:
    """Two rounds of six seconds each by two workers, a second of the server's work behind each, four of training."""
    first, timing = result["rounds"][0], result["timing"]
    rounds = [
        first
        | {"round": n, "wall_s": 6.0, "began_s": 2.0 + 8 * (n - 1), "ended_s": 10.0 + 8 * (n - 1)}
        | {"server_s": 1.0, "compute_s": compute_s}
        for n in (1, 2)
    ]
    return result | {"rounds": rounds, "timing": timing | {"wall_s": 25.0, "distill_s": 4.0, "workers": 2}}


def test_the_timeline_says_who_worked_when(result: dict[str, Any]) -> None:
    found = timeline_of(with_times(result))
    assert found is not None
    one, two = found.rounds
    assert (one.asked, one.began, one.answered, one.ended) == (3.0, 3.0, 9.0, 10.0)  # workers had to start
    assert (two.asked, two.began, two.answered, two.ended) == (10.0, 11.0, 17.0, 18.0)
    assert one.busy == two.busy == pytest.approx(9 / 12)
    assert (found.trained, found.rest_s, found.end) == (22.0, 3.0, 25.0)
    (axes,) = timeline_figure(found).axes
    assert axes.get_xlim() == (0.0, 25.0)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["server", "clients", "round"]


def test_its_words_name_each_colour(result: dict[str, Any]) -> None:
    plot, sites = timeline_plot(with_times(result)), timeline_plot(with_times(result, None))
    assert plot is not None and sites is not None
    caption = plot.caption.replace("\u202f", " ")
    assert caption.startswith("Amber: the start, 3 s; blue: 2 rounds of the clients, 13 s, filled")
    assert "(69 % of their time" in caption and caption.endswith("own work, 6 s; grey: the rest, 3 s.")
    assert 'aria-label="Timeline of server and clients. amber' in plot.svg and "var(--blue)" in plot.svg
    assert "do not tell how long they worked" in sites.caption


def test_a_page_has_it_where_the_record_says_when_rounds_were(result: dict[str, Any], write_run: Any) -> None:
    known = with_times(result)
    page = write_report(write_run("new", rounds=known["rounds"], timing=known["timing"])).read_text()
    assert "Timeline" in page and not re.search(r'class="bar"', page)
    old = write_report(write_run("old")).read_text()
    assert "Timeline" not in old and re.search(r'class="bar"', old)
    assert timeline_of(result | {"rounds": []}) is None


def test_a_run_that_stood_still_ends_with_its_work(result: dict[str, Any]) -> None:
    known = with_times(result)
    found = timeline_of(known | {"timing": known["timing"] | {"wall_s": 5.0}})  # of the last start
    assert found is not None and found.end == found.trained == 22.0
