"""What takes a round's answers as they come, and in which order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from fedballot.strategies.shelf import Answer, Shelf

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Fold(Generic[T]):
    """What takes the answers of a round, each as it comes, and what has become of them at its end.

    Parameters
    ----------
    add
        Takes an answer, and drops its arrays if it can.
    value
        What has become of all that came; asked for once, at the end.
    ordered
        Whether answers must come sorted by client, since the result depends on their order: that of a sum of floats
        does, by its last bits, and that of a sum of integers does not.

    Examples
    --------
    >>> largest = [0]
    >>> fold = Fold(lambda answer: largest.append(answer.client_id), lambda: max(largest))
    >>> fold.then(lambda found: found + 1).of([])
    1
    """

    add: Callable[[Answer], None]
    value: Callable[[], T]
    ordered: bool = True

    def then(self, make: Callable[[T], U]) -> Fold[U]:
        """The same, and at the end what ``make`` makes of it."""
        return Fold(self.add, lambda: make(self.value()), self.ordered)

    def of(self, answers: Iterable[Answer]) -> T:
        """The value for these answers, in this order."""
        for answer in answers:
            self.add(answer)
        return self.value()


def everyone(shelf: Shelf) -> Fold[Shelf]:
    """All answers, sorted by client."""
    return Fold(shelf.put, lambda: shelf, ordered=False)


class InOrder:
    """Hands answers on sorted by client; one that comes before an earlier client's waits on a shelf.

    Parameters
    ----------
    add
        Takes the answers.
    expected
        The clients that may answer.
    shelf
        For those that wait.
    """

    def __init__(self, add: Callable[[Answer], None], expected: Iterable[int], shelf: Shelf) -> None:
        self._add, self._due, self._shelf = add, deque(sorted(expected)), shelf
        self._absent: set[int] = set()

    def put(self, answer: Answer) -> None:
        """Take a client's only answer."""
        if self._due and self._due[0] == answer.client_id:
            self._due.popleft()
            self._add(answer)
            self._go_on()
        else:
            self._shelf.put(answer)

    def skip(self, client_id: int) -> None:
        """This client sends no good answer: nobody waits for it."""
        self._absent.add(client_id)
        self._go_on()

    def finish(self) -> None:
        """No further answer comes."""
        for client_id in self._shelf.clients:
            self._add(self._shelf.pop(client_id))

    def _go_on(self) -> None:
        while self._due and ((due := self._due[0]) in self._absent or self._shelf.has(due)):
            self._due.popleft()
            if self._shelf.has(due):
                self._add(self._shelf.pop(due))
