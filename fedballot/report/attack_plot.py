"""What attacks find, as pictures: curves on logarithmic axes, and what grows with records and rounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedballot.report.canvas import bare, canvas, style
from fedballot.report.palette import LIGHT, SERIES
from fedballot.studies.attacks.measure import Score
from fedballot.studies.attacks.membership import Leak

NAMES = {
    "lira": "LiRA, online",
    "lira-offline": "LiRA, offline",
    "rmia": "RMIA",
    "learned": "all scores, learned",
    "threshold": "score alone",
    "label-only": "labels alone",
}
TICKS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
SMALLEST = TICKS[0]


def roc_figure(leak: Leak, *, white: bool = True) -> Figure:
    """Draw true against false positive rates, both logarithmic, an attack each; on white for a file."""
    with style(white=white):
        if white:
            figure = Figure(figsize=(6.4, 5.4), layout="constrained")
            axes = figure.subplots()
        else:
            figure, axes = canvas(5.2)
        for place, score in enumerate(leak.scores):
            _curve(axes, score, place)
        grid = np.geomspace(SMALLEST, 1, 200)
        axes.plot(grid, grid, color=LIGHT["faint"], linestyle=":", label="by chance")
        if leak.promise is not None and leak.promise.epsilon < 20 and leak.promise.delta < 1:
            most = np.minimum(1, np.exp(leak.promise.epsilon) * grid + leak.promise.delta)
            axes.plot(grid, most, color=LIGHT["ink"], linestyle="--", label="the most that is proved")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(SMALLEST, 1)
        axes.set_ylim(SMALLEST, 1)
        axes.set_xticks(TICKS, [f"{100 * tick:g} %" for tick in TICKS])
        axes.set_yticks(TICKS, [f"{100 * tick:g} %" for tick in TICKS])
        axes.minorticks_off()
        axes.set_xlabel("false positive rate")
        axes.set_ylabel("true positive rate")
        axes.grid(True)
        figure.legend(loc="outside lower left", ncols=2)
        if white:
            figure.suptitle(leak.method, x=0.012, ha="left", fontsize=11, fontweight="bold", color=LIGHT["ink"])
        return figure


def _curve(axes: Axes, score: Score, place: int) -> None:
    colour, _ = SERIES[place % len(SERIES)]
    label = f"{NAMES.get(score.attack, score.attack)} (AUC {score.auc:.3f})"
    fpr, tpr = np.maximum(score.fpr, SMALLEST / 10), np.maximum(score.tpr, SMALLEST / 10)
    axes.plot(fpr, tpr, color=LIGHT[colour], linewidth=1.4, label=label)


def rounds_figure(leak: Leak) -> Figure:
    """Draw the area under the curve against rounds seen."""
    rounds = sorted(leak.by_round)
    return _areas(rounds, [leak.by_round[count] for count in rounds], "rounds read")


def sizes_figure(leaks: Sequence[Leak]) -> Figure:
    """Draw the largest area under a curve against the target's records."""
    ordered = sorted(leaks, key=lambda one: one.size)
    return _areas([one.size for one in ordered], [one.best for one in ordered], "records of the client")


def _areas(places: Sequence[int], scores: Sequence[Score], label: str) -> Figure:
    with style():
        figure, axes = canvas(3.4)
        areas, errors = [one.auc for one in scores], [1.96 * one.auc_error for one in scores]
        axes.errorbar(places, areas, errors, color=LIGHT["blue"], marker="o", markersize=5, capsize=2)
        axes.axhline(0.5, color=LIGHT["faint"], linestyle=":")
        axes.annotate("by chance", (places[-1], 0.5), xytext=(0, 3), textcoords="offset points", ha="right")
        axes.set_xticks(list(places), [f"{place:g}" for place in places])
        axes.set_xlabel(label)
        axes.set_ylabel("area under the curve (95 %)")
        axes.set_ylim(min(0.45, *areas), max(0.65, *(a + e for a, e in zip(areas, errors, strict=True))))
        axes.grid(axis="y")
        bare(axes, "left")
        return figure
