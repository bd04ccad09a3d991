"""The page of a sweep: accuracy over what varies, and the table of its cells."""

from collections.abc import Sequence

from fedballot.core import numbers
from fedballot.report.plot import drawn
from fedballot.report.study import SEEDED, Study
from fedballot.report.sweep_plot import panel_figure, panels
from fedballot.report.tables import Table
from fedballot.report.view import Headline
from fedballot.studies.sweep import Row

COLUMNS = ("runs", "accuracy", "ε", "ε, paper’s", "δ", "what ε speaks of", "bytes per query")


def sweep_page(title: str, rows: Sequence[Row], command: str = "") -> Study:
    """What the page says.

    Parameters
    ----------
    title : str
        Method, and preset where there is one.
    rows : sequence of Row
        The cells of the grid.
    command : str
        What does it again.
    """
    known = [row for row in rows if row.accuracy is not None]
    failed = [reason for row in rows for reason in row.failed]
    warnings = [f"{len(failed)} runs failed, the first: {failed[0]}"] if failed else []
    if len({row.meaning for row in known}) > 1:
        warnings.append("the ε of these runs speak of different things: rank by ε only where the words beside it agree")
    return Study(
        kind="Sweep",
        title=title,
        lede=_summary(rows),
        stamp=SEEDED if any("seeded" in row.meaning for row in known) else (),
        headlines=_headlines(known),
        warnings=tuple(warnings),
        plots=tuple(
            drawn(
                one.title,
                panel_figure(one),
                f"sweep-{one.name}",
                f"{one.title}, {_range(known)}.",
                _range(known) + ".",
                pdf=True,
            )
            for one in panels(rows)
        ),
        tables=(sweep_table(rows),) if rows else (),
        notes=(
            "Accuracies are on test records, of the server’s model, or the clients’ mean where the server has none; "
            "± is the standard deviation over seeds. ε and δ are those of the first guarantee, rounded up.",
        ),
        command=command,
    )


def sweep_table(rows: Sequence[Row]) -> Table:
    """A row for each cell of the grid."""
    varied = list(rows[0].values)
    shown = tuple((*(row.values[key] for key in varied), *_written(row)) for row in rows)
    texts = (*(place for place, key in enumerate(varied) if not _numbers(rows, key)), len(varied) + 5)
    head = (*(key.replace("_", " ") for key in varied), *COLUMNS)
    return Table("sweep", "The cells of the grid", head, shown, texts)


def _numbers(rows: Sequence[Row], key: str) -> bool:
    try:
        return all(float(row.values[key]) is not None for row in rows)
    except ValueError:
        return False


def accuracy_words(row: Row) -> str:
    """Mean and spread over seeds."""
    return numbers.percent(row.accuracy) + ("" if row.spread is None else f" ± {100 * row.spread:.1f}")


def _written(row: Row) -> tuple[str, ...]:
    return (
        str(row.seeds),
        accuracy_words(row),
        numbers.epsilon(row.epsilon) if row.seeds else "–",
        "–" if row.claimed_epsilon is None else numbers.epsilon(row.claimed_epsilon),
        "–" if row.delta is None else numbers.delta(row.delta),
        row.meaning,
        "–" if row.bytes_per_query is None else f"{row.bytes_per_query:.2f}",
    )


def _summary(rows: Sequence[Row]) -> str:
    varied = {key: len({row.values[key] for row in rows}) for row in rows[:1] for key in row.values}
    words = " and ".join(f"{count} values of {key.replace('_', ' ')}" for key, count in varied.items() if count > 1)
    runs = sum(row.seeds for row in rows)
    seeds = max((row.seeds for row in rows), default=1)
    return f"{numbers.count(runs)} runs over {words or 'seeds'}" + (f", each with {seeds} seeds." if seeds > 1 else ".")


def _named(row: Row) -> str:
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in row.values.items())


def _range(known: Sequence[Row]) -> str:
    values = [row.accuracy for row in known if row.accuracy is not None]
    return f"accuracy from {numbers.percent(min(values))} to {numbers.percent(max(values))}" if values else ""


def _headlines(known: Sequence[Row]) -> tuple[Headline, ...]:
    if not known:
        return ()
    best = max(known, key=lambda row: row.accuracy or 0.0)
    found = [Headline("Best accuracy", numbers.percent(best.accuracy), _named(best))]
    if len(known) > 1:
        worst = min(known, key=lambda row: row.accuracy or 0.0)
        found.append(Headline("Lowest accuracy", numbers.percent(worst.accuracy), _named(worst)))
    found.append(
        Headline("ε of the best", numbers.epsilon(best.epsilon) if best.meaning != "–" else "none", best.meaning)
    )
    return tuple(found)
