"""Flower's own link between a server and its clients in this process: its state, Grid and messages, but no Ray."""

from __future__ import annotations

import gc
import secrets
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import cast

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.proto.task_pb2 import Task
from flwr.server.superlink.linkstate import InMemoryLinkState, LinkStateFactory
from flwr.server.superlink.linkstate.in_memory_linkstate import RunRecord
from flwr.serverapp import ServerApp
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION_ID
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.grid import InMemoryGrid

RUN, TASK = 7, 1
ALWAYS_S = 1e6


class WireGrid(InMemoryGrid):
    """A Grid whose replies have crossed the network; those of ``damaged`` nodes were cut short on the way."""

    def __init__(self, factory: LinkStateFactory) -> None:
        super().__init__(factory)
        self.damaged: set[int] = set()

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies = super().pull_messages(message_ids)
        return [
            reply if reply.has_error() else _over_the_wire(reply, cut=reply.metadata.src_node_id in self.damaged)
            for reply in replies
        ]


class Link:
    """A link with some nodes; each answers in a thread, one at a time, as virtual clients of a worker do.

    Attributes
    ----------
    nodes
        Flower's id of each client, by its number.
    seen
        Every message that a client got, and what the server got for it.
    late
        Numbers of clients whose messages' lifetimes are over before they answer.
    """

    def __init__(self, app: ClientApp, clients: int) -> None:
        self._app, self._done, self._turn = app, threading.Event(), threading.Lock()
        factory = LinkStateFactory(FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager(), ObjectStoreFactory())
        self.state = cast(InMemoryLinkState, factory.state())
        run = Run.create_empty(RUN)
        run.primary_task_id, run.federation_id = TASK, NOOP_FEDERATION_ID
        self.state.run_ids[RUN] = RunRecord(run=run)
        self.state.task_store[TASK] = Task(task_id=TASK, run_id=RUN)
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = TASK, RUN, 1
        self.grid = WireGrid(factory)
        self.grid.set_run(run)
        self.nodes = [self._register() for _ in range(clients)]
        self.seen: list[tuple[Message, Message]] = []
        self.late: set[int] = set()

    def run(self, app: ServerApp) -> None:
        """Run the server to its end, whatever that is."""
        threads = [threading.Thread(target=self._work, args=item) for item in enumerate(self.nodes)]
        with _no_collections():
            for thread in threads:
                thread.start()
            try:
                app(self.grid, _context(0, {}))
            finally:
                self._done.set()
                for thread in threads:
                    thread.join()

    def leave(self, client_id: int) -> None:
        """The client is no longer there."""
        self.state.deactivate_node(self.nodes[client_id])

    def _register(self) -> int:
        node = self.state.create_node("", "", secrets.token_bytes(32), ALWAYS_S)
        self.state.acknowledge_node_heartbeat(node, ALWAYS_S)
        return node

    def _work(self, client_id: int, node: int) -> None:
        while not self._done.wait(0.01):
            for message in self.state.get_message_ins(node, limit=1):
                if client_id in self.late:  # so that nothing depends on how fast the others are
                    message.metadata.ttl = time.time() - message.metadata.created_at
                with self._turn:
                    reply = self._answer(client_id, _over_the_wire(message))
                reply.metadata.__dict__["_message_id"] = str(uuid.uuid4())
                self.seen.append((message, reply))
                self.state.store_message_res(reply)

    def _answer(self, client_id: int, message: Message) -> Message:
        try:
            return self._app(message, _context(self.nodes[client_id], {"partition-id": client_id}))
        except Exception as error:  # as Flower's own workers do
            return Message(Error(code=0, reason=str(error)), reply_to=message)


@contextmanager
def _no_collections() -> Iterator[None]:
    """Two threads may read arrays at once.

    NumPy reads their headers with Python's parser, and that of 3.11 ends in a SystemError where a collection lets the
    other thread in amid its work (CPython's issue 106905). Only here do a server and its clients share a process.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _over_the_wire(message: Message, *, cut: bool = False) -> Message:
    """The message as Flower's objects that cross the network, and back; raises where they are cut short."""
    parts = {name: part.deflate()[: 40 if cut else None] for name, part in get_all_nested_objects(message).items()}
    copy = cast(Message, inflate_object_from_contents(message.object_id, parts))
    copy.metadata.__dict__["_message_id"] = message.metadata.message_id
    return copy


def _context(node: int, config: dict[str, int]) -> Context:
    return Context(run_id=RUN, node_id=node, node_config=dict(config), state=RecordDict(), run_config={})
