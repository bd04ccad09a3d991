"""The picture of a sweep: accuracy against each setting that varies as a number, against delta, and over the rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedballot.report.canvas import bare, canvas, percent_axis, style, whole_ticks
from fedballot.report.palette import LIGHT, SERIES
from fedballot.studies.sweep import Row

WIDTH, HEIGHT = 4.6, 3.4  # inches of one panel
MOST_LINES = 8
PRIVACY = {
    "epsilon": "ε of the first guarantee",
    "claimed_epsilon": "ε as the paper claims it",
    "delta": "δ of the first guarantee",
}


@dataclass(frozen=True)
class Panel:
    """One pair of axes: what names its file, its heading, and what draws it."""

    name: str
    title: str
    draw: Callable[[Axes], None]


def panels(rows: Sequence[Row]) -> list[Panel]:
    """A panel for each numeric setting, one for delta or epsilon where they differ, and one over the rounds."""
    known = [row for row in rows if row.accuracy is not None]
    if not known:
        return []
    keys = [key for key in known[0].values if _numeric([row.values[key] for row in known])]
    private = [name for name in PRIVACY if len({getattr(row, name) for row in known} - {None}) > 1]
    rounds = [row for row in known if len(row.per_round) > 1]
    found = [
        Panel(key, f"Accuracy over {key.replace('_', ' ')}", partial(_against, rows=known, key=key)) for key in keys
    ]
    for name in private:
        shown = [row for row in known if getattr(row, name) is not None]
        places = [float(getattr(row, name)) for row in shown]
        draw = partial(_scatter, rows=shown, positions=places, label=PRIVACY[name])
        found.append(Panel(f"guarantee-{name}", f"Accuracy and {PRIVACY[name]}", draw))
    if rounds:
        found.append(Panel("rounds", "Accuracy over the rounds", partial(_over_rounds, rows=rounds)))
    return found


def sweep_figure(rows: Sequence[Row]) -> Figure | None:
    """Draw all panels side by side, on white.

    Returns
    -------
    Figure or None
        None where no run has an accuracy.
    """
    found = panels(rows)
    if not found:
        return None
    with style(white=True):
        figure = Figure(figsize=(WIDTH * len(found), HEIGHT), layout="constrained")
        for panel, axes in zip(found, figure.subplots(1, len(found), squeeze=False)[0], strict=True):
            panel.draw(axes)
        return figure


def panel_figure(panel: Panel) -> Figure:
    """Draw one panel for a page."""
    with style():
        figure, axes = canvas(3.4)
        panel.draw(axes)
        return figure


def _numeric(values: Sequence[str]) -> bool:
    try:
        return len({float(value) for value in values}) > 1
    except ValueError:
        return False


def _named(values: Mapping[str, str], without: str = "") -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items() if key != without)


def _against(axes: Axes, rows: Sequence[Row], key: str) -> None:
    def position(row: Row) -> float:
        return float(row.values[key])

    lines: dict[str, list[Row]] = {}
    for row in rows:
        lines.setdefault(_named(row.values, key), []).append(row)
    for number, (name, members) in enumerate(list(lines.items())[:MOST_LINES]):
        colour, marker = SERIES[number % len(SERIES)]
        ordered = sorted(members, key=position)
        axes.errorbar(
            [position(row) for row in ordered],
            [float(row.accuracy or 0) for row in ordered],
            [row.spread or 0.0 for row in ordered],
            color=LIGHT[colour],
            marker=marker,
            markersize=5,
            capsize=2,
            label=name,
        )
    numbers = [position(row) for row in rows]
    if min(numbers) > 0 and max(numbers) / min(numbers) >= 5:
        axes.set_xscale("log")
        axes.set_xticks(sorted(set(numbers)), [f"{number:g}" for number in sorted(set(numbers))])
        axes.minorticks_off()
    _finish(axes, rows, key)
    if len(lines) > 1:
        axes.legend()


def _scatter(axes: Axes, rows: Sequence[Row], positions: Sequence[float], label: str) -> None:
    axes.plot(positions, [float(row.accuracy or 0) for row in rows], "o", color=LIGHT["blue"])
    _finish(axes, rows, label)


def _over_rounds(axes: Axes, rows: Sequence[Row]) -> None:
    for number, row in enumerate(rows[:MOST_LINES]):
        colour, _ = SERIES[number % len(SERIES)]
        axes.plot(range(len(row.per_round)), row.per_round, color=LIGHT[colour], label=_named(row.values))
    values = [value for row in rows[:MOST_LINES] for value in row.per_round]
    percent_axis(axes, "y", min(values), max(values))
    axes.grid(axis="y")
    bare(axes, "left")
    whole_ticks(axes, "x")
    axes.set_xlabel("rounds of collaboration")
    if len(rows) > 1:
        axes.legend()


def _finish(axes: Axes, rows: Sequence[Row], label: str) -> None:
    ends = [float(row.accuracy or 0) + sign * (row.spread or 0.0) for row in rows for sign in (-1, 1)]
    percent_axis(axes, "y", min(ends), max(ends))
    axes.grid(axis="y")
    bare(axes, "left")
    axes.set_xlabel(label)
    axes.set_ylabel("accuracy")
