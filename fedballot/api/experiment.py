"""One experiment from Python: its settings, its folder, and its result."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedballot.api.objects import as_settings
from fedballot.api.result import Result
from fedballot.api.trackers import tracker_names, trackers
from fedballot.api.watch import listener
from fedballot.core.callbacks import Callback, Callbacks
from fedballot.core.errors import RunError, SettingsError
from fedballot.core.folders import holds_run
from fedballot.core.progress import Progress
from fedballot.runs.results import load_result
from fedballot.settings import layers

if TYPE_CHECKING:
    from fedballot.runs.workers import Workers
    from fedballot.settings.parts import CommonSettings


def run(
    method: str,
    *,
    out: str | Path | None = None,
    preset: str | None = None,
    config: str | Path | None = None,
    resume: bool = False,
    progress: bool | Progress = True,
    callbacks: Sequence[Callback] = (),
    track: str | Sequence[str] = "",
    page: bool = True,
    **settings: Any,
) -> Result:
    """Run one experiment in a simulation on this machine.

    Parameters
    ----------
    method : str
        A name from ``fedballot methods``, or ``package.module:METHOD``.
    out : path, optional
        The run's folder; by default ``runs/METHOD-TIME``.
    preset, config : str, path, optional
        A preset, or a settings file in the form of one.
    resume : bool
        Take up the run that is in ``out``: nobody who has answered is asked again. Where there is none, begin it.
    progress : bool or Progress
        Show a bar (on a terminal, in a notebook) or lines; or who is told.
    callbacks : sequence of Callback
        Told of the run's start, of each round and of its end. One that raises is dropped with a warning.
    track : str or sequence of str
        Trackers by name: ``csv``, ``tensorboard``, ``mlflow``, ``wandb``; several with commas, or as a list.
    page : bool
        Write the run's page, which takes longer than a small run; :meth:`Result.report` writes it later.
    **settings
        By the names that ``fedballot methods --settings METHOD`` lists. ``dataset`` and ``public_dataset`` may be a
        pandas data frame or a pair ``(x, y)``; a list of them is one for each client. Models may be classifiers
        (unfitted), classes, or functions of a module that make one or a torch module.

    Returns
    -------
    Result

    Raises
    ------
    SettingsError
        If a setting does not exist, is out of range, or cannot work.
    DataError
        If data cannot be read.
    RunError
        If the run started and failed.

    Examples
    --------
    >>> import fedballot as fb  # doctest: +SKIP
    >>> result = fb.run("pate-fl", dataset="digits", clients=10, epsilon=4)  # doctest: +SKIP
    >>> result.accuracy, result.guarantee.sentence()  # doctest: +SKIP
    """
    folder = new_folder(method) if out is None else Path(out)
    told = Callbacks([*_checked(callbacks), *trackers(tracker_names(track))])
    taken_up = resume and holds_run(folder)
    values = as_settings(settings)
    resolved = resolve(method, values, preset, None if config is None else Path(config), folder, resume)
    for words in without_effect(resolved, values):
        warnings.warn(words, stacklevel=2)
    watcher = listener(progress)
    carry_out(method, resolved, folder, resume=taken_up, progress=watcher, callbacks=told, preset=preset, page=page)
    return Result.read(folder)


def _checked(callbacks: Any) -> Sequence[Callback]:
    """Callbacks as they were given; SettingsError where one is none, since a run would only drop it."""
    if not isinstance(callbacks, list | tuple):
        raise SettingsError(f"callbacks={callbacks!r}: expected a list, such as callbacks=[Tell()]")
    for one in callbacks:
        if isinstance(one, type) and issubclass(one, Callback):
            raise SettingsError(f"callbacks: {one.__name__} is a class; give one of it: callbacks=[{one.__name__}()]")
        if not isinstance(one, Callback):
            raise SettingsError(f"callbacks: {one!r} is no fedballot.Callback; derive a class from it")
    return callbacks


def new_folder(method: str, place: str = "runs") -> Path:
    """Where a run, or a study with a ``place`` of its own, goes that was given no folder."""
    name = "".join(sign if sign.isalnum() or sign in "._-" else "-" for sign in method)
    return Path(place) / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"


def resolve(
    method_name: str,
    values: Mapping[str, Any],
    preset: str | None = None,
    config: Path | None = None,
    out: Path | None = None,
    resume: bool = False,
    *,
    deployed: bool = False,
) -> CommonSettings:
    """The settings of a run: those of the run to resume, or defaults < preset < file < ``values``.

    In a deployed run secure aggregation is on by default, for methods that have it.
    """
    from fedballot.core.folders import RunFolder
    from fedballot.methods.registry import get_method, settings_types

    method = get_method(method_name)
    recorded: Mapping[str, Any] = {}
    if resume and out is not None and holds_run(out) and not (preset or config):
        begun = RunFolder.read(out)
        recorded = begun.settings if begun.method == method_name else {}
    return layers.resolve(
        method.name,
        settings_types(method),
        defaults={"secure_aggregation": True} if deployed else {},
        recorded=recorded,
        preset=preset,
        config=config,
        values=values,
    )


def without_effect(settings: CommonSettings, values: Iterable[str]) -> list[str]:
    """What to tell whoever named these settings: those that a run with all of them does not read."""
    unread, chosen = settings.unread(), settings.to_dict()
    return [
        f"{name}={chosen[name]} has no effect here: it is read only if {unread[name]}"
        for name in values
        if name in unread
    ]


def carry_out(
    method: str,
    settings: CommonSettings,
    folder: Path,
    *,
    resume: bool,
    progress: Progress,
    workers: Workers | None = None,
    callbacks: Callbacks | None = None,
    preset: str | None = None,
    page: bool = True,
) -> dict[str, Any]:
    """Simulate a run and write its page (unless nobody will see it), also where it fails; see `simulate`."""
    from fedballot.sim import simulate

    def write_page() -> None:
        if page:
            from fedballot.report.build import write_report

            write_report(folder)

    try:
        result = simulate(
            method,
            settings,
            folder,
            resume=resume,
            progress=progress,
            workers=workers,
            callbacks=callbacks,
            preset=preset,
        )
    except (RunError, KeyboardInterrupt) as error:
        if (folder / "result.json").exists():  # else it failed before it began
            if isinstance(error, RunError):
                write_page()
            if callbacks is not None:
                callbacks.run_failed(folder, load_result(folder))
        raise
    write_page()
    if callbacks is not None:
        callbacks.run_ended(folder, result)
    return result
