"""Pictures of what a classifier mixes up and how sure it may be: counts in, matplotlib Figure out."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fedballot.report.canvas import bare, canvas, short, style
from fedballot.report.palette import LIGHT

MOST_CLASSES = 40  # of a confusion matrix that is drawn
MOST_NUMBERS = 12  # classes up to which cells hold their counts
STRONGEST = 0.48  # opacity of a full cell, on which text can still be read


def confusion_figure(confusion: Sequence[Sequence[int]], classes: Sequence[str]) -> Figure:
    """Draw which class the test records of each class were given.

    Parameters
    ----------
    confusion : int (C, C)
        Records of a true class (rows) by the class that they were given (columns).
    classes : sequence of str, (C,)
        Names of the classes.

    Returns
    -------
    Figure
        A square for every cell that is not empty, as strong as its share of the row; the wrong ones in another colour.
    """
    counts = np.asarray(confusion)
    n = len(counts)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    with style():
        figure, axes = canvas(min(5.0, 1.4 + 0.36 * n))
        for row, column in np.argwhere(counts > 0):
            colour = LIGHT["blue" if row == column else "vermilion"]
            strength = 0.08 + (STRONGEST - 0.08) * shares[row, column]
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=colour, alpha=strength, linewidth=0))
            if n <= MOST_NUMBERS:
                axes.text(column, row, f"{counts[row, column]:,}", ha="center", va="center", fontsize=8)
        step = -(-n // 24)
        names = [short(name) for name in classes[::step]]
        axes.set_xticks(range(0, n, step), names, rotation=45 if max(map(len, names)) > 3 else 0, ha="center")
        axes.set_yticks(range(0, n, step), names)
        axes.set_xlim(-0.5, n - 0.5)
        axes.set_ylim(n - 0.5, -0.5)
        axes.tick_params(length=0)
        axes.set_xlabel("class given")
        axes.set_ylabel("true class")
        bare(axes, "left", "bottom")
        return figure


def calibration_figure(
    confidence: Sequence[float | None], right: Sequence[float | None], records: Sequence[int]
) -> Figure:
    """Draw how often answers of a confidence are right; on the diagonal a model is as sure as it may be.

    Parameters
    ----------
    confidence, right : sequence of float, (B,)
        Mean confidence and share of right answers in each bin; None for an empty one.
    records : sequence of int, (B,)
        Test records in each bin.

    Returns
    -------
    Figure
        A dot for each bin, the larger the more records it holds.
    """
    bins = [
        (x, y, n) for x, y, n in zip(confidence, right, records, strict=True) if x is not None and y is not None and n
    ]
    x, y, n = (np.array(column, dtype=float) for column in zip(*bins, strict=True))
    with style():
        figure, axes = canvas(3.4)
        axes.plot([0, 1], [0, 1], color=LIGHT["faint"], linewidth=1)
        axes.plot(x, y, color=LIGHT["sky"], linewidth=1.6)
        axes.scatter(x, y, s=20 + 160 * n / n.max(), color=LIGHT["blue"], linewidths=0, zorder=3)
        ticks = np.arange(0, 1.01, 0.2)
        axes.set_xticks(ticks, [f"{100 * tick:.0f} %" for tick in ticks])
        axes.set_yticks(ticks, [f"{100 * tick:.0f} %" for tick in ticks])
        axes.set_xlim(-0.03, 1.03)
        axes.set_ylim(-0.04, 1.06)
        axes.grid(axis="y")
        bare(axes, "left")
        axes.set_xlabel("how sure the model is")
        axes.set_ylabel("how often it is right")
        return figure
