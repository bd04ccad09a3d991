"""A plan as a picture: epsilon against noise, votes and clients, by each accountant."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from fedballot.core import numbers
from fedballot.report.canvas import bare, canvas, style
from fedballot.report.palette import LIGHT
from fedballot.studies.budget import ROUTES, Curve, Plan, Route, clients_curve, noise_curve, votes_curve

_LOOK: dict[Route, tuple[str, str, float]] = {
    "exact": ("blue", "-", 2.4),
    "renyi": ("vermilion", "--", 1.5),
    "mironov": ("vermilion", ":", 1.9),
}
_WHOM = {"client": "one whole client (zero-out)", "record": "one record (replace-one)"}


@dataclass(frozen=True)
class Panel:
    """What one of the three shows: its file's name, heading, a note, its axis, its curve, and what lies between."""

    name: str
    title: str
    note: str
    label: str
    curve: Curve
    between: tuple[float, float, str] | None


def panels(plan: Plan) -> list[Panel]:
    """Epsilon against noise, votes and clients."""
    noisy = plan.noisy
    ours, paper = plan.row(plan.unit, "exact"), plan.row(plan.unit, "mironov")
    scale = noisy.min_clients / noisy.sigma  # with noise in proportion to the clients, their number follows sigma
    less = numbers.percent(paper.saved, 0)
    more = None
    if paper.votes:
        words = f"{numbers.percent(ours.votes / paper.votes - 1, 0)} more votes"
        more = (float(ours.votes), float(paper.votes), words)
    sigma = f"σ = {noisy.sigma:{',.0f' if noisy.sigma >= 100 else '.3g'}}"
    return [
        Panel(
            "noise",
            "More noise",
            f"{numbers.count(noisy.max_votes)} votes of each client",
            "σ of the noise on each sum, in votes",
            noise_curve(plan),
            (ours.sigma, paper.sigma, f"{less} less noise"),
        ),
        Panel("votes", "Fewer votes", sigma, "votes of each client", votes_curve(plan), more),
        Panel(
            "clients",
            "More clients",
            f"the tally equally clear: σ = {1 / scale:.2g} × clients",
            "clients that answer",
            clients_curve(plan),
            (scale * ours.sigma, scale * paper.sigma, f"{less} fewer clients"),
        ),
    ]


def planning_figure(plan: Plan) -> Figure:
    """Draw the three panels on white, for a PNG file.

    The dot is the plan, the horizontal line its target; where a curve meets that line is what its accountant asks for.
    """
    found = panels(plan)
    with style(white=True):
        figure = Figure(figsize=(11.5, 5.0), layout=ConstrainedLayoutEngine(wspace=0.04))
        axes = figure.subplots(1, 3, sharey=True)
        for one, panel in zip(axes, found, strict=True):
            _draw(one, plan, panel)
        _frame(axes[0], [panel.curve for panel in found], plan.target)
        above = [_between(one, plan, panel) for one, panel in zip(axes, found, strict=True)]
        _target(axes[0], plan, above[0])
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower left", ncols=4, handlelength=2.6, columnspacing=2.4)
        figure.suptitle(subtitle(plan), x=0.012, ha="left", fontsize=10)
        return figure


def panel_figures(plan: Plan) -> list[tuple[Panel, Figure]]:
    """Draw each panel for a page, with axes and a legend of its own."""
    made = []
    for panel in panels(plan):
        with style():
            figure, axes = canvas(4.4)
            _draw(axes, plan, panel)
            axes.set_title("", loc="left")
            axes.texts[0].remove()
            axes.set_ylabel("ε")
            _frame(axes, [panel.curve], plan.target)
            _target(axes, plan, _between(axes, plan, panel))
            figure.legend(loc="outside lower left", handlelength=2.6)
            made.append((panel, figure))
    return made


def subtitle(plan: Plan) -> str:
    """What the epsilon of the curves speaks of."""
    return (
        f"ε for {_WHOM[plan.unit]} at δ = {plan.delta:g}, towards whoever sees the tally alone. A server "
        f"that sees every answer by itself: ε = {numbers.epsilon(plan.server_epsilon)} (replace-one)."
    )


