"""A run on this machine without Flower's messages: its Strategy asks, worker processes answer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from fedballot.runs.engine import ServerSide
from fedballot.runs.workers import Job
from fedballot.strategies.base import BallotStrategy
from fedballot.wire.messages import Reply, Request


class Answering(Protocol):
    """:class:`fedballot.runs.workers.Workers`, or whatever answers as they do."""

    def replies(self, job: Job, requests: Sequence[Request], timeout_s: float) -> Iterator[Reply | str]:
        """Each reply, or why there is none."""


def run_rounds(side: ServerSide, job: Job, workers: Answering) -> None:
    """All rounds that are left, and the outcome, or why there is none.

    Raises
    ------
    RunError
        If too few good answers come.
    """
    strategy = side.strategy
    try:
        for server_round in range(strategy.rounds_done + 1, strategy.rounds + 1):
            _exchange(strategy, server_round, job, workers, side.round_timeout_s)
            while strategy.exchanging:
                _exchange(strategy, server_round, job, workers, side.round_timeout_s)
        side.finish(None)
    except BaseException as error:
        side.finish(error)
        raise


def _exchange(strategy: BallotStrategy[Any], server_round: int, job: Job, workers: Answering, timeout_s: float) -> None:
    requests = strategy.ask(server_round, [str(number) for number in range(strategy.nodes)])
    replies: list[Reply] = []
    failures: list[str] = []
    for reply in workers.replies(job, requests, timeout_s):
        if isinstance(reply, Reply):
            replies.append(replace(reply, arrived=time.time()))
        else:
            failures.append(reply)
        strategy.progress.advance()
    strategy.take(server_round, replies, failures)
