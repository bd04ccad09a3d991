"""The plot of a run of many rounds."""

from pathlib import Path
from typing import Any

import numpy as np

from fedballot.report.build import write_report
from fedballot.report.rounds_plot import rounds_figure
from fedballot.report.view import accuracy_plots


def with_rounds(result: dict[str, Any], history: list[list[float | None]]) -> dict[str, Any]:
    first = result["rounds"][0]
    rounds = [first | {"round": n, "metrics": {"accuracy_per_client": v}} for n, v in enumerate(history, 1)]
    return result | {"rounds": rounds}


def test_every_client_has_a_line_and_the_mean_is_that_of_those_who_took_part() -> None:
    lines = rounds_figure([[0.2, 0.4], [0.5, None], [0.6, 0.8]]).axes[0].get_lines()
    assert len(lines) == 3
    assert np.allclose(np.asarray(lines[-1].get_ydata()), [0.3, 0.5, 0.7])


def test_the_page_shows_rounds_where_there_are_several(result: dict[str, Any]) -> None:
    plots = accuracy_plots(with_rounds(result, [[0.25, 0.5], [0.5, None]]))
    assert [plot.title for plot in plots] == ["By class", "By client", "By round"]
    assert "37.5" in plots[-1].caption and "50" in plots[-1].caption
    for history in ([[0.5, 0.5]], [[0.5, 0.5], [None, None]]):
        assert "By round" not in [plot.title for plot in accuracy_plots(with_rounds(result, history))]


def test_a_page_with_rounds_can_be_written(result: dict[str, Any], write_run: Any) -> None:
    folder: Path = write_run(rounds=with_rounds(result, [[0.2, 0.3], [0.4, 0.5]])["rounds"])
    assert "By round" in write_report(folder).read_text()


def test_the_page_shows_the_server_s_rounds(result: dict[str, Any]) -> None:
    first = result["rounds"][0]
    rounds = [first | {"round": n, "metrics": {"server_accuracy": v}} for n, v in enumerate((0.25, 0.5, 0.75), 1)]
    plots = accuracy_plots(result | {"rounds": rounds})
    assert plots[-1].title == "The server by round" and plots[-1].caption.startswith("25")
    (line,) = rounds_figure([[0.25], [0.5], [0.75]], "server").axes[0].get_lines()
    assert np.allclose(np.asarray(line.get_ydata()), [0.25, 0.5, 0.75])
    rounds[1]["metrics"] = {}
    assert "The server by round" not in [plot.title for plot in accuracy_plots(result | {"rounds": rounds})]