def _between(axes: Axes, plan: Plan, panel: Panel) -> bool:
    return True if panel.between is None else _mark(axes, plan.target, *panel.between)


def _target(axes: Axes, plan: Plan, above: bool) -> None:
    axes.annotate(
        f"target {numbers.epsilon(plan.target)}",
        (0, plan.target),
        xycoords=("axes fraction", "data"),
        xytext=(3, -3 if above else 3),
        textcoords="offset points",
        va="top" if above else "bottom",
        color=LIGHT["muted"],
    )


def _draw(axes: Axes, plan: Plan, panel: Panel) -> None:
    curve = panel.curve
    axes.set_xlabel(panel.label)
    axes.set_title(panel.title, loc="left", fontsize=11, fontweight="bold", pad=20)
    axes.text(0, 1.025, panel.note, transform=axes.transAxes, color=LIGHT["muted"])
    axes.set_xscale("log")
    axes.set_yscale("log")
    for route, (colour, dash, width) in _LOOK.items():
        axes.plot(curve.x, curve.lines[route], dash, color=LIGHT[colour], linewidth=width, label=ROUTES[route])
    other = "record" if plan.unit == "client" else "client"
    axes.plot(curve.x, curve.other, color=LIGHT["faint"], linewidth=1.0, label=f"exact, for {_WHOM[other]}")
    axes.fill_between(curve.x, curve.lines["exact"], curve.lines["mironov"], color=LIGHT["vermilion"], alpha=0.1, lw=0)
    axes.axhline(plan.target, color=LIGHT["muted"], linewidth=0.9, zorder=1)
    here = plan.row(plan.unit, "exact").epsilon
    axes.plot([curve.at], [here], "o", color=LIGHT["blue"], markersize=9, markeredgecolor=LIGHT["paper"], zorder=5)
    drawn = curve.x[np.isfinite(curve.lines["exact"])]
    axes.set_xlim(drawn[0] / 1.06, drawn[-1])
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=20))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}" if x >= 1 else f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y")
    bare(axes, "left")


def _frame(axes: Axes, curves: Sequence[Curve], target: float) -> None:
    """Limits and ticks of the common axis: the target, and all curves between a thousandth and 1,000."""
    shown = np.concatenate([line for curve in curves for line in [*curve.lines.values(), curve.other]])
    shown = shown[np.isfinite(shown) & (shown > 0)]
    low, high = max(float(shown.min()) / 1.1, 1e-3), min(float(shown.max()) * 1.1, 1e3)
    low, high = min(low, target / 1.4), max(high, 1.4 * target)
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 3e3 else (1.0, 2.0, 5.0), numticks=20))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _mark(axes: Axes, target: float, ours: float, paper: float, words: str) -> bool:
    """Mark where the exact curve and the paper's cross the target, and write beside it what lies between them.

    Returns whether the words stand above the line (True where there are none).
    """
    low, high = axes.get_xlim()
    if not (low < min(ours, paper) and max(ours, paper) < high and ours != paper):
        return True
    for x, colour in ((ours, "blue"), (paper, "vermilion")):
        axes.plot([x], [target], "o", color=LIGHT["paper"], markeredgecolor=LIGHT[colour], markersize=6, zorder=4)
    # the space right above the paper's curve is free, and so is the space below ours, mirrored where curves rise
    right = ours < paper
    above = bool(paper / low < (high / low) ** 0.6 if right else ours / low > (high / low) ** 0.6)
    axes.annotate(
        words,
        (paper if above else ours, target),
        xytext=(10 if right == above else -10, 8 if above else -8),
        textcoords="offset points",
        ha="left" if right == above else "right",
        va="bottom" if above else "top",
        fontweight="bold",
        zorder=6,
        bbox={"facecolor": LIGHT["paper"], "edgecolor": "none", "alpha": 0.85, "pad": 1.0},
    ).set_in_layout(False)
    return above
