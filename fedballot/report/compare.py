"""Runs side by side: a table, and accuracy against ε and against bytes, with unlike guarantees kept apart."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fedballot.core.errors import SettingsError
from fedballot.core.files import check_ours
from fedballot.privacy.words import WEAK, Tone, holds, meaning, tone
from fedballot.report.canvas import PICTURES, write_picture
from fedballot.report.compare_plot import bytes_figure, comparison_figure, privacy_figure, series
from fedballot.report.html import write_page
from fedballot.report.palette import MARKS
from fedballot.report.svg import inline_svg
from fedballot.runs.results import load_result


@dataclass(frozen=True)
class Row:
    """One run in a comparison. What a run did not measure, or does not guarantee, is None.

    Attributes
    ----------
    number : int
        Place in the comparison, from 1; the mark in the plots.
    name, path, method, status : str
        Folder name, folder, method, and `done`, `running`, `stopped` or `failed`.
    server_accuracy, label_accuracy, client_accuracy : float or None
        Fractions in 0..1; the last is the mean over clients.
    epsilon, delta : float or None
        Of the headline guarantee, the first one of the run; an epsilon of None is no finite ε.
    unit, adjacency, view, trust, guarantee_status : str or None
        What that guarantee speaks of; None where the run has no mechanism.
    n : int or None
        Number of units among which one is protected, where it is known.
    bytes_up : int or None
        Bytes that all clients sent.
    wall_s : float or None
        Seconds.
    """

    number: int
    name: str
    path: str
    method: str
    status: str
    server_accuracy: float | None
    label_accuracy: float | None
    client_accuracy: float | None
    epsilon: float | None
    delta: float | None
    unit: str | None
    adjacency: str | None
    view: str | None
    trust: str | None
    guarantee_status: str | None
    n: int | None
    bytes_up: int | None
    wall_s: float | None

    @property
    def tone(self) -> Tone:
        """How the guarantee is to be taken at a glance: good, warn or bad."""
        return tone(self._stated)

    @property
    def protects(self) -> bool:
        """Whether the run's guarantee protects anybody."""
        return holds(self._stated)

    @property
    def _stated(self) -> dict[str, Any]:
        return {**vars(self), "status": self.guarantee_status or "none"}

    @property
    def accuracy(self) -> float | None:
        """The accuracy to plot: the server's, or the clients' mean where there is no server model."""
        return self.client_accuracy if self.server_accuracy is None else self.server_accuracy

    @property
    def meaning(self) -> str | None:
        """What the ε speaks of, in words; only rows of one meaning can be ranked by ε. None: nothing is guaranteed."""
        if self.epsilon is None or self.guarantee_status in (None, "none"):
            return None
        return meaning(self._stated)


@dataclass(frozen=True)
class Comparison:
    """Runs side by side, in the order given, and what a reader must know before ranking them."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def compare(dirs: list[Path]) -> Comparison:
    """Put runs side by side.

    Parameters
    ----------
    dirs : list of Path
        Run folders, at least one.

    Returns
    -------
    Comparison
        One row per folder. Runs that are not done are listed with what is known.

    Raises
    ------
    SettingsError
        No folder is given.
    DataError
        A folder is missing, or is not a run folder (see `load_result`).
    """
    if not dirs:
        raise SettingsError("compare needs at least one run folder; name those that 'fedballot run' wrote.")
    rows = tuple(_row(number, Path(path)) for number, path in enumerate(dirs, start=1))
    return Comparison(rows, tuple(_notes(rows)))


def write_compare(dirs: list[Path], out: Path) -> Path:
    """Write a comparison as a page or as a picture.

    Parameters
    ----------
    dirs : list of Path
        Run folders, at least one.
    out : Path
        `*.html` for a self-contained page with table and plots, `*.png`, `*.svg` or `*.pdf` for the plots alone.

    Returns
    -------
    Path
        `out`, written atomically.

    Raises
    ------
    SettingsError
        No folder is given, `out` ends otherwise, or is a file that fedballot did not write.
    DataError
        A folder is missing, or is not a run folder.
    """
    out = Path(out)
    if out.suffix not in (".html", *PICTURES):
        kinds = f".html, {', '.join(PICTURES)}"
        raise SettingsError(f"{out}: a comparison is written as {kinds}; end the name with one of them.")
    check_ours(out)
    comparison = compare(dirs)
    if out.suffix in PICTURES:
        write_picture(comparison_figure(comparison.rows), out)
        return out
    plots = [
        (title, Markup(inline_svg(figure, prefix, alt)))
        for title, prefix, alt, figure in (
            ("Accuracy and privacy", "privacy", "Accuracy of each run against its ε.", privacy_figure(comparison.rows)),
            ("Accuracy and bytes", "bytes", "Accuracy of each run against bytes sent.", bytes_figure(comparison.rows)),
        )
        if figure is not None
    ]
    values = {
        "rows": comparison.rows,
        "notes": comparison.notes,
        "plots": plots,
        "styles": series(comparison.rows),
        "marks": MARKS,
    }
    return write_page("compare.html.j2", values, out)


def _row(number: int, path: Path) -> Row:
    result = load_result(path)
    metrics, guarantees = result.get("metrics", {}), result.get("guarantees", [])
    first = guarantees[0] if guarantees else {}
    return Row(
        number=number,
        name=path.resolve().name,
        path=str(path),
        method=result["method"],
        status=result["status"],
        server_accuracy=metrics.get("server_accuracy"),
        label_accuracy=metrics.get("label_accuracy"),
        client_accuracy=(metrics.get("client_accuracy") or {}).get("mean"),
        epsilon=first.get("epsilon"),
        delta=first.get("delta"),
        unit=first.get("unit"),
        adjacency=first.get("adjacency"),
        view=first.get("view"),
        trust=first.get("trust"),
        guarantee_status=first.get("status"),
        n=first.get("n"),
        bytes_up=result.get("communication", {}).get("bytes_up"),
        wall_s=result.get("timing", {}).get("wall_s"),
    )


def _notes(rows: tuple[Row, ...]) -> list[str]:
    private = [row for row in rows if row.epsilon is not None]
    notes = []
    if len({row.meaning for row in private}) > 1:
        notes.append(
            "These runs give guarantees of different kinds (colour and marker tell them apart): they protect "
            "different units, from different eyes, or rest on different trust. Compare ε only within one colour."
        )
    if len({row.delta for row in private}) > 1:
        notes.append("The runs use different δ; a smaller ε at a larger δ need not be the stronger guarantee.")
    seeded = [row.name for row in rows if (row.guarantee_status or "").startswith("seeded")]
    if seeded:
        notes.append(f"Not private, because the noise was seeded: {', '.join(seeded)}.")
    weak = [row.name for row in private if (row.epsilon or 0.0) > WEAK]
    if weak:
        notes.append(f"An ε above {WEAK:g} excludes next to nothing: {', '.join(weak)}.")
    shamed = [row.name for row in private if row.n is not None and (row.delta or 0.0) >= 1 / row.n]
    if shamed:
        notes.append(
            "δ is at least 1/n, so that publishing one of the n in full, chosen at random, would satisfy it: "
            f"{', '.join(shamed)}."
        )
    without = [row.name for row in rows if row.status == "done" and row.epsilon is None]
    if without:
        notes.append(f"Without a finite ε, at the mark “none”: {', '.join(without)}.")
    unfinished = [f"{row.name} ({row.status})" for row in rows if row.status != "done"]
    if unfinished:
        notes.append(f"Not finished, and not plotted: {', '.join(unfinished)}.")
    return notes
