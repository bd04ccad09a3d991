"""`report.html` of one run: a single file, nothing fetched from outside."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedballot.core.files import write_atomic
from fedballot.privacy.words import adjacency_note
from fedballot.report import measures, view
from fedballot.report.again import changed_settings, command, made, preset_of
from fedballot.report.beside import beside_plot, beside_table, load_beside
from fedballot.report.html import write_page
from fedballot.report.pictures import pictures
from fedballot.report.poll_plot import poll_figure
from fedballot.report.poll_view import poll_view
from fedballot.report.spent import ledger_table
from fedballot.report.timeline import timeline_plot
from fedballot.runs.results import Release, load_release, load_result

# What a run that is not done may lack.
_EMPTY: dict[str, Any] = {
    "error": None,
    "started": "",
    "classes": [],
    "rounds": [],
    "guarantees": [],
    "warnings": [],
    **{key: {} for key in ("unread", "metrics", "communication", "clients", "timing", "versions", "made", "data")},
}
NESTED = ("server_measures", "poll")  # measures that have a section of their own


def write_report(run_dir: Path, *, pdf: bool = False, beside: Sequence[Path] = ()) -> Path:
    """Write `report.html` into a run folder.

    Parameters
    ----------
    run_dir : Path
        Folder with `result.json` and, for methods that release votes, `release.npz`.
    pdf : bool
        Whether figures can be taken away as PDF too, not only as SVG; each takes a tenth of a second.
    beside : sequence of Path
        Runs on the same data to stand beside this one, such as `standalone` and `centralized`.

    Returns
    -------
    Path
        The page, written atomically; of a poll, `poll.png` beside it. A running or failed run gets a page that says so.

    Raises
    ------
    DataError
        The folder holds no usable result (see `load_result` and `load_release`).
    SettingsError
        A run beside it is not done, or had other data.
    """
    run_dir = Path(run_dir)
    result = _EMPTY | load_result(run_dir)
    others = load_beside(run_dir, result, beside)
    # A release beside an unfinished result is an earlier run's, or not whole.
    release = load_release(run_dir) if result["status"] == "done" else Release()
    classes = [str(name) for name in result["classes"]]
    poll = poll_view(result, release, pdf=pdf)
    values = {
        "result": result,
        "name": run_dir.resolve().name,
        "summary": view.summary(result, release),
        "key_settings": view.key_settings(result),
        "headlines": [*poll.headlines, *view.headlines(result)],
        "poll": poll,
        "guarantees": view.guarantee_rows(result),
        "adjacency_note": adjacency_note(result["guarantees"]),
        "seeded": view.is_seeded(result),
        "beside_plot": beside_plot(result, others, pdf=pdf),
        "beside_table": beside_table(result, others),
        "accuracy_plots": view.accuracy_plots(result, pdf=pdf),
        "plain_metrics": {key: value for key, value in result["metrics"].items() if key not in NESTED},
        "class_table": measures.class_table(result),
        "measure_plots": measures.measure_plots(result, pdf=pdf),
        "lead_plot": view.lead_plot(result, release, pdf=pdf),
        "pictures": pictures(release, classes),
        "n_clients": view.client_count(result),
        "time_parts": view.time_parts(result),
        "timeline": timeline_plot(result, pdf=pdf),
        "preset": preset_of(result),
        "changed": _without(changed_settings(result, preset_of(result)), result["unread"]),
        "read": _without(result["settings"], result["unread"]),
        "command": command(result),
        "made": made(result),
        "ledger_table": ledger_table(result),
    }
    if poll.plots:
        figure = poll_figure(result["metrics"]["poll"], classes)
        write_atomic(run_dir / "poll.png", lambda stream: figure.savefig(stream, format="png"))
    return write_page("report.html.j2", values, run_dir / "report.html")


def _without(values: Mapping[str, Any], left_out: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in left_out}
