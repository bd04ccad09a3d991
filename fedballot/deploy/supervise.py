"""Flower's processes under one of ours: signals are passed on, and the death of any one of them ends all."""

from __future__ import annotations

import contextlib
import ctypes
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import psutil

from fedballot.core.errors import RunError
from fedballot.deploy.superexec import MAIN

LOOK_S = 1.0  # between looks at the children
LAST_WORDS_S = 3.0  # for what a process that has ended still says
COLOURS = re.compile(rb"\x1b\[[0-9;]*m")
LEVEL = re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) *: *(?P<text>.*)", re.DOTALL)
END_S = 10.0  # to end after SIGTERM, before SIGKILL
STARTER = "flower-superexec"  # the child of SuperLink and SuperNode that starts their apps; neither looks after it


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, and whether it said the words that were listened for."""

    code: int
    said: bool


Log = Literal["text", "json"]


def run_supervised(line: Sequence[str], env: dict[str, str], *, words: bytes = b"", log: Log = "text") -> Ended:
    """Run one of Flower's long-lived processes until it ends, passing its output and our signals on.

    Flower starts a ``flower-superexec`` beside it, which starts the apps. Where that one dies (the kernel takes it when
    memory is short), Flower's process lives on and answers nothing more; here it is ended, too, so that whoever
    supervises this process sees it.

    Parameters
    ----------
    line, env
        Command line and environment.
    words
        To listen for in its output.
    log
        Lines as they come, without colours where nobody looks at a terminal; or a JSON object for each.

    Raises
    ------
    RunError
        If its ``flower-superexec`` has died.
    """
    child = subprocess.Popen(
        line, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=die_too
    )
    said = threading.Event()

    def relay() -> None:
        for output in child.stdout or ():
            if words and words in output:
                said.set()
            sys.stdout.buffer.write(relayed(output, log, coloured=sys.stdout.isatty()))
            sys.stdout.buffer.flush()

    # beside the wait: the child's own children hold the pipe open until they see that it is gone
    reader = threading.Thread(target=relay, daemon=True)
    reader.start()
    with _signals_to(child):
        try:
            code = _wait(child, Path(line[0]).name)
        finally:
            end(child)
        reader.join(timeout=LAST_WORDS_S)
    return Ended(code, said.is_set())


def relayed(line: bytes, log: Log, *, coloured: bool) -> bytes:
    """A line of Flower's or ours as it goes to the log.

    Parameters
    ----------
    line
        With its end.
    coloured
        Whether colours may stay.

    Returns
    -------
    bytes
        As JSON: ``time`` (UTC), ``level`` (``INFO`` where the line says none) and ``text``; nothing for an empty line.
    """
    plain = COLOURS.sub(b"", line)
    if log == "text":
        return line if coloured else plain
    text = plain.decode("utf-8", errors="replace").rstrip()
    if not text:
        return b""
    found = LEVEL.match(text)
    level, text = (found["level"], found["text"]) if found else ("INFO", text)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": now, "level": level, "text": text}, ensure_ascii=False).encode() + b"\n"


def _wait(child: subprocess.Popen[bytes], name: str) -> int:
    starter: psutil.Process | None = None
    while True:
        try:
            return child.wait(timeout=LOOK_S)
        except subprocess.TimeoutExpired:
            starter = starter or _starter(child.pid)
            if starter is not None and not _lives(starter):
                raise RunError(
                    f"{STARTER}, which starts the apps, has died, perhaps because memory was short; "
                    f"{name} is ended with it: start again"
                ) from None


def _starter(pid: int) -> psutil.Process | None:
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(pid).children():
            with contextlib.suppress(psutil.Error):
                if any(MAIN in word for word in process.cmdline()[:3]):
                    return process
    return None


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end(child: subprocess.Popen[bytes]) -> None:
    """End a process with all of its children, asking first."""
    if child.poll() is not None:
        return
    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(child.pid).children(recursive=True)
        child.terminate()
        try:
            child.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            child.kill()
        _, alive = psutil.wait_procs(family, timeout=LAST_WORDS_S)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    child.wait()


@contextmanager
def _signals_to(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """SIGTERM and SIGINT go to the child, in the block."""
    before = {
        number: signal.signal(number, lambda number, _: child.send_signal(number))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def die_too() -> None:
    """Have the kernel end this process when its parent is killed (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # 1: PR_SET_PDEATHSIG
