"""Flower's ``flwr`` command for one question after another: imported once, and a child is forked for each.

Importing it takes two seconds of a processor, and whoever follows a run or shows a dashboard asks every few seconds.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import IO, Any

COMMAND = "flwr"


@dataclass(frozen=True)
class Answer:
    """What the command printed, and its exit code."""

    out: str
    error: str
    code: int


class Questions:
    """A process that has imported the command; it ends with this one.

    Parameters
    ----------
    env
        Its environment.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {__name__} import main; main()"],
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is told to this process, which ends that one
        )
        self._one_at_a_time = threading.Lock()
        atexit.register(self.end)

    def ask(self, arguments: Sequence[str], timeout: float) -> Answer:
        """Run the command.

        Raises
        ------
        TimeoutError
            If it has not ended after ``timeout`` seconds; the process is ended then.
        EOFError
            With the last words of the process, if it has ended.
        """
        with self._one_at_a_time:
            asked, answers = self._process.stdin, self._process.stdout
            assert asked is not None and answers is not None
            with contextlib.suppress(OSError):  # of one that has ended: its last words are below
                asked.write(json.dumps(list(arguments)).encode() + b"\n")
                asked.flush()
            ready, _, _ = select.select([answers], [], [], timeout)
            line = answers.readline() if ready else b""
            if line:
                return Answer(**json.loads(line))
            self.end()
            if not ready:
                raise TimeoutError
            self._errors.seek(0)
            raise EOFError(self._errors.read().decode(errors="replace"))

    @property
    def lives(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def end(self) -> None:
        """End the process, and a child that is at a question."""
        atexit.unregister(self.end)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def main() -> None:
    """Answer until nobody is there to ask."""
    (entry,) = metadata.entry_points(group="console_scripts", name=COMMAND)
    command = entry.load()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        for question in sys.stdin:
            answers.write(json.dumps(asdict(_answer(command, json.loads(question)))) + "\n")
            answers.flush()


def _answer(command: Callable[[], Any], arguments: list[str]) -> Answer:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out.fileno(), 1)
            os.dup2(error.fileno(), 2)
            _run(command, arguments)
        _, status = os.waitpid(child, 0)
        return Answer(_read(out), _read(error), os.waitstatus_to_exitcode(status))


def _read(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode(errors="replace")


def _run(command: Callable[[], Any], arguments: list[str]) -> None:
    """The command as its script runs it; does not come back."""
    code = 1
    try:
        sys.argv = [COMMAND, *arguments]
        sys.exit(command())
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 0 if ending.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
