"""What SuperLink and SuperNode start in place of ``flower-superexec``: the same, with tasks' tokens out of sight.

Flower hands a task's token to its app on the command line, which every user of the machine can read (``ps``); whoever
has it can fetch the task's messages. Here it goes in the environment, which only the user's own processes can read.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fedballot.core.errors import RunError
from fedballot.deploy.handover import TOKEN

OPTION = "--token"
MAIN = f"from {__name__} import main"  # by which its process is known


def launch(args: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start an app as Flower does, with its token in the environment."""
    line, env = list(args), dict(os.environ)
    if OPTION in line:
        place = line.index(OPTION)
        env[TOKEN] = line[place + 1]
        del line[place : place + 2]
    return subprocess.Popen(line, env=env, **options)


def main() -> None:
    """Run Flower's command.

    Raises
    ------
    RunError
        If this version of Flower starts apps in another way.
    """
    from flwr.supercore.cli import flower_superexec
    from flwr.supercore.superexec.executor import subprocess_executor

    if not hasattr(subprocess_executor, "subprocess"):
        raise RunError("this version of Flower starts apps in a way that fedballot does not know")
    vars(subprocess_executor)["subprocess"] = SimpleNamespace(Popen=launch, DEVNULL=subprocess.DEVNULL)
    sys.argv[0] = "flower-superexec"
    flower_superexec()


def server_app() -> None:
    """Run Flower's app of a server, for one run, with the token out of the environment."""
    from flwr.superlink.cli import flwr_serverapp

    token = os.environ.pop(TOKEN, "")
    sys.argv = ["flwr-serverapp", *sys.argv[1:], *([OPTION, token] if token else [])]
    flwr_serverapp()


def write_command(folder: Path, name: str, line: Sequence[str]) -> None:
    """A command in a folder that stands first on the path: ``line`` and what it is called with."""
    path = folder / name
    path.write_text(f'#!/bin/sh\nexec {shlex.join(line)} "$@"\n')
    path.chmod(0o700)


def write_superexec(folder: Path) -> None:
    """``flower-superexec`` as it is here."""
    write_command(folder, "flower-superexec", [sys.executable, "-c", f"{MAIN}; main()"])


def write_server_app(folder: Path) -> None:
    """``flwr-serverapp`` as it is here."""
    write_command(folder, "flwr-serverapp", [sys.executable, "-c", f"from {__name__} import server_app; server_app()"])
