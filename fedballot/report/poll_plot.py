"""Pictures of a poll: where the clients' records lie beside the pool's, and how many of each class are far from it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fedballot.report.canvas import bare, canvas, short, style
from fedballot.report.palette import LIGHT

ERRORS = 2.0  # standard errors of the bars
MOST_NAMES = 24
FAR = 0.1  # share of the records out of reach from which their dot stands out
TONES = {"": "blue", "short": "vermilion", "idle": "amber"}
WORDS = {"": "clients", "short": "clients: more than twice the pool", "idle": "clients: hardly any"}


def cells_figure(poll: Mapping[str, Any]) -> Figure:
    """Draw the share of each cell in the pool and among the clients' records, and the share that is far from all.

    Parameters
    ----------
    poll : mapping
        `metrics.poll` of a result.

    Returns
    -------
    Figure
        One row per cell, the far records above them.
    """
    with style():
        figure, axes = canvas(min(7.0, 1.5 + 0.19 * (len(poll["cells"]) + 1)))
        _draw_cells(axes, poll)
        return figure


def classes_figure(poll: Mapping[str, Any], classes: Sequence[str]) -> Figure:
    """Draw how many of the clients' records of each class are far from all public ones.

    Parameters
    ----------
    poll : mapping
        `metrics.poll` of a result.
    classes : sequence of str, (C,)

    Returns
    -------
    Figure
        One row per class; the line is what a pool of the same kind would have.
    """
    with style():
        figure, axes = canvas(min(7.0, 1.0 + 0.235 * len(classes)))
        _draw_classes(axes, poll, classes)
        return figure


def poll_figure(poll: Mapping[str, Any], classes: Sequence[str]) -> Figure:
    """Draw both, on white, for `savefig`."""
    rows = max(len(poll["cells"]) + 1, min(len(classes), MOST_NAMES))
    with style(white=True):
        figure = Figure(figsize=(9.0, min(8.0, 1.9 + 0.2 * rows)), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_cells(left, poll)
        _draw_classes(right, poll, classes)
        figure.suptitle(
            f"The public pool {poll['verdict']}" if poll["verdict"] != "cannot be told" else "Too noisy to tell"
        )
        return figure


def _draw_cells(axes: Axes, poll: Mapping[str, Any]) -> None:
    cells, far = poll["cells"], poll["far"]
    pool = [poll["expected"], *(cell["pool"] for cell in cells)]
    clients = [far, *(cell["clients"] for cell in cells)]
    beyond = poll["out_of_reach"]
    states = ["short" if beyond["value"] - ERRORS * beyond["error"] > FAR else "", *(cell["state"] for cell in cells)]
    rows = np.arange(len(pool))
    axes.barh(rows, pool, height=0.72, color=LIGHT["rule"], linewidth=0, label="public pool")
    for state, tone in TONES.items():
        chosen = [row for row in rows.tolist() if states[row] == state]
        if chosen:
            label = WORDS[state] if any(row for row in chosen) or not state else None
            axes.errorbar(
                [clients[row]["value"] for row in chosen],
                chosen,
                xerr=[ERRORS * clients[row]["error"] for row in chosen],
                fmt="o",
                markersize=4.5,
                linewidth=1.2,
                color=LIGHT[tone],
                label=label,
            )
    step = max(1, -(-len(cells) // MOST_NAMES))
    marks = [0, *range(1, len(pool), step)]
    axes.set_yticks(marks, ["far from all", *(f"cell {row}" for row in marks[1:])])
    axes.axhline(0.5, color=LIGHT["faint"], linewidth=0.8)
    axes.set_ylim(len(pool) - 0.4, -0.6)
    _percents(axes, max([*pool, *(one["value"] + ERRORS * min(one["error"], 0.2) for one in clients)]))
    axes.set_xlabel("share of the records, ± two standard errors")
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2, handlelength=1, columnspacing=1.2)


def _draw_classes(axes: Axes, poll: Mapping[str, Any], classes: Sequence[str]) -> None:
    known = [(name, share) for name, share in zip(classes, poll["classes"], strict=True) if share]
    if len(known) > MOST_NAMES:
        known = sorted(known, key=lambda pair: -pair[1]["value"])[:MOST_NAMES]
    rows, bad = np.arange(len(known)), {classes[index] for index in poll["far_classes"]}
    for tone, chosen in (("blue", [n not in bad for n, _ in known]), ("vermilion", [n in bad for n, _ in known])):
        at = rows[np.array(chosen, dtype=bool)].tolist()
        if at:
            axes.errorbar(
                [known[row][1]["value"] for row in at],
                at,
                xerr=[ERRORS * known[row][1]["error"] for row in at],
                fmt="o",
                markersize=5.5,
                linewidth=1.4,
                color=LIGHT[tone],
            )
    axes.axvline(poll["expected"], color=LIGHT["faint"], linewidth=1)
    axes.set_yticks(rows, [short(name) for name, _ in known])
    axes.set_ylim(len(known) - 0.4, -0.6)
    _percents(axes, max((share["value"] + ERRORS * share["error"] for _, share in known), default=1.0))
    axes.set_xlabel("of the clients' records of a class: far from the pool")


def _percents(axes: Axes, high: float) -> None:
    axes.set_xlim(-0.01, min(1.02, max(0.1, 1.04 * high)))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axes.grid(axis="x")
    bare(axes, "left")
