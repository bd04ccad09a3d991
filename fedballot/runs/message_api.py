"""A run through Flower's Message API: the server's loop over a ``Grid``, and clients as functions of a message.

A message holds two records, both ways: the arrays, and the scalars beside them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedballot.core.errors import RunError
from fedballot.runs.engine import ServerSide, finishing
from fedballot.strategies.base import BallotStrategy
from fedballot.wire.messages import Reply, Request, Scalar, deserialise, serialise

ARRAYS, SCALARS = "arrays", "scalars"  # names of a message's records
NUMPY = "numpy.ndarray"  # Flower's name for arrays in NumPy's format
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 3.0  # between looks at what has come
GRACE_S = 10.0  # beyond a message's lifetime, after which Flower itself says that no answer will come


def client_app(client: Callable[[Context], NumPyClient]) -> ClientApp:
    """The app of a client; ``client`` makes it anew for each message."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        tensors, config = unpack(message.content)
        arrays, _, metrics = client(context).fit(deserialise(tensors), config)
        return Message(pack(serialise(arrays), metrics), reply_to=message)

    @app.query()
    def number(message: Message, context: Context) -> Message:
        return Message(pack([], client(context).get_properties({})), reply_to=message)

    return app


def server_app(server: Callable[[Context], ServerSide]) -> ServerApp:
    """The app of a server; ``server`` makes it when a run starts."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        side = server(context)
        with finishing(side.finish):
            run_rounds(grid, side.strategy, side.round_timeout_s)

    return app


def run_rounds(grid: Grid, strategy: BallotStrategy[Any], timeout_s: float) -> None:
    """All rounds that are left; each is one exchange with the clients, or as many as the Strategy needs."""
    for server_round in strategy.exchanges():
        if not strategy.exchanging:
            _wait_for(grid, strategy.nodes, strategy.patience_s)
        _exchange(grid, strategy, server_round, timeout_s)


def _wait_for(grid: Grid, nodes: int, patience_s: float) -> None:
    began = time.monotonic()
    while len(list(grid.get_node_ids())) < nodes and time.monotonic() < began + patience_s:
        time.sleep(_pause_s(time.monotonic() - began))


def _exchange(grid: Grid, strategy: BallotStrategy[Any], server_round: int, timeout_s: float) -> None:
    nodes = strategy.in_order(map(str, grid.get_node_ids()), lambda names: _numbers(grid, names, timeout_s))
    requests = strategy.ask(server_round, nodes)
    waiting = _send(grid, requests, str(server_round), timeout_s)
    unsent = len(requests) - len(waiting)
    strategy.progress.advance(unsent)
    for _ in range(unsent):
        strategy.miss("the message could not be sent")
    began = time.monotonic()
    while waiting and (elapsed := time.monotonic() - began) < timeout_s + GRACE_S:
        for message_id, sender in list(waiting.items()):
            try:  # one at a time: what one client sends must not cost the answers of others
                reply = _reply(sender, grid.pull_messages([message_id]))
            except Exception as error:
                strategy.miss(str(error) or type(error).__name__, sender)
            else:
                if reply is None:
                    continue
                strategy.receive(reply)
            del waiting[message_id]
            strategy.progress.advance()
        if waiting:
            time.sleep(_pause_s(elapsed))
    strategy.progress.advance(len(waiting))
    for sender in waiting.values():
        strategy.miss(f"no answer within {timeout_s:g} s", sender)
    strategy.conclude(server_round)


def _numbers(grid: Grid, names: Sequence[str], timeout_s: float) -> dict[str, int]:
    """The numbers of virtual clients, as they tell them."""
    asked = [Message(pack([], {}), dst_node_id=int(name), message_type=MessageType.QUERY) for name in names]
    replies = [reply for reply in grid.send_and_receive(asked, timeout=timeout_s) if reply.has_content()]
    return {str(one.metadata.src_node_id): int(unpack(one.content)[1]["client_id"]) for one in replies}


def _reply(sender: str, messages: Iterable[Message]) -> Reply | None:
    """The reply in what came for one message; None: nothing yet."""
    for message in messages:
        if message.has_error():
            raise RunError(message.error.reason or "an error without a reason")
        return Reply(sender, *unpack(message.content), arrived=time.time())
    return None


def _send(grid: Grid, requests: Sequence[Request], group: str, timeout_s: float) -> dict[str, str]:
    """Send all requests; returns who must answer which message, without those to whom it could not be sent."""
    if not requests:  # Flower refuses to send nothing
        return {}
    contents = {id(one.tensors): _array_record(one.tensors) for one in requests}  # arrays for all are sent once
    messages = [
        Message(
            RecordDict({ARRAYS: contents[id(one.tensors)], SCALARS: ConfigRecord(dict(one.config))}),
            dst_node_id=int(one.to),
            message_type=MessageType.TRAIN,
            ttl=timeout_s,
            group_id=group,
        )
        for one in requests
    ]
    accepted = set(grid.push_messages(messages))
    return {
        message.metadata.message_id: one.to
        for message, one in zip(messages, requests, strict=True)
        if message.metadata.message_id in accepted
    }


def _pause_s(elapsed: float) -> float:
    """A twentieth of the time so far: short answers are seen soon, and long ones do not keep the server busy."""
    return min(LONGEST_PAUSE_S, max(SHORTEST_PAUSE_S, elapsed / 20))


def pack(tensors: Sequence[bytes], scalars: dict[str, Scalar]) -> RecordDict:
    """The content of a message."""
    return RecordDict({ARRAYS: _array_record(tensors), SCALARS: ConfigRecord(dict(scalars))})


def _array_record(tensors: Sequence[bytes]) -> ArrayRecord:
    # the format names type and shape itself
    return ArrayRecord({str(i): Array(dtype="", shape=(), stype=NUMPY, data=data) for i, data in enumerate(tensors)})


def unpack(content: RecordDict) -> tuple[list[bytes], dict[str, Scalar]]:
    """Arrays in NumPy's format, unread, and scalars.

    Raises
    ------
    ValueError
        If it is not the content of one of our messages.
    """
    arrays, scalars = content.array_records.get(ARRAYS), content.config_records.get(SCALARS)
    if arrays is None or scalars is None:
        raise ValueError(f"a message without the records {ARRAYS!r} and {SCALARS!r}")
    values: dict[str, Scalar] = {}
    for name, value in scalars.items():
        if isinstance(value, list):
            raise ValueError("a message with a list where a scalar belongs")
        values[name] = value
    return [array.data for array in arrays.values()], values
