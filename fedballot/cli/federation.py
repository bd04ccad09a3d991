"""`fedballot try-federation`: a server and its sites on this machine, with one command."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from fedballot.cli import terminal
from fedballot.core.errors import RunError


def try_federation(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder for all of it.")] = Path("federation"),
    sites: Annotated[int, typer.Option(help="How many sites, 2 to 20.")] = 3,
    stay: Annotated[bool, typer.Option(help="Stay after the first run, until Ctrl-C.")] = True,
) -> None:
    """Try a real federation on this machine: server and sites over gRPC with TLS and keys, a first run, its pages."""
    from fedballot.deploy import trial as trials

    trial = trials.prepare(directory, sites)
    before = signal.signal(signal.SIGTERM, _interrupt)
    progress, finished = terminal.watcher(quiet=False), False
    try:
        trials.start(trial, progress)
        pages = trials.dashboards(trial)
        out = trial.folder / "runs" / "first"
        terminal.err.print(f"[dim]$ {escape(trials.shown(trial.submit_command(out)))}[/]", soft_wrap=True)
        if trials.first_run(trial, out):
            trial.require_alive()
            raise RunError(f"the first run failed; the logs are in {trial.folder}")
        if not stay:
            return
        lines = [*(f"{name}: {address}" for name, address in pages.items()), f"report: {out / 'report.html'}"]
        again = trials.shown(trial.submit_command(trial.folder / "runs" / "second"))
        terminal.err.print(
            escape("\n".join(["", *lines, "", f"another run, in another terminal: {again}", "Ctrl-C ends all of it"])),
            soft_wrap=True,
        )
        finished, gone = True, dict[str, str]()
        while len(gone) < len(trial.processes):
            time.sleep(1.0)
            for name, words in trial.ended().items() - gone.items():
                gone[name] = words
                terminal.warn(words)
    except KeyboardInterrupt:
        terminal.err.print(f"ended; the files are in {escape(str(trial.folder))}", soft_wrap=True)
        if not finished:
            raise typer.Exit(terminal.STOPPED) from None
    finally:
        signal.signal(signal.SIGTERM, before)
        progress.stop()
        trial.end()


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
