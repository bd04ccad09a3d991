"""The picture of a frontier: accuracy against epsilon, a line for each method and one across for each ceiling."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from fedballot.report.canvas import bare, percent_axis, style
from fedballot.report.palette import LIGHT, SERIES
from fedballot.studies.frontier import Spot


def frontier_figure(spots: Sequence[Spot], units: dict[str, str]) -> Figure | None:
    """Draw what was measured; None where nothing was.

    Parameters
    ----------
    units
        Method -> what its epsilon protects, for the legend.
    """
    known = [spot for spot in spots if spot.measured.accuracy is not None]
    if not known:
        return None
    with style(white=True):
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        axes = figure.subplots()
        for number, method in enumerate(dict.fromkeys(spot.method for spot in known)):
            colour, marker = SERIES[number % len(SERIES)]
            members = sorted(
                (spot for spot in known if spot.method == method and spot.epsilon is not None),
                key=lambda spot: spot.epsilon or 0.0,
            )
            for spot in known:
                if spot.method == method and spot.epsilon is None:
                    label = f"{method}, not private"
                    axes.axhline(spot.measured.accuracy or 0.0, color=LIGHT[colour], linestyle="--", label=label)
            if members:
                axes.errorbar(
                    [spot.epsilon or 0.0 for spot in members],
                    [spot.measured.accuracy or 0.0 for spot in members],
                    [spot.measured.spread or 0.0 for spot in members],
                    color=LIGHT[colour],
                    marker=marker,
                    markersize=5,
                    capsize=2,
                    label=f"{method} ({units[method]})" if method in units else method,
                )
        values = [spot.measured.accuracy or 0.0 for spot in known]
        ticks = sorted({spot.epsilon for spot in known if spot.epsilon is not None})
        if len(ticks) > 1:
            axes.set_xscale("log")
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.minorticks_off()
        percent_axis(axes, "y", min(values), max(values))
        axes.grid(axis="y")
        bare(axes, "left")
        axes.set_xlabel("ε")
        axes.set_ylabel("accuracy")
        axes.legend()
        return figure
