"""The pictures of a run, one function each: arrays in, matplotlib Figure out. No pyplot, no global state."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fedballot.report.canvas import bare, canvas, percent_axis, short, style, whole_ticks
from fedballot.report.palette import LIGHT

MANY_CLASSES = 24
SPECK = 1e-9  # votes: what is nearer to zero is rounding


def per_class_figure(accuracy: Sequence[float | None], classes: Sequence[str], overall: float | None) -> Figure:
    """Draw the accuracy of each class, as dots hanging from the overall accuracy.

    Parameters
    ----------
    accuracy : sequence of float, (C,)
        Fractions in 0..1; None for a class without test examples.
    classes : sequence of str, (C,)
        Names of the classes.
    overall : float or None
        Accuracy over all classes, drawn as a line.

    Returns
    -------
    Figure
        One row per class; beyond 24 classes sorted, with only the weakest named.
    """
    known = [(name, value) for name, value in zip(classes, accuracy, strict=True) if value is not None]
    if len(known) > MANY_CLASSES:
        known.sort(key=lambda pair: pair[1])
    names = [name for name, _ in known]
    values = np.array([value for _, value in known], dtype=float)
    rows = np.arange(len(values))
    with style():
        figure, axes = canvas(min(4.6, 0.95 + 0.235 * len(values)))
        line = float(values.mean()) if overall is None else overall
        axes.hlines(rows, line, values, color=LIGHT["sky"], linewidth=2.2)
        axes.axvline(line, color=LIGHT["faint"], linewidth=1)
        axes.plot(values, rows, "o", color=LIGHT["blue"], markersize=6.5)
        if len(values) > MANY_CLASSES:
            step = int(np.ceil(len(values) / MANY_CLASSES))
            axes.set_yticks(rows[::step], [short(name) for name in names[::step]])
        else:
            axes.set_yticks(rows, [short(name) for name in names])
        axes.set_ylim(len(values) - 0.5, -0.5)
        percent_axis(axes, "x", min(values.min(), line), max(values.max(), line))
        axes.grid(axis="x")
        bare(axes, "left")
        axes.set_xlabel("accuracy of the class")
        return figure


def per_client_figure(accuracy: Sequence[float | None], server: float | None) -> Figure:
    """Draw the accuracy of every client's own model, sorted, and the server's above them.

    Parameters
    ----------
    accuracy : sequence of float, (N,)
        Fractions in 0..1 on the test set; None for a client that was not measured.
    server : float or None
        The server's accuracy, drawn as a line.

    Returns
    -------
    Figure
        Clients from the weakest to the strongest.
    """
    values = np.sort(np.array([value for value in accuracy if value is not None], dtype=float))
    with style():
        figure, axes = canvas(2.9)
        ranks = np.arange(1, len(values) + 1)
        lines = [] if server is None else [server]
        bottom, top = min([values.min(), *lines]), max([values.max(), *lines])
        percent_axis(axes, "y", bottom, top)
        axes.plot(ranks, values, "o", color=LIGHT["sky"], markersize=max(2.0, min(6.0, 240 / len(values))))
        if server is not None:
            axes.axhline(server, color=LIGHT["blue"], linewidth=1.6)
            # Where the dots are not: below a high line on the left, above a low one on the right.
            below = server > np.median(values)
            axes.annotate(
                f"server {100 * server:.1f} %",
                (0.01 if below else 0.99, server),
                xycoords=axes.get_yaxis_transform(),
                xytext=(0, -4 if below else 4),
                textcoords="offset points",
                va="top" if below else "bottom",
                ha="left" if below else "right",
                color=LIGHT["blue"],
            )
        axes.set_xlim(1 - 0.02 * len(values) - 0.2, 1.02 * len(values) + 0.2)
        whole_ticks(axes, "x")
        axes.grid(axis="y")
        bare(axes, "left")
        axes.set_xlabel("clients, from the weakest to the strongest")
        axes.set_ylabel("accuracy alone")
        return figure


def lead_figure(leads: NDArray[Any], correct: NDArray[np.bool_] | None, noise_sigma: float | None = None) -> Figure:
    """Draw by how many noisy votes each released label led, right and wrong labels stacked.

    Parameters
    ----------
    leads : float array (Q,)
        Noisy votes of the released label less those of the best other class, Q >= 1.
    correct : bool array (Q,) or None
        Whether the released label is right, where the truth is known.
    noise_sigma : float or None
        Standard deviation of the noise on one class sum, in votes; a difference carries √2 times as much.

    Returns
    -------
    Figure
        A stacked histogram.
    """
    with style():
        figure, axes = canvas(3.0)
        leads = np.where(np.abs(leads) > SPECK, leads, 0.0)
        low, high = min(0.0, float(leads.min())), max(0.0, float(leads.max()))
        if low == high:
            low, high = -1.0, 1.0
        width = (high - low) / 32
        edges = (width * np.arange(np.floor(low / width), np.ceil(high / width) + 1)).tolist()
        edges[0], edges[-1] = min(low, edges[0]), max(high, edges[-1])  # rounding may have left the outermost out
        if noise_sigma:
            # Noise of ±1σ around no lead at all: what lies in the band may have won or lost by chance.
            band = np.sqrt(2) * noise_sigma
            axes.axvspan(-band, band, color=LIGHT["faint"], alpha=0.16, linewidth=0, label="±σ of the noise")
        if correct is None:
            axes.hist(leads, edges, color=LIGHT["sky"], rwidth=0.9)
        else:
            # Wrong labels lie at the bottom: the few of them are what the reader looks for.
            axes.hist(
                [leads[~correct], leads[correct]],
                edges,
                stacked=True,
                rwidth=0.9,
                color=[LIGHT["vermilion"], LIGHT["sky"]],
                label=["label wrong", "label right"],
            )
        axes.set_xlim(edges[0], edges[-1])
        axes.axvline(0, color=LIGHT["faint"], linewidth=1)
        if correct is not None or noise_sigma:
            axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, handlelength=1, columnspacing=1.2)
        whole_ticks(axes, "y", 6)
        axes.grid(axis="y")
        bare(axes, "left")
        axes.set_xlabel("lead of the released label, in noisy votes")
        axes.set_ylabel("queries")
        return figure
