"""An audit as a picture: what was shown against what is claimed."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedballot.auditing import AuditReport, Layer
from fedballot.privacy.audit_runs import ALARM
from fedballot.report import numbers
from fedballot.report.canvas import bare, style
from fedballot.report.palette import LIGHT

_PARTS = {"mechanism": "the mechanism", "clients": "real clients"}


def audit_figure(report: AuditReport) -> Figure:
    """Draw lower bounds on epsilon beside the claim, and p-values of the noise's variance, on white for a PNG file."""
    bounds = [layer for layer in report.layers if layer.finding.layer != "variance"]
    p_values = [layer for layer in report.layers if layer.finding.layer == "variance"]
    with style(white=True):
        figure = Figure(figsize=(9.5, 3.2), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        _bounds(left, bounds, report.claim)
        _p_values(right, p_values)
        verdict = "nothing contradicts the claim" if report.passed else "THE CLAIM IS CONTRADICTED"
        figure.suptitle(
            f"{report.method}: {report.release}, ε = {numbers.epsilon(report.claim)}, {report.runs:,} runs: {verdict}",
            x=0.012,
            ha="left",
            fontsize=11,
            fontweight="bold",
            color=LIGHT["ink" if report.passed else "red"],
        )
        return figure


def _bounds(axes: Axes, layers: Sequence[Layer], claim: float) -> None:
    for place, layer in enumerate(layers):
        found = layer.finding.found
        colour = LIGHT["blue" if layer.finding.passed else "red"]
        axes.barh(place, found, height=0.5, color=colour)
        text = f"ε ≥ {found:.2f}" if found else "nothing seen"
        axes.annotate(
            text, (found, place), xytext=(4, 0), textcoords="offset points", va="center", color=LIGHT["muted"]
        )
    axes.axvline(claim, color=LIGHT["ink"], linewidth=1.2)
    axes.annotate(
        " claim",
        (claim, 1),
        xycoords=("data", "axes fraction"),
        va="top",
    )
    axes.set_yticks(range(len(layers)), [f"{layer.finding.layer}, {_PARTS[layer.part]}" for layer in layers])
    axes.set_xlim(0, 1.25 * max([claim, *(layer.finding.found for layer in layers)]))
    axes.set_ylim(len(layers) - 0.4, -0.9)
    axes.set_xlabel("shown with 95 % confidence: ε is at least this")
    bare(axes, "left")


def _p_values(axes: Axes, layers: Sequence[Layer]) -> None:
    """Points on a log axis that ends at 10^-12: left of the alarm the noise is not what it is said to be."""
    axes.set_xscale("log")
    for place, layer in enumerate(layers):
        colour = LIGHT["blue" if layer.finding.passed else "red"]
        axes.plot([max(layer.finding.found, 1e-12)], [place], "o", color=colour, markersize=8)
    axes.axvline(ALARM, color=LIGHT["ink"], linewidth=1.2)
    axes.annotate("alarm ", (ALARM, 1), xycoords=("data", "axes fraction"), va="top", ha="right")
    axes.set_yticks(range(len(layers)), [_PARTS[layer.part] for layer in layers])
    axes.set_xlim(5e-13, 2)
    axes.set_xticks([1e-12, 1e-8, 1e-4, 1], ["≤ 10⁻¹²", "10⁻⁸", "10⁻⁴", "1"])
    axes.minorticks_off()
    axes.set_ylim(len(layers) - 0.4, -0.9)
    axes.grid(axis="y")
    axes.set_xlabel("probability of such a variance of the noise")
    bare(axes, "left")
