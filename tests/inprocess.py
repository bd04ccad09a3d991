"""A whole run in this process, for what is a method's own affair: real server, strategy and clients, but no Ray."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from flwr.client import NumPyClient
from flwr.common import Context, FitIns, FitRes, RecordDict
from flwr.server.client_proxy import ClientProxy

from fedballot.core.folders import RunFolder
from fedballot.core.progress import Silent
from fedballot.methods.registry import get_method
from fedballot.runs.engine import check_learners, make_client, make_server, trained_models
from fedballot.runs.legacy_api import BallotServer
from fedballot.runs.run_config import client_number
from fedballot.settings.parts import CommonSettings, server_models


class Counting(Silent):
    """Progress that is written down."""

    def __init__(self) -> None:
        self.stages: list[list[Any]] = []

    def start(self, label: str, total: int) -> None:
        self.stages.append([label, total, 0])

    def advance(self, steps: int = 1) -> None:
        self.stages[-1][2] += steps


class Here(ClientProxy):
    """A client of this process; one at a time, as the clients of a worker are."""

    turn = threading.Lock()

    def __init__(self, number: int, client_fn: Callable[[Context], NumPyClient]) -> None:
        super().__init__(str(number))
        self._node, self._client_fn = {"partition-id": number}, client_fn

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        with self.turn:
            context = Context(run_id=1, node_id=1, node_config=self._node, state=RecordDict(), run_config={})
            return self._client_fn(context).to_client().fit(ins)

    def _never(self, *_: Any) -> Any:
        raise NotImplementedError("clients are only ever asked to fit")

    get_properties = get_parameters = evaluate = reconnect = _never


def run_here(
    method_name: str, settings: CommonSettings, out: Path, *, resume: bool = False, client: Any = None
) -> dict[str, Any]:
    """As :func:`fedballot.sim.simulate`, in a tenth of the time; ``client(context)`` stands in for the method's own."""
    method = get_method(method_name)
    check_learners(settings, (*trained_models(method, settings), *server_models(settings)))
    folder = RunFolder.open(out, method_name, settings, resume=resume)
    side = make_server(method, settings, folder, workers=1, progress=Silent())
    server = BallotServer(side.strategy, side.finish)
    for number in range(method.nodes(settings)):
        client_fn = client or partial(_client, method_name, settings, folder.path / "clients")
        server.client_manager().register(Here(number, client_fn))
    server.fit(side.strategy.rounds - side.strategy.rounds_done, side.round_timeout_s)
    return side.recorder.result


def _client(method_name: str, settings: CommonSettings, root: Path, context: Context) -> NumPyClient:
    return make_client(method_name, settings, root, client_number(context))
