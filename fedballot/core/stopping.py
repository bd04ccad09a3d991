"""Ctrl-C and SIGTERM: one stop, whatever the code that they meet makes of it.

Python raises `KeyboardInterrupt` wherever the main thread is. There a library may swallow it, or end with an error of
its own: an archive that closes while it is written, a compiled function that saw an exception it does not know. So
the stop is remembered, too.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_asked = threading.Event()


@contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM ends what runs within as Ctrl-C does: what is done stays, and the record says so.

    Raises
    ------
    KeyboardInterrupt
        If it was stopped, also where that came out as another error.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, _stop)}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else somebody ignores it or has plans for it
        before[signal.SIGINT] = signal.signal(signal.SIGINT, _stop)
    try:
        yield
    except Exception as error:
        if _asked.is_set():
            raise KeyboardInterrupt from error
        raise
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
        if before[signal.SIGTERM] is not _stop:  # the outermost
            _asked.clear()


def _stop(*_: object) -> None:
    _asked.set()
    raise KeyboardInterrupt


def was_stopped(error: BaseException) -> bool:
    """Whether an error is a stop, or what has become of one."""
    # the second is how Flower ends a server app that its SuperLink no longer knows, or the first
    return isinstance(error, KeyboardInterrupt | SystemExit) or _asked.is_set()


def stop_if_asked() -> None:
    """Stop here, if the stop that was asked for was swallowed elsewhere."""
    if _asked.is_set():
        raise KeyboardInterrupt
