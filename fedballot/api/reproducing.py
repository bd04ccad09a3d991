"""Rows of the results pages, run again."""

from __future__ import annotations

import dataclasses
import resource
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedballot.api.result import Result
from fedballot.api.sweeping import Sweep, run_sweep
from fedballot.api.watch import listener
from fedballot.core import numbers
from fedballot.core.errors import RunError
from fedballot.core.files import check_ours, write_atomic, write_json
from fedballot.core.progress import Progress

if TYPE_CHECKING:
    import pandas as pd

    from fedballot.report.tables import Table
    from fedballot.studies.rows import Difference, StoredRow
    from fedballot.studies.sweep import Row

KIB = 1024


@dataclass(frozen=True)
class Reproduction:
    """A row, run again.

    Attributes
    ----------
    stored : StoredRow
        What the results page has.
    runs : Sweep
        One run a seed.
    difference : Difference or None
        From the stored row; None where nothing is stored or measured.
    memory_gb : float or None
        Of the largest process; None where all runs were done before.
    """

    stored: StoredRow
    runs: Sweep
    difference: Difference | None
    memory_gb: float | None = None

    @property
    def measured(self) -> Row:
        """The row as measured now."""
        return self.runs.rows[0]

    @property
    def bytes_up(self) -> float | None:
        """What a client sent, in bytes, on average."""
        sent = [
            one.values["communication"]["bytes_up"] / one.values["clients"]["answered"]
            for one in self._done
            if one.values["clients"]["answered"]
        ]
        return sum(sent) / len(sent) if sent else None

    @property
    def minutes(self) -> float | None:
        """Of a run, on average."""
        times = [one.values["timing"]["wall_s"] / 60 for one in self._done]
        return sum(times) / len(times) if times else None

    @property
    def command(self) -> str:
        """What does it again."""
        number = len(self.runs.points)
        seeds = [] if number == self.stored.seeds else ["--seeds", str(number)]
        return shlex.join(["fedballot", "reproduce", self.stored.name, *seeds, "--out", str(self.runs.folder)])

    @property
    def _done(self) -> Sequence[Result]:
        return [one for one in self.runs.results if one.status == "done"]

    @property
    def sentence(self) -> str:
        """How it differs from the stored row."""
        if self.difference is None:
            return "nothing is stored for this row" if self.stored.accuracy is None else "nothing was measured"
        return self.difference.sentence()

    def table(self) -> Table:
        """Measured, stored and published."""
        from fedballot.report.tables import Table

        measured, stored = self.measured, self.stored
        rows = [("measured", _accuracy(measured.accuracy, measured.spread), str(measured.seeds))]
        if stored.accuracy is not None:
            kept = _accuracy(stored.accuracy / 100, None if stored.spread is None else stored.spread / 100)
            rows.append(("stored", kept, str(stored.seeds)))
        rows += [(who, f"{accuracy:g}{numbers.NBSP}%", "") for who, accuracy in (stored.published or {}).items()]
        facts = [f"{measured.meaning}, ε = {numbers.epsilon(measured.epsilon)}" if measured.seeds else ""]
        facts += [] if measured.delta is None else [f"δ = {numbers.delta(measured.delta)}"]
        facts += [] if self.bytes_up is None else [f"{numbers.size(self.bytes_up)} up from a client"]
        facts += [] if self.minutes is None else [f"{numbers.seconds(60 * self.minutes)} a run"]
        facts += [] if self.memory_gb is None else [f"{self.memory_gb:.1f}{numbers.NBSP}GB"]
        how = self.sentence[0].upper() + self.sentence[1:]
        note = f"{stored.about}: {', '.join(fact for fact in facts if fact)}. {how}."
        return Table("row", stored.name, ("", "accuracy", "runs"), tuple(rows), note=note)

    def to_frame(self) -> pd.DataFrame:
        """Measured, stored and published, a line each."""
        import pandas as pd

        table = self.table()
        return pd.DataFrame(table.rows, columns=list(table.head))

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "stored": dataclasses.asdict(self.stored),
            "measured": dataclasses.asdict(self.measured),
            "difference": None if self.difference is None else dataclasses.asdict(self.difference),
            "sentence": self.sentence,
            "bytes_up": self.bytes_up,
            "minutes": self.minutes,
            "memory_gb": self.memory_gb,
        }

    def _repr_html_(self) -> str:
        from fedballot.report.shown import shown

        return shown(self.stored.name, self.to_frame(), None, [self.table().note, *self.runs.failed])

    def write(self) -> None:
        """Write ``row.json`` and ``row.md`` into the folder."""
        from fedballot.report.tables import to_markdown

        write_json(self.runs.folder / "row.json", self.to_dict())
        table = self.table()
        words = f"**{table.caption}**\n\n{to_markdown(table)}\n{table.note}\n\n`{self.command}`\n"
        write_atomic(self.runs.folder / "row.md", lambda stream: stream.write(words.encode()))


def reproduce(
    name: str,
    *,
    seeds: int | None = None,
    out: str | Path | None = None,
    jobs: int = 1,
    progress: bool | Progress = True,
) -> Reproduction:
    """Run a row of the results pages again, and say how it differs; call it again to go on where it stopped.

    Parameters
    ----------
    name : str
        As `fedballot reproduce` lists them.
    seeds : int, optional
        Runs, with the seeds 0, 1, …; as many as are stored, if not said.
    out : path, optional
        Folder of the runs; by default ``rows/NAME``.
    jobs : int
        Runs at a time.

    Raises
    ------
    SettingsError
        If there is no such row.
    RunError
        If runs failed; what was measured is written.

    Examples
    --------
    >>> import fedballot as fb  # doctest: +SKIP
    >>> fb.reproduce("digits", seeds=1).difference.within  # doctest: +SKIP
    True
    """
    from fedballot.studies.rows import stored_row

    found = run_row(stored_row(name), seeds, out, jobs, listener(progress))
    if failed := found.runs.failed:
        raise RunError(f"{len(failed)} runs failed (the first: {failed[0]}); call again to retry them")
    return found


def run_row(
    stored: StoredRow, seeds: int | None, out: str | Path | None, jobs: int, progress: Progress
) -> Reproduction:
    """Say what it takes, run what is not done, write the row."""
    from fedballot.studies.rows import check_seeds, difference
    from fedballot.studies.sweep import is_done

    number = stored.seeds if seeds is None else seeds
    check_seeds(number)
    folder = Path("rows") / stored.name if out is None else Path(out)
    check_ours(folder / "row.json", '"stored"')
    points = stored.points(number, folder)
    left = sum(not is_done(point.folder) for point in points)
    progress.note(takes(stored, left))
    runs = run_sweep(stored.shared, points, folder, jobs, progress)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * KIB / 1e9 if left else None
    found = Reproduction(stored, runs, difference(stored, runs.rows[0]), peak)
    found.write()
    return found


def takes(stored: StoredRow, runs: int) -> str:
    """What so many of its runs take, in words."""
    time = "a time" if stored.minutes is None else f"about {numbers.seconds(60 * stored.minutes * runs)} on two cores"
    memory = "memory" if stored.memory_gb is None else f"{stored.memory_gb:g}{numbers.NBSP}GB of memory"
    unknown = [word for word, value in (("time", stored.minutes), ("memory", stored.memory_gb)) if value is None]
    note = f" ({' and '.join(unknown)} not measured yet)" if unknown else ""
    return f"{stored.name}: {runs} runs to do, {time}, {memory}{note}"


def _accuracy(value: float | None, spread: float | None) -> str:
    return numbers.percent(value) + ("" if spread is None else f" ± {100 * spread:.1f}")
