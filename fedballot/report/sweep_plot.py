"""The picture of a sweep: accuracy against each setting that varies as a number, against delta, and over the rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedballot.report.canvas import bare, percent_axis, style, whole_ticks
from fedballot.report.palette import LIGHT, SERIES
from fedballot.studies.sweep import Row

WIDTH, HEIGHT = 4.6, 3.4  # inches of one panel
MOST_LINES = 8
PRIVACY = {
    "epsilon": "ε of the first guarantee",
    "claimed_epsilon": "ε as the paper claims it",
    "delta": "δ of the first guarantee",
}


def sweep_figure(rows: Sequence[Row]) -> Figure | None:
    """Draw a panel for each numeric setting, one for delta or epsilon where they differ, and one over the rounds.

    Returns
    -------
    Figure or None
        None where no run has an accuracy.
    """
    known = [row for row in rows if row.accuracy is not None]
    if not known:
        return None
    keys = [key for key in known[0].values if _numeric([row.values[key] for row in known])]
    private = [name for name in PRIVACY if len({getattr(row, name) for row in known} - {None}) > 1]
    rounds = [row for row in known if len(row.per_round) > 1]
    panels = len(keys) + len(private) + bool(rounds)
    if not panels:
        return None
    with style(white=True):
        figure = Figure(figsize=(WIDTH * panels, HEIGHT), layout="constrained")
        axes: list[Axes] = list(figure.subplots(1, panels, squeeze=False)[0])
        for key in keys:
            _against(axes.pop(0), known, key)
        for name in private:
            shown = [row for row in known if getattr(row, name) is not None]
            _scatter(axes.pop(0), shown, [float(getattr(row, name)) for row in shown], PRIVACY[name])
        if rounds:
            _over_rounds(axes.pop(0), rounds)
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
    values = [float(row.accuracy or 0) for row in rows]
    percent_axis(axes, "y", min(values), max(values))
    axes.grid(axis="y")
    bare(axes, "left")
    axes.set_xlabel(label)
    axes.set_ylabel("accuracy")
