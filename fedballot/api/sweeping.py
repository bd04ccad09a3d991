"""Grids of runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedballot.api.experiment import new_folder, resolve
from fedballot.api.objects import as_settings
from fedballot.api.result import Result
from fedballot.api.trackers import tracker_names, trackers
from fedballot.api.watch import listener
from fedballot.core.errors import RunError, SettingsError, named
from fedballot.core.files import check_ours, write_json
from fedballot.core.folders import check_no_run, held, holds_run
from fedballot.core.progress import Progress

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedballot.settings.parts import CommonSettings
    from fedballot.studies.sweep import Point, Row, Shared


@dataclass(frozen=True)
class Sweep:
    """A grid of runs.

    Attributes
    ----------
    folder : Path
    rows : tuple of Row
        One for each cell: runs that differ in the seed only are averaged.
    points : tuple of Point
        Each run: its values, and its folder.
    title : str
        Method and preset.
    command : str
        What does it again.
    """

    folder: Path
    rows: tuple[Row, ...]
    points: tuple[Point, ...]
    title: str = ""
    command: str = ""

    @property
    def results(self) -> list[Result]:
        """The runs that have a result."""
        return [Result.read(one.folder) for one in self.points if (one.folder / "result.json").exists()]

    @property
    def failed(self) -> list[str]:
        """Why runs failed."""
        return [reason for row in self.rows for reason in row.failed]

    def to_frame(self) -> pd.DataFrame:
        """A row for each cell: the values that vary, and what was measured."""
        import pandas as pd

        plain = [dataclasses.asdict(row) for row in self.rows]
        return pd.DataFrame([{**row.pop("values"), **row} for row in plain])

    def figure(self) -> Figure | None:
        """Accuracy over the grid; None where nothing was measured."""
        from fedballot.report.sweep_plot import sweep_figure

        return sweep_figure(self.rows)

    def _repr_html_(self) -> str:
        from fedballot.report.shown import shown

        return shown(self.title or "Sweep", self.to_frame(), self.figure(), self.failed)

    def write(self) -> None:
        """Write ``sweep.json``, ``sweep.html`` and ``sweep.png`` into the folder."""
        from fedballot.report.study import write_study
        from fedballot.report.sweep_page import sweep_page

        write_json(self.folder / "sweep.json", [dataclasses.asdict(row) for row in self.rows])
        if (figure := self.figure()) is not None:
            from fedballot.report.canvas import write_picture

            write_picture(figure, self.folder / "sweep.png")
        write_study(sweep_page(self.title, self.rows, self.command), self.folder / "sweep.html")


def sweep(
    method: str,
    *,
    out: str | Path | None = None,
    preset: str | None = None,
    config: str | Path | None = None,
    jobs: int = 1,
    progress: bool | Progress = True,
    track: str | Sequence[str] = "",
    **settings: Any,
) -> Sweep:
    """Run a method over a grid; call it again with the same ``out`` to go on where it stopped.

    Parameters
    ----------
    out : path, optional
        Folder of all runs; by default ``sweeps/METHOD-TIME``, so that calling again begins anew.
    jobs : int
        Runs at a time; then give each few workers.
    track : str or sequence of str
        Trackers by name, as for `run`: each run of the grid is one of theirs.
    **settings
        As for `run`. A list is several values, of which each is run; a tuple is one value.

    Raises
    ------
    SettingsError
        If nothing varies, or a setting cannot work: before the first run.
    RunError
        If runs failed; what was measured is written.

    Examples
    --------
    >>> import fedballot as fb  # doctest: +SKIP
    >>> grid = fb.sweep("fedmd-nfdp", out="sweeps/k", dataset="digits", k=[18, 60, 120])  # doctest: +SKIP
    >>> grid.to_frame()  # doctest: +SKIP
    """
    from fedballot.studies.sweep import Shared, points_of

    varied = {name: [_word(name, one) for one in value] for name, value in settings.items() if isinstance(value, list)}
    fixed = {name: _word(name, value) for name, value in settings.items() if not isinstance(value, list)}
    if not any(len(values) > 1 for values in varied.values()):
        raise SettingsError("a sweep needs a setting with several values, such as k=[18, 60, 120]; else use run")
    if twice := next((name for name, values in varied.items() if len({*values}) < len(values) or not values), None):
        raise SettingsError(f"{twice}={settings[twice]!r}: names a value twice, or none")
    folder = new_folder(method, "sweeps") if out is None else Path(out)
    points = points_of(varied, folder)
    place = None if config is None else Path(config)
    shared = Shared(method, preset, place, fixed, tracker_names(track))
    found = run_sweep(shared, points, folder, jobs, listener(progress))
    if found.failed:
        first = f"{len(found.failed)} of {len(points)} runs failed (the first: {found.failed[0]})"
        raise RunError(f"{first}; call again with out={str(folder)!r} to retry them")
    return found


def run_sweep(shared: Shared, points: Sequence[Point], folder: Path, jobs: int, progress: Progress) -> Sweep:
    """Check all points, run those that are not done, write the tables; each run is told as it begins and ends."""
    progress.start(f"checking {len(points)} runs", len(points))
    from fedballot.studies import sweep as grids
    from fedballot.studies.watching import Watch

    try:
        trackers(shared.track)
        check_no_run(folder)
        check_ours(folder / "sweep.json", '"claimed_epsilon"')
        runs = {}
        for point in points:  # before the first run
            runs[point.folder] = check_point(shared, point)
            progress.advance()
        check_there(runs)
        watch = Watch(progress, len(points), jobs)
        with held(folder, "sweep"):  # whose tables another process would write without the runs that are at work
            failures = grids.run_all(points, shared, jobs=jobs, report=watch.end, begin=watch.begin)
            name = shared.preset or (shared.config.stem if shared.config else "")
            title = f"{shared.method} {name}".strip()
            found = Sweep(
                folder, tuple(grids.rows(points, failures)), tuple(points), title, _command(shared, points, folder)
            )
            found.write()
    finally:
        progress.stop()
    return found


def check_there(runs: Mapping[Path, CommonSettings]) -> None:
    """Refuse data and learners that are not there, once, before the runs in these folders; who is done reads no more.

    Raises
    ------
    DataError
        Naming the file or the data set.
    SettingsError
        Naming the setting and the learner.
    """
    from fedballot.datasets.public import check_all_there
    from fedballot.learners.registry import get_learner
    from fedballot.settings.parts import named_models
    from fedballot.studies.sweep import is_done

    waiting = [run for folder, run in runs.items() if not is_done(folder)]
    for run in {(run.dataset, run.public_dataset, run.schema): run for run in waiting}.values():
        check_all_there(run)
    for setting, name in dict.fromkeys(pair for run in waiting for pair in named_models(run)):
        with named(setting, name):
            get_learner(name)


def check_point(shared: Shared, point: Point) -> CommonSettings:
    """The settings of a run, resolved, and compared with those of the run that is in its folder.

    Raises
    ------
    SettingsError
        If they cannot work, or the folder belongs to another study.
    """
    from fedballot.core.folders import RunFolder

    resolved = resolve(shared.method, {**shared.values, **point.values}, shared.preset, shared.config)
    if holds_run(point.folder):
        RunFolder.open(point.folder, shared.method, resolved, resume=True)
    return resolved


def _command(shared: Shared, points: Sequence[Point], folder: Path) -> str:
    """What runs the same grid on the command line."""
    from fedballot.report.again import study_command

    varied: dict[str, list[str]] = {}
    for point in points:
        for name, value in point.values.items():
            varied.setdefault(name, []).append(value)
    texts = {name: list(dict.fromkeys(values)) for name, values in varied.items()}
    grid = {name: (";" if any("," in one for one in values) else ",").join(values) for name, values in texts.items()}
    return study_command(["sweep", shared.method], {}, shared.preset, shared.config, {**shared.values, **grid}, folder)


def _word(name: str, value: Any) -> str:
    """A setting's value as one text."""
    plain = as_settings({name: value})[name]
    return ",".join(map(str, plain)) if isinstance(plain, list) else str(plain)
