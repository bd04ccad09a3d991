"""The two plots of a comparison: accuracy against ε, and against the bytes that clients send."""

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from fedballot.core.numbers import epsilon, size
from fedballot.report.canvas import bare, canvas, percent_axis, style
from fedballot.report.palette import LIGHT, SERIES


class Run(Protocol):
    """What a plot needs of a run; `compare.Row` has it."""

    @property
    def number(self) -> int: ...
    @property
    def status(self) -> str: ...
    @property
    def accuracy(self) -> float | None: ...
    @property
    def epsilon(self) -> float | None: ...
    @property
    def bytes_up(self) -> int | None: ...
    @property
    def meaning(self) -> str | None: ...


def privacy_figure(runs: Sequence[Run]) -> Figure | None:
    """Draw accuracy against ε on a log axis, one colour and marker for each kind of guarantee.

    Parameters
    ----------
    runs : sequence of Run
        Runs that are not done, or have no accuracy, are left out; one without a finite ε stands at the
        tick `none`.

    Returns
    -------
    Figure or None
        None where no run has an ε.
    """
    if not any(run.epsilon is not None for run in _done(runs)):
        return None
    with style():
        figure, axes = canvas(3.6)
        _draw_privacy(axes, runs)
        return figure


def bytes_figure(runs: Sequence[Run]) -> Figure | None:
    """Draw accuracy against the bytes that all clients sent, on a log axis.

    Parameters
    ----------
    runs : sequence of Run
        As for `privacy_figure`.

    Returns
    -------
    Figure or None
        None where no run has both figures.
    """
    if not any(run.bytes_up is not None for run in _done(runs)):
        return None
    with style():
        figure, axes = canvas(3.6)
        _draw_bytes(axes, runs)
        return figure


def comparison_figure(runs: Sequence[Run]) -> Figure:
    """Draw both plots side by side on white, for a PNG file, with a legend of the kinds of guarantee."""
    with style(white=True):
        figure = Figure(figsize=(10, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_privacy(left, runs)
        _draw_bytes(right, runs)
        handles, labels = right.get_legend_handles_labels()
        if handles:
            figure.legend(handles, labels, loc="outside lower left", title="Compare ε only within one colour")
        return figure


def series(runs: Sequence[Run]) -> dict[str | None, tuple[str, str]]:
    """Give every kind of guarantee its colour name and marker, in order of appearance; None gets grey."""
    kinds = list(dict.fromkeys(run.meaning for run in runs if run.meaning is not None))
    styles: dict[str | None, tuple[str, str]] = {kind: SERIES[i % len(SERIES)] for i, kind in enumerate(kinds)}
    return styles | {None: ("muted", "X")}


def _done(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.status == "done" and run.accuracy is not None]


def _draw_privacy(axes: Axes, runs: Sequence[Run]) -> None:
    # An infinite ε, and no mechanism at all, get a tick of their own on the right.
    _scatter(axes, runs, _done(runs), lambda run: math.inf if run.epsilon is None else run.epsilon, epsilon)
    axes.set_xlabel("ε of the first guarantee (log scale; left is more private)")


def _draw_bytes(axes: Axes, runs: Sequence[Run]) -> None:
    sent = [run for run in _done(runs) if run.bytes_up is not None]
    _scatter(axes, runs, sent, lambda run: float(run.bytes_up or 0), size)
    axes.set_xlabel("sent by all clients (log scale)")


def _scatter(
    axes: Axes,
    runs: Sequence[Run],
    shown: Sequence[Run],
    position: Callable[[Run], float],
    written: Callable[[float], str],
) -> None:
    finite = [x for run in shown if 0 < (x := position(run)) < math.inf]
    low, high = (min(finite), max(finite)) if finite else (1.0, 1.0)
    step = max(3.0, (high / low) ** 0.25)
    # Zero and infinity have no place on a log axis: a step outside the others stands for them.
    places = {0.0: low / step, math.inf: high * step}
    points = [(places.get(position(run), position(run)), float(run.accuracy or 0), run) for run in shown]
    for kind, (colour, marker) in series(runs).items():
        group = [(x, y) for x, y, run in points if run.meaning == kind]
        if group:
            label = kind or "nothing is guaranteed"
            axes.plot(*zip(*group, strict=True), marker, color=LIGHT[colour], markersize=7, label=label)
    xs = [x for x, _, _ in points] or [1.0]
    axes.set_xscale("log")
    left, right = min(xs) / step**0.4, max(xs) * step**0.4
    axes.set_xlim(left, right)
    locator = LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 300 else (1.0,), numticks=12)
    ticks = {float(x): written(float(x)) for x in locator.tick_values(low, high) if low / 1.3 <= x <= high * 1.3}
    ticks |= {places[x]: name for x, name in ((0.0, "0"), (math.inf, "none")) if places[x] in xs}
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y")
    bare(axes, "left")
    axes.set_ylabel("accuracy")
    if points:
        accuracies = [y for _, y, _ in points]
        percent_axis(axes, "y", min(accuracies), max(accuracies))
        _name(axes, points, math.log(right / left))


def _name(axes: Axes, points: Sequence[tuple[float, float, Run]], width: float) -> None:
    """Put the numbers of runs beside their points; points on top of each other share one label."""
    bottom, top = axes.get_ylim()
    places: list[tuple[float, float, list[int]]] = []
    for x, y, run in sorted(points, key=lambda point: point[2].number):
        for at_x, at_y, numbers in places:
            if abs(math.log(x / at_x)) < 0.05 * width and abs(y - at_y) < 0.05 * (top - bottom):
                numbers.append(run.number)
                break
        else:
            places.append((x, y, [run.number]))
    for x, y, numbers in places:
        axes.annotate(
            ", ".join(map(str, numbers)), (x, y), xytext=(6, 4), textcoords="offset points", color=LIGHT["ink"]
        )
