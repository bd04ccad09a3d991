"""The page of poisoning: how far malicious clients moved what is released, and the server's model."""

from __future__ import annotations

from matplotlib.figure import Figure

from fedballot.core import numbers
from fedballot.report.canvas import WIDTH, bare, style
from fedballot.report.palette import LIGHT, SERIES
from fedballot.report.plot import drawn
from fedballot.report.study import Study
from fedballot.report.tables import Table
from fedballot.report.view import Headline
from fedballot.studies.attacks.poison import Aim
from fedballot.studies.attacks.poisoning import AIMS, Cell, Mean, Poisoned

STRENGTHS = {
    "flipped": "wrong labels to train on, all else by the rules",
    "permitted": "the worst message by the rules",
    "passing": "the worst that is not refused",
}
_FEW = 10  # runs from which on intervals are narrow enough to compare methods by


def poison_page(found: Poisoned, command: str = "") -> Study:
    """What the page says."""
    start = found.cells[0]
    most = max(cell.malicious for cell in found.cells)
    ends = [cell for cell in found.cells if cell.malicious == most]
    lowest = min(ends, key=lambda cell: cell.accuracy.value)
    farthest = max(ends, key=lambda cell: cell.changed.value)
    fooled = max((cell for cell in ends if cell.aim == "targeted"), key=lambda cell: cell.mistaken.value)
    who = f"{most} of {found.clients} malicious"
    headlines = (
        Headline("Accuracy", numbers.percent(start.accuracy.value), "with honest clients alone"),
        Headline(f"With {who}", numbers.percent(lowest.accuracy.value), _interval(lowest.accuracy), "bad"),
        Headline("Labels changed", numbers.percent(farthest.changed.value), _interval(farthest.changed)),
        Headline("Taken for the wanted class", numbers.percent(fooled.mistaken.value), _interval(fooled.mistaken)),
    )
    warnings = [f"{found.runs} runs: intervals are wide; {_FEW} or more are for comparing methods"]
    boundless = found.masked or any(check.startswith("no bound") for check in found.checks)
    words = "Where a line falls at one malicious client, nothing bounds what one of them may send."
    names = "Accuracy, and the share of one class taken for another, against the number of malicious clients."
    return Study(
        kind="Attack",
        title=found.method,
        lede=f"Up to {who}, who know what all others answer. Everything else is the method’s own client and server, in "
        f"{found.runs} federations of {found.clients} clients, each with a split, malicious clients and noise of its "
        "own.",
        headlines=headlines,
        warnings=tuple(warnings) if found.runs < _FEW else (),
        quote=("bad" if boundless else "good", f"What bounds a client: {'; '.join(found.checks)}."),
        plots=(drawn("Against malicious clients", poison_figure(found), "attack-poison", names, words, pdf=True),),
        tables=tuple(poison_table(found, aim) for aim in AIMS),
        notes=(
            "Untargeted, they want any wrong label, the runner-up of what others say; targeted, records of one class "
            "labelled as another; the two are drawn in each run.",
            "Labels changed are those that the server releases (of test records, by its model, where it releases "
            "none), against the same run with honest clients alone; at 0 malicious clients it is what noise changes. "
            "Honest clients of a method of one round have the same noise in both.",
            "Intervals are Student’s, at 95 %, over the runs. Somebody may attack better.",
        ),
        command=command,
    )


def poison_table(found: Poisoned, aim: Aim) -> Table:
    """A row for each kind of message and number of malicious clients."""
    rows = tuple(
        (
            STRENGTHS[strength],
            str(cell.malicious),
            *map(_words, (cell.changed, cell.accuracy, cell.mistaken)),
            numbers.percent(cell.refused),
        )
        for strength in found.strengths
        for cell in found.series(aim, strength)
    )
    head = ("message", "malicious", "labels changed", "accuracy", "one class taken for another", "refused")
    return Table(f"poison-{aim}", f"{aim.capitalize()}, of {found.clients} clients", head, rows)


def poison_figure(found: Poisoned, *, white: bool = False) -> Figure:
    """Draw accuracy under the untargeted aim, and under the other the share of one class taken for another."""
    with style(white=white):
        figure = Figure(figsize=(6.4 if white else WIDTH, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        parts = ((left, AIMS[0], "accuracy"), (right, AIMS[1], "one class taken for another"))
        for axes, aim, label in parts:
            for place, strength in enumerate(found.strengths):
                cells = found.series(aim, strength)
                means = [cell.accuracy if axes is left else cell.mistaken for cell in cells]
                colour, marker = SERIES[place]
                axes.errorbar(
                    [cell.malicious for cell in cells],
                    [mean.value for mean in means],
                    [[mean.value - mean.low for mean in means], [mean.high - mean.value for mean in means]],
                    color=LIGHT[colour],
                    marker=marker,
                    markersize=5,
                    capsize=2,
                    label=STRENGTHS[strength] if axes is left else None,
                )
            axes.set_xticks([cell.malicious for cell in cells])
            axes.set_ylim(-0.02, 1.02)
            axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
            axes.set_title(f"{aim}: {label}", fontsize=9, loc="left")
            axes.set_xlabel(f"malicious clients of {found.clients}")
            axes.grid(axis="y")
            bare(axes, "left")
        figure.legend(loc="outside lower left")
        if white:
            figure.suptitle(found.method, x=0.012, ha="left", fontsize=11, fontweight="bold", color=LIGHT["ink"])
        return figure


def frame_row(found: Poisoned, cell: Cell) -> dict[str, object]:
    """A cell as a row of a data frame."""
    means = {"labels_changed": cell.changed, "accuracy": cell.accuracy, "mistaken": cell.mistaken}
    known = {"method": found.method, "aim": cell.aim, "message": cell.strength, "malicious": cell.malicious}
    spread = {f"{name}_{end}": getattr(one, end) for name, one in means.items() for end in ("low", "high")}
    return {**known, **{name: one.value for name, one in means.items()}, **spread, "refused": cell.refused}


def _interval(mean: Mean) -> str:
    return f"{numbers.percent(mean.low)} to {numbers.percent(mean.high)} at 95 % confidence"


def _words(mean: Mean) -> str:
    return f"{numbers.percent(mean.value)} ({100 * mean.low:.0f}–{100 * mean.high:.0f})"
