"""The plots of a comparison: accuracy against ε, against the bytes that clients send, and over a numeric setting.

Accuracies of servers and of clients' own models are no likes, so each has axes of its own.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from fedballot.core.numbers import epsilon, percent, size
from fedballot.report.canvas import bare, canvas, percent_axis, style
from fedballot.report.groups import Group, Line, lines_of
from fedballot.report.labels import label
from fedballot.report.palette import LIGHT, SERIES

Whose = Literal["server", "clients"]
MOST_TICKS = 7
_MEASURES: dict[Whose, str] = {"server": "server_accuracy", "clients": "client_accuracy"}
_AXES: dict[Whose, str] = {"server": "accuracy of the server", "clients": "mean accuracy of the clients’ own models"}


@dataclass(frozen=True)
class Spot:
    """A group where it is drawn."""

    x: float
    y: float
    spread: float
    group: Group


def shown(groups: Sequence[Group], whose: Whose) -> list[Group]:
    """Groups that a plot shows: done, and measured; of clients those whose server has no model."""
    done = [group for group in groups if group.first.status == "done"]
    if whose == "clients":
        done = [group for group in done if group.over_seeds("server_accuracy")[0] is None]
    return [group for group in done if group.over_seeds(_MEASURES[whose])[0] is not None]


def privacy_figure(groups: Sequence[Group], whose: Whose = "server") -> Figure | None:
    """Draw accuracy against ε on a log axis, one colour and marker for each kind of guarantee.

    Parameters
    ----------
    groups : sequence of Group
        Runs that are not done, or have no such accuracy, are left out; one that protects nobody stands at the
        tick `none`.

    Returns
    -------
    Figure or None
        None where no run has an ε.
    """
    if all(_epsilon(group) == math.inf for group in shown(groups, whose)):
        return None
    with style():
        figure, axes = canvas(3.6)
        _draw_privacy(figure, axes, groups, whose)
        return figure


def bytes_figure(groups: Sequence[Group], whose: Whose = "server") -> Figure | None:
    """Draw accuracy against the bytes that all clients sent, on a log axis; None where no run has both figures."""
    if not any(group.first.bytes_up is not None for group in shown(groups, whose)):
        return None
    with style():
        figure, axes = canvas(3.6)
        _draw_bytes(figure, axes, groups, whose)
        return figure


def leak_figure(groups: Sequence[Group], whose: Whose = "server") -> Figure | None:
    """Draw accuracy against the share of members that an attack found, on a log axis; None where none was attacked.

    Runs that promise nothing stand here beside the others.
    """
    if not any(group.first.leak for group in shown(groups, whose)):
        return None
    with style():
        figure, axes = canvas(3.6)
        _draw_leak(figure, axes, groups, whose)
        return figure


def setting_figure(lines: Sequence[Line]) -> Figure | None:
    """Draw accuracy over one setting, a line for each of ``lines``; None where nothing was measured."""
    with style():
        figure, axes = canvas(3.6)
        drawn: list[tuple[float, float, float]] = []
        for place, line in enumerate(lines):
            colour, marker = SERIES[place % len(SERIES)]
            measured = [(x, *group.over_seeds("accuracy")) for x, group in zip(line.values, line.groups, strict=True)]
            points = [(x, y, spread or 0.0) for x, y, spread in measured if y is not None]
            if points:
                xs, ys, spreads = zip(*points, strict=True)
                axes.errorbar(
                    xs, ys, spreads, color=LIGHT[colour], marker=marker, markersize=5, capsize=2, label=line.name
                )
                drawn += points
        if not drawn:
            return None
        ticks = sorted({x for x, _, _ in drawn})
        if ticks[0] > 0 and ticks[-1] / ticks[0] >= 5:
            axes.set_xscale("log")
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.minorticks_off()
        percent_axis(axes, "y", min(y - s for _, y, s in drawn), max(y + s for _, y, s in drawn))
        axes.grid(axis="y")
        bare(axes, "left")
        axes.set_xlabel(lines[0].setting.replace("_", " "))
        axes.set_ylabel("accuracy")
        if len(lines) > 1:
            figure.legend(loc="outside lower left")
        return figure


def comparison_figure(groups: Sequence[Group]) -> Figure:
    """Draw accuracy against ε and against bytes on white, for a PNG file, with a legend of the kinds of guarantee."""
    found: list[Whose] = [whose for whose in _MEASURES if shown(groups, whose)] or ["server"]
    with style(white=True):
        attacked = any(group.first.leak for group in groups)
        wide, across = (15, 3) if attacked else (10, 2)
        figure = Figure(figsize=(wide, 0.8 + 3.8 * len(found)), layout="constrained")
        handles: dict[str, Artist] = {}
        for (left, right, *more), whose in zip(figure.subplots(len(found), across, squeeze=False), found, strict=True):
            _draw_privacy(figure, left, groups, whose)
            _draw_bytes(figure, right, groups, whose)
            for axes in more:
                _draw_leak(figure, axes, groups, whose)
            for axes in (left, right, *more):
                marks, names = axes.get_legend_handles_labels()
                handles |= dict(zip(names, marks, strict=True))
        if handles:
            words = "Compare ε only within one colour"
            figure.legend([*handles.values()], [*handles], loc="outside lower left", title=words)
        return figure


def series(groups: Sequence[Group]) -> dict[str | None, tuple[str, str]]:
    """Give every kind of guarantee its colour name and marker, in order of appearance; None gets grey."""
    kinds = list(dict.fromkeys(group.kind for group in groups if group.kind is not None))
    styles: dict[str | None, tuple[str, str]] = {kind: SERIES[i % len(SERIES)] for i, kind in enumerate(kinds)}
    return styles | {None: ("muted", "X")}


def _epsilon(group: Group) -> float:
    """Where it stands; a seeded run protects nobody, whatever its ε would be with secret noise."""
    return math.inf if group.epsilon is None or not group.protects else group.epsilon


def _draw_privacy(figure: Figure, axes: Axes, groups: Sequence[Group], whose: Whose) -> None:
    # an infinite ε, and no mechanism at all, get a tick of their own on the right
    _scatter(figure, axes, groups, _epsilon, epsilon, whose)
    axes.set_xlabel("ε of the first guarantee (log scale; left is more private)")


def _draw_bytes(figure: Figure, axes: Axes, groups: Sequence[Group], whose: Whose) -> None:
    sent = [group for group in groups if group.first.bytes_up is not None]
    _scatter(figure, axes, sent, lambda group: float(group.over_seeds("bytes_up")[0] or 0), size, whose)
    axes.set_xlabel("sent by all clients (log scale)")


def _found(group: Group) -> float:
    return 0.0 if group.first.leak is None else group.first.leak.found


def _draw_leak(figure: Figure, axes: Axes, groups: Sequence[Group], whose: Whose) -> None:
    attacked = [group for group in groups if group.first.leak is not None]
    _scatter(figure, axes, attacked, _found, lambda share: percent(share, 1), whose)
    axes.set_xlabel("members found at 1 % false alarms (log scale)")


def _scatter(
    figure: Figure,
    axes: Axes,
    groups: Sequence[Group],
    position: Callable[[Group], float],
    written: Callable[[float], str],
    whose: Whose,
) -> None:
    spots = _spots(shown(groups, whose), position, whose)
    finite = [x for spot in spots if 0 < (x := position(spot.group)) < math.inf]
    low, high = (min(finite), max(finite)) if finite else (1.0, 1.0)
    step = max(3.0, (high / low) ** 0.25)
    # zero and infinity have no place on a log axis: a step outside the others stands for them
    places = {0.0: low / step, math.inf: high * step}
    spots = [Spot(places.get(spot.x, spot.x), spot.y, spot.spread, spot.group) for spot in spots]
    if position is _epsilon:
        _join(axes, groups, {spot.group.number: spot for spot in spots})
    for kind, (colour, marker) in series(groups).items():
        members = [spot for spot in spots if spot.group.kind == kind]
        if members:
            axes.errorbar(
                [spot.x for spot in members],
                [spot.y for spot in members],
                [spot.spread for spot in members],
                fmt=marker,
                color=LIGHT[colour],
                markersize=7,
                capsize=2,
                linewidth=1.2,
                label=kind or "nothing is guaranteed",
            )
    xs = [spot.x for spot in spots] or [1.0]
    axes.set_xscale("log")
    axes.set_xlim(min(xs) / step**0.4, max(xs) * step**0.4)
    locator = LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 300 else (1.0,), numticks=12)
    near = [float(x) for x in locator.tick_values(low, high) if low / 1.3 <= x <= high * 1.3]
    near = near[:: 1 + len(near) // MOST_TICKS] if high / low > 2 else [low, high]
    ticks = {x: written(x) for x in near}
    ticks |= {places[x]: name for x, name in ((0.0, "0"), (math.inf, "none")) if places[x] in xs}
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y")
    bare(axes, "left")
    axes.set_ylabel(_AXES[whose])
    if spots:
        percent_axis(
            axes, "y", min(spot.y - spot.spread for spot in spots), max(spot.y + spot.spread for spot in spots)
        )
        label(figure, axes, _together(axes, spots))


def _join(axes: Axes, groups: Sequence[Group], at: Mapping[int, Spot]) -> None:
    """Join groups that differ in one setting alone, as their order in it has them."""
    for line in lines_of(groups):
        spots = [at[group.number] for group in line.groups if group.number in at and group.protects]
        axes.plot([one.x for one in spots], [one.y for one in spots], color=LIGHT["faint"], linewidth=1, zorder=1)


def _spots(groups: Sequence[Group], position: Callable[[Group], float], whose: Whose) -> list[Spot]:
    found = []
    for group in groups:
        mean, spread = group.over_seeds(_MEASURES[whose])
        found.append(Spot(position(group), mean or 0.0, spread or 0.0, group))
    return found


def _together(axes: Axes, spots: Sequence[Spot]) -> list[tuple[float, float, str]]:
    """Places and numbers of the groups; those on top of each other share one label."""
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    wide, high = 0.015 * math.log(right / left), 0.015 * (top - bottom)
    places: list[tuple[Spot, list[int]]] = []
    for spot in sorted(spots, key=lambda spot: spot.group.number):
        for other, numbers in places:
            if abs(math.log(spot.x / other.x)) < wide and abs(spot.y - other.y) < high:
                numbers.append(spot.group.number)
                break
        else:
            places.append((spot, [spot.group.number]))
    return [(spot.x, spot.y, ", ".join(map(str, numbers))) for spot, numbers in places]
