"""How objects show themselves in a notebook: a heading, a table, a figure, without matplotlib's inline mode."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from fedballot.core.numbers import count

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ROWS = 30  # of a table; the rest is in the frame


def shown(heading: str, frame: pd.DataFrame | None, figure: Figure | None, words: Sequence[str] = ()) -> str:
    """Write an object as HTML for a notebook.

    Parameters
    ----------
    heading : str
    frame : DataFrame, optional
        Columns without any value are left out.
    figure : Figure, optional
    words : sequence of str
        Paragraphs above the table: a guarantee, or what to doubt.
    """
    parts = [f"<p><strong>{escape(heading)}</strong></p>", *(f"<p>{escape(line)}</p>" for line in words)]
    if frame is not None and len(frame):
        full = frame.dropna(axis="columns", how="all").map(_cell)
        parts.append(full.head(ROWS).to_html(index=False, border=0, justify="left"))
        if len(full) > ROWS:
            parts.append(f"<p>{count(len(full) - ROWS)} more rows: <code>to_frame()</code>.</p>")
    if figure is not None:
        parts.append(f'<img alt="{escape(heading)}" src="data:image/png;base64,{png(figure)}">')
    return "\n".join(parts)


def png(figure: Figure) -> str:
    """The figure on white as PNG, in base64."""
    from fedballot.report.canvas import style

    stream = io.BytesIO()
    with style(white=True):
        figure.savefig(stream, format="png", dpi=110, facecolor="white")
    return base64.b64encode(stream.getvalue()).decode()


def _cell(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return "" if value is None else value
    if isinstance(value, float):
        return "–" if math.isnan(value) else "∞" if math.isinf(value) else f"{value:.4g}"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
