"""Works that wait for each other: each in a thread of its own, one at a time, until all need the same thing.

Whoever calls :func:`join` waits until no other can go on without what it waits for; then what all wait for is done at
once. As only one works at any moment, nothing else need know of threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Serve = Callable[[list[Any]], Sequence[Any]]

_here = threading.local()


class _Seat(Generic[T]):
    """One work, its thread, and what it waits for."""

    def __init__(self, work: Callable[[], T], around: Callable[[], AbstractContextManager[Any]]) -> None:
        self._work, self._around = work, around
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._live, daemon=True)
        self.wish: tuple[Any, Serve] | None = None
        self.served: Any = None
        self.ended = False
        self.result: list[T] = []
        self.error: BaseException | None = None

    def go_on(self) -> None:
        """Let it work until it waits or ends."""
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._go.release()
        self._back.acquire()

    def leave(self) -> None:
        """Nobody serves it any more."""
        if not self.ended and self._thread.ident is not None:
            self.served = KeyboardInterrupt()
            self._go.release()

    def wait(self, item: Any, serve: Serve) -> Any:
        self.wish = (item, serve)
        self._back.release()
        self._go.acquire()
        if isinstance(self.served, BaseException):
            raise self.served
        return self.served

    def _live(self) -> None:
        _here.seat = self
        try:
            with self._around():
                self.result = [self._work()]
        except BaseException as error:
            self.error = error
        finally:
            self.ended = True
            self._back.release()


def held() -> bool:
    """Whether others work beside this thread."""
    return getattr(_here, "seat", None) is not None


def join(item: Any, serve: Serve) -> Any:
    """Wait until ``serve`` has been called with the items of all who wait, and give its answer to this one.

    Raises
    ------
    Exception
        What ``serve`` raised, or has in the place of this item's answer.
    """
    seat = getattr(_here, "seat", None)
    return seat.wait(item, serve) if seat else serve([item])[0]


def together(
    works: Sequence[Callable[[], T]], around: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> list[T]:
    """The results of all works, each within ``around()`` in its thread.

    Examples
    --------
    >>> largest = lambda items: [max(items)] * len(items)
    >>> together([lambda: join(3, largest), lambda: join(5, largest) + 1, lambda: 0])
    [5, 6, 0]
    """
    seats = [_Seat(work, around) for work in works]
    try:
        while going := [seat for seat in seats if not seat.ended]:
            for seat in going:
                seat.go_on()
            _serve([seat for seat in going if not seat.ended])
    finally:
        for seat in seats:
            seat.leave()
    for seat in seats:
        if seat.error is not None:
            raise seat.error
    return [seat.result[0] for seat in seats]


def _serve(waiting: Sequence[_Seat[Any]]) -> None:
    wishes = [seat.wish for seat in waiting if seat.wish is not None]
    for serve in dict.fromkeys(serve for _, serve in wishes):
        seats = [seat for seat in waiting if seat.wish is not None and seat.wish[1] is serve]
        try:
            answers = serve([seat.wish[0] for seat in seats if seat.wish is not None])
        except Exception as error:
            answers = [error] * len(seats)
        for seat, answer in zip(seats, answers, strict=True):
            seat.served = answer
