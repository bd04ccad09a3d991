"""An audit as a picture: what was shown against what is claimed."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedballot.privacy.audit.mechanisms import ALARM
from fedballot.report.canvas import bare, canvas, style
from fedballot.report.palette import LIGHT
from fedballot.studies.audit import AuditReport, Layer

_PARTS = {"mechanism": "the mechanism", "clients": "real clients"}


def audit_figure(report: AuditReport) -> Figure:
    """Draw lower bounds beside the claims, and p-values, on white for a PNG file."""
    bounds = [layer for layer in report.layers if layer.finding.about[1] != "p"]
    p_values = [layer for layer in report.layers if layer.finding.about[1] == "p"]
    with style(white=True):
        figure = Figure(figsize=(11, 1.8 + 0.3 * max(len(bounds), len(p_values))), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        _bounds(left, bounds)
        if p_values:
            _p_values(right, p_values)
        else:
            right.set_axis_off()
        verdict = "nothing contradicts the claim" if report.passed else "THE CLAIM IS CONTRADICTED"
        figure.suptitle(
            f"{report.method}, {report.runs:,} runs: {verdict}",
            x=0.012,
            ha="left",
            fontsize=11,
            fontweight="bold",
            color=LIGHT["ink" if report.passed else "red"],
        )
        return figure


def panel_figures(report: AuditReport) -> list[tuple[str, Figure]]:
    """Draw bounds, and p-values where there are any, each for a page."""
    kinds = (("bounds", _bounds, False), ("p-values", _p_values, True))
    made = []
    for name, draw, are_p in kinds:
        layers = [layer for layer in report.layers if (layer.finding.about[1] == "p") == are_p]
        if layers:
            with style():
                figure, axes = canvas(1.1 + 0.32 * len(layers))
                draw(axes, layers)
                if not are_p:
                    axes.set_xlabel("at least; the line is the claim")
                made.append((name, figure))
    return made


def _bounds(axes: Axes, layers: Sequence[Layer]) -> None:
    for place, layer in enumerate(layers):
        finding, (_, what) = layer.finding, layer.finding.about
        axes.barh(place, finding.found, height=0.5, color=LIGHT["blue" if finding.passed else "red"])
        text = f"{what} ≥ {finding.found:.2f}" if finding.found else "nothing seen"
        axes.annotate(
            text, (finding.found, place), xytext=(4, 0), textcoords="offset points", va="center", color=LIGHT["muted"]
        )
        axes.plot([finding.claim] * 2, [place - 0.45, place + 0.45], color=LIGHT["ink"], linewidth=1.2)
    axes.set_yticks(range(len(layers)), [_name(layer) for layer in layers])
    axes.set_xlim(0, 1.25 * max((max(one.finding.claim, one.finding.found) for one in layers), default=1.0))
    axes.set_ylim(len(layers) - 0.4, -0.9)
    axes.set_xlabel("shown with 95 % confidence or more: at least this; the line is the claim")
    bare(axes, "left")


def _name(layer: Layer) -> str:
    return f"{layer.finding.layer}: {layer.release}, {_PARTS[layer.part]}"


def _p_values(axes: Axes, layers: Sequence[Layer]) -> None:
    """Points on a log axis that ends at 10^-12: left of the alarm the claim is not true."""
    axes.set_xscale("log")
    for place, layer in enumerate(layers):
        colour = LIGHT["blue" if layer.finding.passed else "red"]
        axes.plot([max(layer.finding.found, 1e-12)], [place], "o", color=colour, markersize=8)
    axes.axvline(ALARM, color=LIGHT["ink"], linewidth=1.2)
    axes.annotate("alarm ", (ALARM, 1), xycoords=("data", "axes fraction"), va="top", ha="right")
    axes.set_yticks(range(len(layers)), [_name(layer) for layer in layers])
    axes.set_xlim(5e-13, 4)
    axes.set_xticks([1e-12, 1e-8, 1e-4, 1], ["≤ 10⁻¹²", "10⁻⁸", "10⁻⁴", "1"])
    axes.minorticks_off()
    axes.set_ylim(len(layers) - 0.4, -0.9)
    axes.grid(axis="y")
    axes.set_xlabel("p-value of what was seen")
    bare(axes, "left")
