"""A matplotlib figure as inline SVG that follows the page's colours, light or dark, and its fonts."""

import io
import re

from matplotlib.figure import Figure

from fedballot import __version__
from fedballot.report.canvas import style
from fedballot.report.palette import LIGHT


def standalone_svg(figure: Figure) -> str:
    """A figure as the text of an SVG file."""
    buffer = io.StringIO()
    with style():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": f"fedballot {__version__}"})
    return buffer.getvalue()


def inline_svg(text: str, prefix: str, alt: str) -> str:
    """Turn the text of an SVG file into one `<svg>` element for a page.

    Parameters
    ----------
    text : str
        Of `standalone_svg`, drawn with the light colours of the palette.
    prefix : str
        Put before every id, so that figures of one page do not clash.
    alt : str
        What the picture shows, for those who cannot see it.

    Returns
    -------
    str
        An SVG element without a fixed size, whose palette colours are CSS variables (`var(--ink)`), and
        which refers to nothing outside itself.
    """
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'(?:xlink:)?href="#', f'href="#{prefix}-', text)
    text = text.replace("url(#", f"url(#{prefix}-")
    head, body = text.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', head)
    label = alt.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    for name, value in LIGHT.items():
        body = body.replace(value, f"var(--{name})")
    return f'<svg {box.group(0) if box else ""} role="img" aria-label="{label}">{body.strip()}'
