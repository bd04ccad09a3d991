"""Flower's own commands: where they are, the environment they run in, and their answers as JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from importlib import metadata
from pathlib import Path
from typing import Any

from fedballot.core.errors import RunError
from fedballot.deploy.questions import Questions

COMMAND_TIMEOUT_S = 60.0
CONNECTION = "fedballot"  # name of the server in Flower's configuration file


def one_port() -> bool:
    """Whether this Flower serves sites over HTTP on the port of its Control API (from 1.40 on), and not over gRPC."""
    return tuple(int(part) for part in metadata.version("flwr").split(".")[:2]) >= (1, 40)


def environment(home: Path, *first_on_path: Path) -> dict[str, str]:
    """The environment of Flower's processes: their own home, no telemetry, no downloads, our commands first.

    The path starts with ``first_on_path``, then the folder of this Python's commands.
    """
    folders = [*map(str, first_on_path), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return {
        **os.environ,
        "PATH": os.pathsep.join(folders),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "PYTHONUNBUFFERED": "1",
    }


def command(name: str) -> str:
    """Full path of one of Flower's commands.

    Raises
    ------
    RunError
        If it is not installed beside this Python.
    """
    path = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if path is None:
        raise RunError(f"{name} is not installed beside {sys.executable}: install fedballot again")
    return path


def ask(home: Path, *arguments: str) -> dict[str, Any]:
    """The JSON answer of a `flwr` command to the server.

    Raises
    ------
    RunError
        With Flower's own words, if it fails, says nothing for a minute, or answers something else.
    """
    line = [*arguments, CONNECTION, "--format", "json"]
    try:
        done = _questions(home).ask(line, COMMAND_TIMEOUT_S)
    except TimeoutError as error:
        raise RunError(f"`flwr {' '.join(arguments)}`: no answer from the server in {COMMAND_TIMEOUT_S:g} s") from error
    except EOFError as error:
        words = " ".join(str(error).split())[-600:] or "it was killed"
        raise RunError(f"`flwr {' '.join(arguments)}` failed: {words}") from error
    words = " ".join((done.out + " " + done.error).split())
    try:
        answer = json.loads(done.out[done.out.index("{") :])
    except ValueError as error:
        raise RunError(f"`flwr {' '.join(arguments)}` failed: {words[-600:]}") from error
    if not isinstance(answer, dict) or not answer.get("success", True):
        reason = answer.get("error-message", words[-600:]) if isinstance(answer, dict) else words[-600:]
        raise RunError(f"`flwr {arguments[0]}` failed: {' '.join(str(reason).split())}")
    return answer


_asked: dict[tuple[int, Path], Questions] = {}
_one_at_a_time = threading.Lock()


def _questions(home: Path) -> Questions:
    """The process that asks for this home; a forked child of ours has its own."""
    with _one_at_a_time:
        found = _asked.get((os.getpid(), home))
        if found is None or not found.lives:
            found = _asked[os.getpid(), home] = Questions(environment(home))
        return found
