"""The picture of a frontier: accuracy against epsilon, a line for each method and one across for each ceiling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedballot.core import numbers
from fedballot.report.canvas import bare, canvas, percent_axis, style
from fedballot.report.palette import LIGHT, SERIES
from fedballot.studies.frontier import Spot

ALIKE = 0.02  # share by which an epsilon that was given may be below the one that was asked, and be the same


def given(spot: Spot) -> float | None:
    """The epsilon that a spot's runs have; the one that was asked where they do not say."""
    return spot.epsilon if spot.measured.epsilon is None else spot.measured.epsilon


def fell_short(spot: Spot) -> bool:
    """Whether clearly less was given than asked."""
    has = given(spot)
    return spot.epsilon is not None and has is not None and has < (1 - ALIKE) * spot.epsilon


def frontier_figure(spots: Sequence[Spot], units: Mapping[str, str], *, white: bool = True) -> Figure | None:
    """Draw what was measured, each spot at the epsilon that its runs have; None where nothing was.

    Parameters
    ----------
    units
        Method -> what its epsilon protects, for the legend.
    white
        On white, for a file; else for a page.
    """
    known = [spot for spot in spots if spot.measured.accuracy is not None]
    if not known:
        return None
    with style(white=white):
        if white:
            figure = Figure(figsize=(6.4, 4.6), layout="constrained")
            axes = figure.subplots()
        else:
            figure, axes = canvas(4.6)
        for number, method in enumerate(dict.fromkeys(spot.method for spot in known)):
            colour, marker = SERIES[number % len(SERIES)]
            members = sorted(
                (spot for spot in known if spot.method == method and spot.epsilon is not None),
                key=lambda spot: given(spot) or 0.0,
            )
            for spot in known:
                if spot.method == method and spot.epsilon is None:
                    label = f"{method}, not private"
                    axes.axhline(spot.measured.accuracy or 0.0, color=LIGHT[colour], linestyle="--", label=label)
            if members:
                axes.errorbar(
                    [given(spot) or 0.0 for spot in members],
                    [spot.measured.accuracy or 0.0 for spot in members],
                    [spot.measured.spread or 0.0 for spot in members],
                    color=LIGHT[colour],
                    marker=marker,
                    markersize=5,
                    capsize=2,
                    label=f"{method} ({units[method]})" if method in units and white else method,
                )
            _name_short(axes, [spot for spot in members if fell_short(spot)], LIGHT[colour])
        ticks = sorted({spot.epsilon for spot in known if spot.epsilon is not None})
        places = [has for spot in known if (has := given(spot)) is not None and spot.epsilon is not None]
        if len({*places}) > 1 and min(places) > 0:
            axes.set_xscale("log")
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.minorticks_off()
            axes.set_xlim(min(places) / 1.15, max(places) * 1.15)
        percent_axis(axes, "y", min(map(_lowest, known)), max(map(_highest, known)))
        axes.grid(axis="y")
        bare(axes, "left")
        axes.set_xlabel("ε of the runs (log scale)")
        axes.set_ylabel("accuracy")
        figure.legend(loc="outside lower left")
        return figure


def _name_short(axes: Axes, spots: Sequence[Spot], colour: str) -> None:
    """Say beside a point what was asked, where less was given; one label for points of one epsilon."""
    asked: dict[str, list[Spot]] = {}
    for spot in spots:
        asked.setdefault(numbers.epsilon(given(spot)), []).append(spot)
    for has, members in asked.items():
        words = " and ".join(f"{spot.epsilon:g}" for spot in members)
        axes.annotate(
            f"asked {words}, given {has}",
            (given(members[-1]) or 0.0, min(_lowest(spot) for spot in members)),
            xytext=(0, -5),
            textcoords="offset points",
            ha="center",
            va="top",
            color=colour,
        )


def _lowest(spot: Spot) -> float:
    """Where the error bar of a spot ends."""
    return (spot.measured.accuracy or 0.0) - (spot.measured.spread or 0.0)


def _highest(spot: Spot) -> float:
    """Where it ends above."""
    return (spot.measured.accuracy or 0.0) + (spot.measured.spread or 0.0)
