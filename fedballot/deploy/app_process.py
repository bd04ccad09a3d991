"""How the apps of a server and of a site are started: commands in place of Flower's, and a warm process beside them."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fedballot.deploy import handover, superexec
from fedballot.deploy.flower import environment
from fedballot.deploy.supervise import die_too
from fedballot.deploy.warm import WARM


def write_command(folder: Path, name: str, line: Sequence[str]) -> None:
    """A command in a folder that stands first on the path: ``line`` and what it is called with."""
    path = folder / name
    path.write_text(f'#!/bin/sh\nexec {shlex.join(line)} "$@"\n')
    path.chmod(0o700)


@contextmanager
def warm_apps(folder: Path, name: str, app: str, modules: Sequence[str], home: Path) -> Iterator[dict[str, str]]:
    """A process that forks apps, in the block; should it end, each app starts by itself.

    Parameters
    ----------
    folder
        For the commands, and the socket of the process; only its owner may enter it.
    name
        Of Flower's command for the app.
    app
        The module that is the app, see :func:`fedballot.deploy.warm.main`.
    modules
        What apps import.
    home
        Flower's own.

    Yields
    ------
    dict
        The environment in which Flower's processes find the commands.
    """
    write_command(folder, "flower-superexec", [sys.executable, "-c", f"{superexec.MAIN}; main()"])
    write_command(folder, name, [sys.executable, "-I", "-S", handover.__file__, str(folder), app])
    env = environment(home, folder)
    line = [sys.executable, "-m", app, WARM, str(folder), *modules]
    process = subprocess.Popen(line, env=env, stdin=subprocess.DEVNULL, preexec_fn=die_too)
    try:
        yield env
    finally:
        process.kill()
        process.wait()
        (folder / handover.SOCKET).unlink(missing_ok=True)
