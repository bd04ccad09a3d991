"""A whole run in this process, for what is a method's own affair."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

from flwr.client import NumPyClient
from flwr.common import Context, FitIns, FitRes, RecordDict
from flwr.server.client_proxy import ClientProxy

from fedballot.cli.runner import outcome
from fedballot.core.progress import Silent
from fedballot.methods.registry import get_method
from fedballot.runs import workers
from fedballot.runs.engine import check_learners, make_client, make_server, open_run
from fedballot.runs.local import run_rounds
from fedballot.runs.worker import Job
from fedballot.settings.parts import CommonSettings
from fedballot.studies.runner import request_of
from fedballot.studies.sweep import Point, Shared


class Counting(Silent):
    """Progress that is written down."""

    def __init__(self) -> None:
        self.stages: list[list[Any]] = []

    def start(self, label: str, total: int) -> None:
        self.stages.append([label, total, 0])

    def note(self, words: str) -> None:
        pass

    def advance(self, steps: int = 1) -> None:
        self.stages[-1][2] += steps


class Here(ClientProxy):
    """A client of this process; one at a time, as the clients of a worker are."""

    turn = threading.Lock()

    def __init__(self, number: int, client_fn: Callable[[Context], NumPyClient]) -> None:
        super().__init__(str(number))
        self._number, self._client_fn = number, client_fn

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        with self.turn:
            return self._client_fn(context_of(self._number)).to_client().fit(ins)

    def _never(self, *_: Any) -> Any:
        raise NotImplementedError("clients are only ever asked to fit")

    get_properties = get_parameters = evaluate = reconnect = _never


def run_here(
    method_name: str, settings: CommonSettings, out: Path, *, resume: bool = False, client: Any = None
) -> dict[str, Any]:
    """As :func:`fedballot.sim.simulate`, without processes; ``client(context)`` stands in for the method's own."""
    method = get_method(method_name)
    check_learners(settings, clients=True)
    folder = open_run(out, method, settings, resume=resume)
    side = make_server(method, settings, folder, workers=1, progress=Silent())
    make = partial(make_client, method_name, settings, folder.path / "clients")

    def numbered(number: int) -> NumPyClient:
        return client(context_of(number)) if client else make(number)

    run_rounds(side, Job(numbered, folder.log), workers.replies_here)
    return side.recorder.result


def context_of(number: int) -> Context:
    """What Flower tells the virtual client of a number."""
    node: dict[str, Any] = {"partition-id": number}
    return Context(run_id=1, node_id=1, node_config=node, state=RecordDict(), run_config={})


class RunnerHere:
    """As :class:`fedballot.studies.runner.Runner`, for its place in ``fedballot.studies.sweep``, without a process.

    Another process imports for seconds; tests/studies keeps real ones.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, point: Point, shared: Shared) -> str:
        with workers.Workers(1) as own:
            return outcome(json.loads(json.dumps(request_of(point, shared))), own)

    def stop(self) -> None:
        pass
