"""A comparison as a page, a table or a picture."""

from pathlib import Path

from fedballot.core.errors import SettingsError
from fedballot.core.files import check_ours
from fedballot.core.numbers import delta, epsilon, seconds, size
from fedballot.report.canvas import PICTURES, write_picture
from fedballot.report.compare import Comparison, compare
from fedballot.report.compare_plot import Whose, bytes_figure, comparison_figure, privacy_figure, series, setting_figure
from fedballot.report.groups import Line, lines_of
from fedballot.report.html import script, write_page
from fedballot.report.palette import MARKS
from fedballot.report.plot import Plot, drawn
from fedballot.report.tables import FORMATS, Table, write_table

WHOSE: dict[Whose, str] = {"server": "Server accuracy", "clients": "Clients’ own accuracy"}


def write_compare(dirs: list[Path], out: Path) -> Path:
    """Write a comparison.

    Parameters
    ----------
    dirs : list of Path
        Run folders, at least one.
    out : Path
        `*.html` for a self-contained page with tables and plots, `*.csv`, `*.tex` or `*.md` for the table alone,
        `*.png`, `*.svg` or `*.pdf` for the plots alone.

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
    endings = (".html", *PICTURES, *FORMATS)
    if out.suffix not in endings:
        raise SettingsError(f"{out}: a comparison is written as {', '.join(endings)}; end the name with one of them.")
    comparison = compare(dirs)
    if out.suffix in FORMATS:
        write_table(compare_table(comparison), out)
        return out
    check_ours(out)
    if out.suffix in PICTURES:
        write_picture(comparison_figure(comparison.groups), out)
        return out
    groups = comparison.groups
    values = {
        "comparison": comparison,
        "groups": groups,
        "differs": list(groups[0].differs),
        "table": compare_table(comparison),
        "plots": _plots(comparison),
        "styles": series(groups),
        "marks": MARKS,
    }
    return write_page("compare.html.j2", values, out, script("tables.js"))


def compare_table(comparison: Comparison) -> Table:
    """A row for each group of runs: where it differs, what was measured, what is guaranteed."""
    groups = comparison.groups
    names = list(groups[0].differs)
    rows = tuple(
        (
            group.name,
            group.first.method,
            group.first.status,
            *group.differs.values(),
            str(len(group.rows)),
            group.written("server_accuracy"),
            group.written("client_accuracy"),
            group.written("label_accuracy"),
            epsilon(group.epsilon) if group.first.guarantee_status else "–",
            delta(group.delta) if group.first.guarantee_status else "–",
            group.first.meaning or "–",
            size(group.over_seeds("bytes_up")[0]),
            seconds(group.over_seeds("wall_s")[0]),
        )
        for group in groups
    )
    head = ("run", "method", "status", *(name.replace("_", " ") for name in names), "seeds")
    head += ("accuracy", "clients", "labels", "ε", "δ", "what ε speaks of", "bytes up", "time")
    texts = (0, 1, 2, *range(3, 3 + len(names)), 3 + len(names) + 6)
    return Table("comparison", "The runs", head, rows, texts)


def _plots(comparison: Comparison) -> list[Plot]:
    groups, found = comparison.groups, []
    by_setting: dict[str, list[Line]] = {}
    for line in lines_of(groups):
        by_setting.setdefault(line.setting, []).append(line)
    for setting, lines in by_setting.items():
        figure, title = setting_figure(lines), f"Accuracy over {setting.replace('_', ' ')}"
        if figure is not None:
            caption = "Runs that differ in nothing else are joined; bars: one standard deviation over seeds."
            plots = drawn(title, figure, f"over-{setting}", f"{title}, a line for each method.", caption, pdf=True)
            found.append(plots)
    for whose, words in WHOSE.items():
        for name, figure in (("ε", privacy_figure(groups, whose)), ("bytes", bytes_figure(groups, whose))):
            if figure is not None:
                title, alt = f"{words} and {name}", f"{words} of each run against {name}."
                place = f"{whose}-{'privacy' if name == 'ε' else name}"
                found.append(drawn(title, figure, place, alt, "", pdf=True))
    return found
