"""A run on this machine without Flower's messages: its Strategy asks, worker processes answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from fedballot.core.stopping import stop_if_asked
from fedballot.runs.engine import ServerSide, finishing
from fedballot.runs.worker import Job
from fedballot.wire.messages import Reply, Request

Replies = Callable[[Job, Sequence[Request], float], Iterator[Reply | str]]


def run_rounds(side: ServerSide, job: Job, replies: Replies) -> None:
    """All rounds that are left, and the outcome, or why there is none.

    Parameters
    ----------
    side, job
        The run.
    replies
        ``Workers.replies``, or whatever answers as it does.

    Raises
    ------
    RunError
        If too few good answers come.
    """
    strategy, names = side.strategy, [str(number) for number in range(side.strategy.nodes)]
    strategy.numbers = {name: int(name) for name in names}
    with finishing(side.finish):
        for server_round in strategy.exchanges():
            for reply in replies(job, strategy.ask(server_round, names), side.round_timeout_s):
                stop_if_asked()
                if isinstance(reply, Reply):
                    strategy.receive(replace(reply, arrived=time.time()))
                else:
                    strategy.miss(reply)
                strategy.progress.advance()
            strategy.conclude(server_round)
