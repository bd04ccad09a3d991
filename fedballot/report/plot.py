"""A figure on a page, with its heading and what it can be taken away as."""

import base64
import io
from dataclasses import dataclass

import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure

from fedballot import __version__
from fedballot.privacy.words import capital
from fedballot.report.canvas import style
from fedballot.report.svg import inline_svg, standalone_svg


@dataclass(frozen=True)
class Download:
    """A file that a page carries: its name, the link's word, and its content as a data URI."""

    name: str
    word: str
    uri: str


@dataclass(frozen=True)
class Plot:
    """An inline SVG with its heading, a caption that says what to see in it, and its files."""

    title: str
    svg: Markup
    caption: str
    downloads: tuple[Download, ...] = ()


def drawn(title: str, figure: Figure, name: str, alt: str, caption: str, *, pdf: bool = False) -> Plot:
    """A figure for a page.

    Parameters
    ----------
    name : str
        Of its files, and what keeps its ids apart from those of other figures.
    alt : str
        What the picture shows, for those who cannot see it.
    pdf : bool
        Whether the page carries it as a PDF too, which takes a tenth of a second.
    """
    text = standalone_svg(figure)
    caption = capital(caption) if caption[:1].isascii() else caption  # a large σ is a sum
    files = [download(f"{name}.svg", "SVG", "image/svg+xml", text.encode())]
    if pdf:
        files.append(download(f"{name}.pdf", "PDF", "application/pdf", _pdf(figure)))
    return Plot(title, Markup(inline_svg(text, name, alt)), caption, tuple(files))


def download(name: str, word: str, kind: str, content: bytes) -> Download:
    """A file within a page."""
    return Download(name, word, f"data:{kind};base64,{base64.b64encode(content).decode()}")


def _pdf(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    # journals refuse fonts of type 3
    with style(), matplotlib.rc_context({"pdf.fonttype": 42}):
        figure.savefig(buffer, format="pdf", metadata={"Creator": f"fedballot {__version__}", "CreationDate": None})
    return buffer.getvalue()
