"""One exchange of messages as its answers come: each is checked, counted and handed on, and no reply is kept."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from fedballot.strategies.folds import Fold, InOrder
from fedballot.strategies.shelf import Answer, Shelf
from fedballot.wire.messages import Reply
from fedballot.wire.packing import WireError, payload_bytes


@dataclass
class Tally:
    """Running counts of a run: what was asked, answered, rejected and sent."""

    asked: int = 0
    answered: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    first_details: dict[str, str] = field(default_factory=dict)
    bytes_up: int = 0
    bytes_down: int = 0
    messages: int = 0

    def reject(self, reason: str, detail: str) -> None:
        """Count a bad answer, keeping the first detail of each reason."""
        self.rejected[reason] += 1
        self.first_details.setdefault(reason, detail)

    def why(self) -> str:
        """The rejections in words."""
        return "; ".join(
            f"{reason}: {count} (first: {self.first_details[reason]})" for reason, count in self.rejected.most_common()
        )


class Intake:
    """Takes what comes in one exchange; several threads may bring it.

    Parameters
    ----------
    check
        Reads an answer; raises WireError for a bad one.
    fold
        Takes the good ones.
    expected
        The clients that may answer.
    shelf
        For good answers that wait for those of earlier clients.
    traffic, rejected
        Where messages and bad answers are counted.

    Attributes
    ----------
    asked : int
        Clients of which is known whether they answer.
    clients : set of int
        Whose answers were good.
    began, arrived : float or None
        When the first of them began and the last reply came, in seconds since the epoch.
    compute_s : float
        Seconds that they worked.
    """

    def __init__(
        self,
        check: Callable[[Reply], Answer],
        fold: Fold[Any],
        expected: Iterable[int],
        shelf: Shelf,
        traffic: Tally,
        rejected: Tally,
    ) -> None:
        self._check, self._fold, self._traffic, self._rejected = check, fold, traffic, rejected
        self._order = InOrder(fold.add, expected, shelf) if fold.ordered else None
        self._turn = threading.Lock()
        self.asked = 0
        self.clients: set[int] = set()
        self.began: float | None = None
        self.arrived: float | None = None
        self.compute_s = 0.0

    def receive(self, reply: Reply, number: int | None) -> None:
        """Check a reply, and hand it on or count why it is bad; ``number`` is the sender's, where that is known."""
        with self._turn:
            self.asked += 1
            self._traffic.messages += 1
            self._traffic.bytes_up += payload_bytes(reply.tensors)
            if reply.arrived:
                self.arrived = max(reply.arrived, self.arrived or 0.0)
            try:
                self._take(self._check(reply))
            except WireError as error:
                self._rejected.reject(error.reason, str(error).removeprefix(f"{error.reason}: "))
                self._skip(number)

    def miss(self, why: str, number: int | None) -> None:
        """Count a client that sends no reply."""
        with self._turn:
            self.asked += 1
            self._rejected.reject("no answer", " ".join(why.split())[:300])
            self._skip(number)

    def finish(self) -> Any:
        """What has become of the good answers; nothing comes any more."""
        if self._order:
            self._order.finish()
        return self._fold.value()

    def _take(self, answer: Answer) -> None:
        if answer.client_id in self.clients:
            raise WireError("duplicate", f"client {answer.client_id} answered twice")
        self.clients.add(answer.client_id)
        self.compute_s += answer.compute_s
        self.began = answer.began if self.began is None else min(self.began, answer.began)
        if self._order:
            self._order.put(answer)
        else:
            self._fold.add(answer)

    def _skip(self, number: int | None) -> None:
        if self._order and number is not None:
            self._order.skip(number)
