"""A table on a page, and as CSV, LaTeX and Markdown."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedballot.core.errors import SettingsError
from fedballot.core.files import write_atomic
from fedballot.core.numbers import NBSP
from fedballot.report.plot import Download, download

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
_SIGNS = {"ε": r"$\varepsilon$", "δ": r"$\delta$", "σ": r"$\sigma$", "Δ": r"$\Delta$", "∞": r"$\infty$", "–": "--"}
_SIGNS |= {"±": r"$\pm$", "≤": r"$\le$", "≥": r"$\ge$", "×": r"$\times$", "−": r"$-$"}
_LATEX |= _SIGNS | {str(n): rf"$^{{{i}}}$" for i, n in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")} | {"⁻": "$^{-}$"}
ALIKE = 12  # bytes: tables of one kind begin alike
_SPACES = dict.fromkeys((NBSP, "\u00a0", "\u202f", "\n"), " ")


@dataclass(frozen=True)
class Table:
    """Rows of written cells under a head.

    Attributes
    ----------
    name : str
        Of its files.
    caption : str
    head : tuple of str
    rows : tuple of tuple of str
        The first cell names the row.
    texts : tuple of int
        Columns of words; the others are numbers, and stand at the right.
    note : str
        What to know when reading it.
    """

    name: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: tuple[int, ...] = (0,)
    note: str = ""

    @property
    def downloads(self) -> tuple[Download, ...]:
        """The table as files."""
        return tuple(
            download(f"{self.name}{ending}", word, f"{kind};charset=utf-8", write(self).encode())
            for ending, (word, kind, write) in FORMATS.items()
        )


def to_csv(table: Table) -> str:
    """The cells, as RFC 4180 has them."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([_plain(cell) for cell in row] for row in _lines(table))
    return stream.getvalue()


def to_markdown(table: Table) -> str:
    """A table of GitHub's Markdown."""
    rule = ["---" if place in table.texts else "---:" for place in range(len(table.head))]
    head, *rows = ([_plain(cell).replace("|", "\\|") for cell in row] for row in _lines(table))
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, rule, *rows))


def to_latex(table: Table) -> str:
    """A tabular with the rules of booktabs."""
    columns = "".join("l" if place in table.texts else "r" for place in range(len(table.head)))
    head, *rows = ([_latex(_plain(cell)) for cell in row] for row in _lines(table))
    lines = [f"{' & '.join(row)} \\\\" for row in rows]
    body = ["\\toprule", f"{' & '.join(head)} \\\\", "\\midrule", *lines, "\\bottomrule"]
    return "\n".join(["% \\usepackage{booktabs}", f"\\begin{{tabular}}{{{columns}}}", *body, "\\end{tabular}", ""])


# by the ending of a file: the link's word, the kind of file, and what writes it
FORMATS: dict[str, tuple[str, str, Callable[[Table], str]]] = {
    ".csv": ("CSV", "text/csv", to_csv),
    ".tex": ("LaTeX", "application/x-tex", to_latex),
    ".md": ("Markdown", "text/markdown", to_markdown),
}


def write_table(table: Table, path: Path) -> None:
    """Write a table as the file's ending says.

    Raises
    ------
    SettingsError
        If a file is there that does not begin as such a table does.
    """
    _, _, write = FORMATS[path.suffix]
    text = write(table).encode()
    if path.is_file() and path.read_bytes()[:ALIKE] != text[:ALIKE]:
        raise SettingsError(f"--out {path}: is there already and is none of fedballot's files; name another")
    write_atomic(path, lambda stream: stream.write(text))


def _lines(table: Table) -> Sequence[Sequence[str]]:
    return [table.head, *table.rows]


def _plain(cell: str) -> str:
    return "".join(_SPACES.get(sign, sign) for sign in cell)


def _latex(cell: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in cell)
