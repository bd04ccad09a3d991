"""The picture of a run of many rounds: how the clients' own models, or the server's, fare from round to round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib.figure import Figure

from fedballot.report.canvas import bare, canvas, percent_axis, style, whole_ticks
from fedballot.report.palette import LIGHT


def rounds_figure(
    accuracy: Sequence[Sequence[float | None]], whose: Literal["clients", "server"] = "clients"
) -> Figure:
    """Draw the accuracy of every client after each round, thin, and their mean, thick; or one line, the server's.

    Parameters
    ----------
    accuracy : sequence of sequence of float, (R, N)
        Fractions in 0..1; None for a client that missed the round. Each round holds at least one figure.
    whose : {"clients", "server"}
        "server" takes one figure per round.

    Returns
    -------
    Figure
        Rounds counted from 1.
    """
    values = np.array([[np.nan if value is None else value for value in row] for row in accuracy], dtype=float)
    rounds = np.arange(1, len(values) + 1)
    with style():
        figure, axes = canvas(2.9)
        if whose == "clients":
            faint = max(0.15, min(0.8, 10 / values.shape[1]))
            axes.plot(rounds, values, color=LIGHT["sky"], linewidth=0.8, alpha=faint)
        axes.plot(rounds, np.nanmean(values, axis=1), color=LIGHT["blue"], linewidth=2, label="mean")
        percent_axis(axes, "y", float(np.nanmin(values)), float(np.nanmax(values)))
        whole_ticks(axes, "x")
        axes.grid(axis="y")
        bare(axes, "left")
        axes.set_xlabel("rounds")
        axes.set_ylabel(f"accuracy of the {whose}")
        if whose == "clients":
            axes.legend(loc="lower right")
        return figure
