"""A comparison as a page, a table or a picture."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from fedballot.core.errors import SettingsError
from fedballot.core.files import check_ours
from fedballot.core.numbers import delta, epsilon, seconds, size
from fedballot.core.setting import declaration
from fedballot.report.canvas import PICTURES, write_picture
from fedballot.report.compare import Comparison, compare
from fedballot.report.compare_plot import (
    Whose,
    bytes_figure,
    comparison_figure,
    leak_figure,
    privacy_figure,
    series,
    setting_figure,
)
from fedballot.report.groups import MISSING, PRESET, Group, Line, lines_of
from fedballot.report.html import script, write_page
from fedballot.report.palette import MARKS
from fedballot.report.plot import Plot, drawn
from fedballot.report.tables import FORMATS, Table, write_table
from fedballot.settings.parts import CommonSettings

WHOSE: dict[Whose, str] = {"server": "Server accuracy", "clients": "Clients’ own accuracy"}
LEAK = ("members found at 1 % false alarms", "ε shown")
# what no paper's table shows: our presets' names, each machine's settings, and the seed of noise that protects nobody
UNSHOWN = {one.name for one in fields(CommonSettings) if declaration(one).reads == "machine"} | {"noise_seed", PRESET}


def write_compare(dirs: list[Path], out: Path, attacks: Sequence[Path] = ()) -> Path:
    """Write a comparison.

    Parameters
    ----------
    dirs : list of Path
        Run folders, at least one.
    out : Path
        `*.html` for a self-contained page with tables and plots, `*.csv` for the table alone, `*.tex` or `*.md`
        for what a paper shows of it,
        `*.png`, `*.svg` or `*.pdf` for the plots alone.
    attacks : sequence of Path
        See `compare`.

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
    comparison = compare(dirs, attacks)
    if out.suffix in FORMATS:
        write_table(compare_table(comparison) if out.suffix == ".csv" else paper_table(comparison), out)
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
        "attacked": any(group.first.leak for group in groups),
        "table": compare_table(comparison),
        "plots": _plots(comparison),
        "styles": series(groups),
        "marks": MARKS,
    }
    return write_page("compare.html.j2", values, out, script("tables.js"))


def compare_table(comparison: Comparison) -> Table:
    """A row for each group of runs: where it differs, what was measured, what is guaranteed."""
    groups = comparison.groups
    names, attacked = list(groups[0].differs), any(group.first.leak for group in groups)
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
            delta(group.delta),
            group.first.meaning or "–",
            size(group.over_seeds("bytes_up")[0]),
            seconds(group.over_seeds("wall_s")[0]),
            *(_leak(group) if attacked else ()),
        )
        for group in groups
    )
    head = ("run", "method", "status", *map(_heading, names), "seeds")
    head += (
        "accuracy",
        "clients",
        "labels",
        "ε",
        "δ",
        "what ε speaks of",
        "bytes up",
        "time",
        *(LEAK if attacked else ()),
    )
    texts = (0, 1, 2, *range(3, 3 + len(names)), 3 + len(names) + 6)
    return Table("comparison", "The runs", head, rows, texts)


def paper_table(comparison: Comparison) -> Table:
    """What a paper shows: method, settings that differ, accuracy, and what is guaranteed; columns of dashes go.

    Left out are settings of the machine and the seeds of noise. Where the runs' epsilons speak of different things, all
    of that stands beside each.
    """
    groups = comparison.groups
    names = [name for name in groups[0].differs if name not in UNSHOWN]
    unlike = len({group.kind for group in groups} - {None}) > 1
    head = ("method", *map(_heading, names), "seeds", "accuracy", "clients’ accuracy", "ε", "δ")
    head += ("what ε speaks of" if unlike else "unit", "bytes up", *LEAK)
    rows = [
        (
            group.first.method + ("" if group.first.status == "done" else f" ({group.first.status})"),
            *(group.differs[name] for name in names),
            str(len(group.rows)) if any(len(one.rows) > 1 for one in groups) else MISSING,
            group.written("server_accuracy"),
            group.written("client_accuracy") if group.over_seeds("server_accuracy")[0] is None else MISSING,
            epsilon(group.epsilon) if group.first.guarantee_status else MISSING,
            delta(group.delta),
            _unit(group, unlike=unlike),
            size(group.over_seeds("bytes_up")[0]),
            *_leak(group),
        )
        for group in groups
    ]
    shown = [place for place in range(len(head)) if place == 0 or {row[place] for row in rows} != {MISSING}]
    texts = (0, *range(1, 1 + len(names)), len(head) - 2 - len(LEAK))
    return Table(
        "comparison",
        "The runs",
        tuple(head[place] for place in shown),
        tuple(tuple(row[place] for place in shown) for row in rows),
        tuple(new for new, place in enumerate(shown) if place in texts),
    )


def _heading(setting: str) -> str:
    """A setting over its column; what was asked is not what is guaranteed."""
    return {"epsilon": "ε asked", "delta": "δ asked"}.get(setting, setting.replace("_", " "))


def _leak(group: Group) -> tuple[str, str]:
    """What an attack found, of :data:`LEAK`."""
    leak = group.first.leak
    return (MISSING, MISSING) if leak is None else (leak.words, f"≥ {leak.epsilon:.2f}")


def _unit(group: Group, *, unlike: bool) -> str:
    if group.first.meaning is None:
        return MISSING
    if not group.protects:
        return f"nobody ({group.first.guarantee_status})"
    return group.first.meaning if unlike else f"{group.first.unit} ({group.first.adjacency})"


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
        figures = {
            "privacy": ("ε", privacy_figure(groups, whose)),
            "leak": ("members found", leak_figure(groups, whose)),
            "bytes": ("bytes", bytes_figure(groups, whose)),
        }
        for kind, (name, figure) in figures.items():
            if figure is not None:
                title, alt = f"{words} and {name}", f"{words} of each run against {name}."
                place = f"{whose}-{kind}"
                found.append(drawn(title, figure, place, alt, "", pdf=True))
    return found
