"""An end to work that takes too long, whatever the server's settings ask for."""

from __future__ import annotations

import ctypes
import faulthandler
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

from fedballot.core.errors import RunError

GRACE_S = 60.0  # for what cannot be interrupted
AGAIN_S = 0.5  # libraries may swallow an exception: it comes again until the block is left


class TimeLimitError(RunError):
    """The work took longer than it may."""

    def __init__(self) -> None:
        super().__init__("the work took longer than longest_training_s allows")


class time_limit:  # a context manager, named like contextlib's
    """Raise :class:`TimeLimitError` in the block that still runs after ``seconds``.

    In the main thread a timer's signal does it, which also ends sleeps and waits; in another thread an exception that
    the interpreter raises there. Both come between two steps of Python, so that **one long call into C code is not
    interrupted**: the error is raised when it returns. Loops of Python round short calls end at once, as the training
    of torch networks and of scikit-learn's MLP does; a forest ends after the trees that are being grown. With
    ``grace_s`` a call that does not return has an end as well: the whole process ends with exit code 1 at
    ``seconds + grace_s``.

    Parameters
    ----------
    seconds : float
        Longest time in the block, above 0.
    grace_s : float | None
        Seconds after that until the process is ended; None: never. One block of a process at a time can have it.

    Raises
    ------
    TimeLimitError
        In the block, and on leaving it where the time is over and the block has swallowed or renamed the error.
    """

    def __init__(self, seconds: float, *, grace_s: float | None = None) -> None:
        self.seconds, self.grace_s = seconds, grace_s

    def __enter__(self) -> None:
        self._over, self._began, self._outer_due = False, time.monotonic(), None
        self._due = self._began + self.seconds
        if self.grace_s is not None:
            # from a thread of C, which needs no lock of the interpreter; what it prints holds names of functions only
            faulthandler.dump_traceback_later(self.seconds + self.grace_s, exit=True)
        self._in_main = threading.current_thread() is threading.main_thread()
        if self._in_main:
            self._outer, self._outer_again = signal.signal(signal.SIGALRM, self._on_alarm), 0.0
            try:
                left, self._outer_again = signal.setitimer(signal.ITIMER_REAL, self.seconds, AGAIN_S)
                self._outer_due = self._began + left if left else None
                if left and left < self.seconds:  # a limit round this one comes first
                    signal.setitimer(signal.ITIMER_REAL, left, AGAIN_S)
            except BaseException:  # the time is over before the block begins, which nobody leaves then
                self._over = True
                self._disarm()
                raise
        else:
            self._thread, self._lock, self._left = threading.get_ident(), threading.Lock(), threading.Event()
            threading.Thread(target=self._watch, name="time limit", daemon=True).start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._over = True
        finally:
            self._over = True  # once more, should the error have come in between
            self._disarm()
        hidden = kind is None or (issubclass(kind, Exception) and not issubclass(kind, TimeLimitError))
        if hidden and time.monotonic() >= self._due:
            raise TimeLimitError from error

    def _disarm(self) -> None:
        if self.grace_s is not None:
            faulthandler.cancel_dump_traceback_later()
        if self._in_main:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._outer or signal.SIG_DFL)  # None: not set by Python
            if self._outer_due is not None:
                left = max(self._outer_due - time.monotonic(), 1e-6)
                signal.setitimer(signal.ITIMER_REAL, left, self._outer_again)
        else:
            self._left.set()
            with self._lock:  # from here on the watching thread raises nothing, and what it raised last is taken back
                _raise_in(self._thread, None)

    def _on_alarm(self, number: int, frame: FrameType | None) -> Any:
        now = time.monotonic()
        if self._outer_due is not None and now >= self._outer_due and callable(self._outer):
            self._outer(number, frame)
        if not self._over and now >= self._due:
            raise TimeLimitError

    def _watch(self) -> None:
        wait = self.seconds
        while not self._left.wait(wait):
            with self._lock:
                if not self._over:
                    _raise_in(self._thread, TimeLimitError)
            wait = AGAIN_S


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Have the interpreter raise an error in a thread at its next step; None takes back one that was not raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error) if error else None)
