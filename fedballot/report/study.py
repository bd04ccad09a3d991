"""The page of a study (a sweep, a frontier, a plan, an audit): figures, tables and what to doubt, on one pattern."""

from dataclasses import dataclass
from pathlib import Path

from fedballot.core.files import check_ours
from fedballot.report.html import write_page
from fedballot.report.plot import Plot
from fedballot.report.tables import Table
from fedballot.report.view import Headline


@dataclass(frozen=True)
class Study:
    """What such a page shows, from the top down; what is empty is left out.

    Attributes
    ----------
    kind, title, lede : str
        What it is, its heading, and a sentence that says what was done.
    stamp : tuple of str
        A heading and a sentence in a red frame: what makes all below worthless as a promise.
    headlines : tuple of Headline
    warnings : tuple of str
    quote : tuple of str
        A guarantee's tone and its sentence.
    plots, tables : tuples
    notes : tuple of str
        How to read it.
    command : str
        What does it again.
    """

    kind: str
    title: str
    lede: str
    stamp: tuple[str, ...] = ()
    headlines: tuple[Headline, ...] = ()
    warnings: tuple[str, ...] = ()
    quote: tuple[str, ...] = ()
    plots: tuple[Plot, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    command: str = ""


SEEDED = (
    "Seeded: not private",
    "The privacy noise of these runs came from a known seed, so that anybody who has the seed can take it away. They "
    "are good for tests; their ε protects nobody.",
)


def write_study(study: Study, path: Path) -> Path:
    """Write a study's page; a file there that is none of ours is refused.

    Raises
    ------
    SettingsError
        Naming the file.
    """
    check_ours(path)
    return write_page("study.html.j2", {"study": study}, path)
