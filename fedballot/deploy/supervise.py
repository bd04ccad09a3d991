"""Flower's processes under one of ours: signals are passed on, and the death of any one of them ends all."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from fedballot.core.errors import RunError
from fedballot.deploy.superexec import MAIN

LOOK_S = 1.0  # between looks at the children
LAST_WORDS_S = 3.0  # for what a process that has ended still says
END_S = 10.0  # to end after SIGTERM, before SIGKILL
STARTER = "flower-superexec"  # the child of SuperLink and SuperNode that starts their apps; neither looks after it


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, and whether it said the words that were listened for."""

    code: int
    said: bool


def run_supervised(line: Sequence[str], env: dict[str, str], *, words: bytes = b"") -> Ended:
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
            sys.stdout.buffer.write(output)
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
