"""Pictures of a data set and of how a partition deals it out, for `fedballot data`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from fedballot.core.errors import DataError
from fedballot.report.canvas import bare, canvas, short, style, whole_ticks
from fedballot.report.palette import LIGHT

MOST_BUBBLES = 40  # clients; beyond it bubbles run together and a heat map reads better
MOST_NAMES = 30  # class names on an axis
_RAMP = LinearSegmentedColormap.from_list("counts", ["#ffffff", LIGHT["sky"], LIGHT["blue"], "#062a45"])


def partition_figure(counts: NDArray[Any], classes: Sequence[str]) -> Figure:
    """Draw how many records of each class every client holds, and how many in all.

    Parameters
    ----------
    counts : int array (N, C)
        Records by client (rows) and class (columns).
    classes : sequence of str, (C,)
        Names of the classes.

    Returns
    -------
    Figure
        On white, for `savefig`: bubbles up to 40 clients, a heat map beyond (fine for thousands).

    Raises
    ------
    DataError
        `counts` is not a matrix of N >= 1 clients by C classes, or holds a negative count.
    """
    counts = np.asarray(counts)
    if counts.ndim != 2 or counts.shape[1] != len(classes) or not counts.size or counts.min() < 0:
        raise DataError(
            f"counts has shape {counts.shape}, expected (clients, {len(classes)}) with counts >= 0, "
            "at least one client and one class."
        )
    clients, n_classes = counts.shape
    with style(white=True):
        height = 1.9 + min(4.2, max(1.4, 0.26 * n_classes))
        figure = Figure(figsize=(7.2, height), layout="constrained")
        grid = figure.add_gridspec(2, 1, height_ratios=[height - 1.75, 1.0])
        matrix, totals = figure.add_subplot(grid[0]), figure.add_subplot(grid[1])
        top = int(counts.max())
        if clients <= MOST_BUBBLES:
            client_id, label = np.nonzero(counts)
            cell = 72 * min(5.6 / clients, (height - 2.2) / n_classes)
            area = counts[client_id, label] / max(top, 1) * (0.92 * cell) ** 2
            matrix.scatter(client_id, label, s=area, color=LIGHT["blue"], linewidths=0)
            title = f"records of each class; the largest bubble is {top:,}"
        else:
            norm = PowerNorm(0.5, vmin=0, vmax=max(top, 1))
            image = matrix.imshow(counts.T, aspect="auto", interpolation="nearest", cmap=_RAMP, norm=norm)
            bar = figure.colorbar(image, ax=matrix, pad=0.015, aspect=18, ticks=MaxNLocator(6, integer=True))
            bar.outline.set_visible(False)
            title = "records of each class (square-root scale)"
        matrix.set_title(title, loc="left", fontsize=10)
        step = -(-n_classes // MOST_NAMES)
        matrix.set_yticks(range(0, n_classes, step), [short(name) for name in classes[::step]])
        matrix.set_ylim(n_classes - 0.5, -0.5)
        matrix.set_ylabel("class")
        matrix.tick_params(length=0, labelbottom=False)
        sizes = counts.sum(axis=1)
        totals.bar(np.arange(clients), sizes, width=0.8 if clients <= 150 else 1.0, color=LIGHT["sky"], linewidth=0)
        totals.set_xlabel("client")
        totals.set_ylabel("records")
        for axes in (matrix, totals):
            axes.set_xlim(-0.6, clients - 0.4)
            whole_ticks(axes, "x")
        bare(matrix, "left", "bottom")
        bare(totals, "left")
        totals.grid(axis="y")
        return figure


def class_figure(counts: NDArray[Any], classes: Sequence[str]) -> Figure:
    """Draw how many records of each class a data set holds.

    Parameters
    ----------
    counts : int array (C,)
        Records by class.
    classes : sequence of str, (C,)
        Names of the classes.

    Returns
    -------
    Figure
        On white, for `savefig`: one bar per class.

    Raises
    ------
    DataError
        `counts` does not hold one count >= 0 for each class.
    """
    counts = np.asarray(counts)
    if counts.shape != (len(classes),) or not counts.size or counts.min() < 0:
        raise DataError(f"counts has shape {counts.shape}, expected ({len(classes)},) with counts >= 0.")
    n_classes = len(counts)
    with style(white=True):
        figure, axes = canvas(min(5.5, 0.7 + 0.26 * n_classes))
        rows = np.arange(n_classes)
        axes.barh(rows, counts, height=0.7 if n_classes <= MOST_NAMES else 1.0, color=LIGHT["sky"], linewidth=0)
        if n_classes <= MOST_NAMES:
            for row, number in enumerate(counts):
                axes.annotate(f"{number:,}", (number, row), xytext=(4, 0), textcoords="offset points", va="center")
        step = -(-n_classes // MOST_NAMES)
        axes.set_yticks(rows[::step], [short(name) for name in classes[::step]])
        axes.set_ylim(n_classes - 0.5, -0.5)
        axes.set_xlim(0, max(1, counts.max()) * 1.12)
        axes.set_xlabel("records")
        axes.grid(axis="x")
        bare(axes, "left")
        return figure
