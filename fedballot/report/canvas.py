"""What all figures share: matplotlib settings in the page's colours, axes in per cent, short names."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedballot import __version__
from fedballot.core.errors import SettingsError
from fedballot.core.files import check_ours, write_atomic
from fedballot.report.palette import LIGHT

PICTURES = (".png", ".svg", ".pdf")

WIDTH = 5.0  # inches: as wide as a phone shows it, so that 9 pt stays 9 pt there
# Text stays text: smaller, searchable, and set in the page's own font.
_RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "fedballot",
    "text.parse_math": False,  # a dollar in a class's name is a dollar
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": LIGHT["faint"],
    "axes.linewidth": 0.8,
    "axes.labelcolor": LIGHT["muted"],
    "axes.labelsize": 9,
    "axes.titlecolor": LIGHT["ink"],
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "text.color": LIGHT["ink"],
    "xtick.color": LIGHT["faint"],
    "ytick.color": LIGHT["faint"],
    "xtick.labelcolor": LIGHT["muted"],
    "ytick.labelcolor": LIGHT["muted"],
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "axes.axisbelow": True,
    "grid.color": LIGHT["rule"],
    "grid.linewidth": 0.8,
}


@contextmanager
def style(white: bool = False) -> Iterator[None]:
    """Draw or save figures with the page's settings; `white` gives sharp PNG files on white."""
    more: dict[Any, Any] = {"figure.facecolor": "white", "figure.dpi": 160} if white else {}
    with matplotlib.rc_context({**_RC, **more}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)  # a page has fonts of its own
        warnings.filterwarnings("ignore", "constrained_layout not applied", UserWarning)  # it is drawn all the same
        yield


def check_picture(path: Path, endings: Sequence[str] = PICTURES) -> None:
    """Refuse a name that ends otherwise, a folder that is not there, or a file that is none of ours.

    Raises
    ------
    SettingsError
        Naming the path.
    """
    if path.suffix.lower() not in endings or not path.parent.is_dir():
        raise SettingsError(f"--out {path}: must be a {' or '.join(endings)} file in a folder that exists")
    check_ours(path)


def write_picture(figure: Figure, path: Path) -> None:
    """Write a figure on white, as the path's ending says; its metadata name fedballot."""
    kind = path.suffix.lower().removeprefix(".")
    metadata = {("Software" if kind == "png" else "Creator"): f"fedballot {__version__}"}
    with style(white=True):
        write_atomic(path, lambda stream: figure.savefig(stream, format=kind, metadata=metadata))


def canvas(height: float) -> tuple[Figure, Axes]:
    """Make a figure of the page's width and the given height in inches, with one pair of axes."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.add_subplot()


def bare(axes: Axes, *sides: str) -> None:
    """Take spines and the y axis's tick marks away."""
    for side in sides:
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)


def percent_axis(axes: Axes, which: str, low: float, high: float) -> None:
    """Zoom in to where the values are, in whole steps, and never past 0 or 100 %."""
    spread = max(high - low, 0.02)
    step = next(s for s in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2) if spread / s <= 6 or s == 0.2)
    bottom = max(0.0, np.floor((low - 0.25 * step) / step) * step)
    top = min(1.0, np.ceil((high + 0.1 * step) / step) * step)
    ticks = np.arange(bottom, top + step / 2, step)
    labels = [f"{100 * tick:.{1 if step < 0.01 else 0}f} %" for tick in ticks]
    pad = 0.015 * (top - bottom)
    if which == "x":
        axes.set_xlim(bottom - pad, top + pad)
        axes.set_xticks(ticks, labels)
    else:
        axes.set_ylim(bottom, top + pad)
        axes.set_yticks(ticks, labels)


def whole_ticks(axes: Axes, which: str, most: int = 9) -> None:
    """Put ticks on whole numbers only."""
    (axes.xaxis if which == "x" else axes.yaxis).set_major_locator(MaxNLocator(most, integer=True, steps=[1, 2, 5, 10]))


def short(name: str) -> str:
    """Cut a long class name so that it leaves room for the plot."""
    return name if len(name) <= 16 else name[:15] + "…"
