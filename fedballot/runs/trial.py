"""A method tried on a few real digits, without a network: servers, clients, and the messages between them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from fedballot.clients.base import BallotClient
from fedballot.clients.workspace import Workspace
from fedballot.core.folders import RunFolder
from fedballot.core.progress import Silent
from fedballot.core.setting import build, names_of
from fedballot.methods.api import Method
from fedballot.privacy.ledger import Ledger
from fedballot.privacy.ledger.reconcile import charges
from fedballot.privacy.mechanism import Composition
from fedballot.runs.engine import ServerSide, federated_data, make_server
from fedballot.settings.parts import CommonSettings
from fedballot.wire.messages import Arrays, Reply, Request, deserialise, serialise

SMALL = {
    "dataset": "digits",
    "clients": 3,
    "min_clients": 2,
    "private_size": 300,
    "public_size": 60,
    "test_size": 60,
    "client_models": "logistic-regression",
    "server_model": "logistic-regression",
    "rounds": 2,
    "epochs": 1,
    "server_epochs": 1,
    "workers": 1,
    "device": "cpu",
}


class Trial:
    """A method with small settings: makes servers and clients, and carries messages between them."""

    def __init__(self, method: Method, values: dict[str, Any], root: Path, title: str) -> None:
        self.method, self.root, self.title = method, root, title.partition(":")[0].strip(" .")
        kind = method.settings
        small = {name: value for name, value in SMALL.items() if name in names_of(kind)}
        self.settings: CommonSettings = build(kind, small, values)

    def fail(self, what: str, remedy: str) -> NoReturn:
        """End the check: what is wrong, and what to do."""
        raise AssertionError(f"{self.method.name}: {self.title}: {what}. To mend it, {remedy}")

    def server(self, name: str, settings: CommonSettings | None = None) -> ServerSide:
        """The server of the run in a folder of that name, taken up if it is there."""
        chosen = settings or self.settings
        folder = RunFolder.open(self.root / name, self.method.name, chosen, resume=True)
        return make_server(self.method, chosen, folder, workers=1, progress=Silent())

    def client(
        self, number: int, name: str = "run", settings: CommonSettings | None = None, **changes: Any
    ) -> BallotClient[Any]:
        """A client anew, as each message finds it, with its folder in the run of that name."""
        chosen = settings or self.settings
        folder = RunFolder(self.root / name, self.method.name, {}, "", "").client(number)
        return self.method.client_class(Workspace(number, chosen, federated_data(chosen), folder, "cpu", **changes))

    def requests(self, side: ServerSide, number: int = 1) -> list[Request]:
        """What a round asks, by client."""
        return side.strategy.ask(number, [str(client) for client in range(self.method.nodes(self.settings))])

    def round(self, side: ServerSide, number: int, name: str, settings: CommonSettings | None = None) -> None:
        """One round with all of its exchanges."""
        while True:
            for request in self.requests(side, number):
                client = self.client(int(request.to), name, settings)
                arrays, _, metrics = client.fit(deserialise(request.tensors), request.config)
                side.strategy.receive(Reply(request.to, serialise(arrays), metrics))
            side.strategy.conclude(number)
            if not side.strategy.exchanging:
                return

    def answer(self, name: str, settings: CommonSettings | None = None, **changes: Any) -> Arrays:
        """What client 0 says in the first round of the run of that name; fails if it refuses."""
        side = self.server(name, settings)
        arrays, metrics = self.fit(self.client(0, name, settings, **changes), self.requests(side)[0])
        if metrics["refused"]:
            self.fail(f"the client refused: {metrics['refused']}: {metrics['detail']}", "answer a request of one's own")
        return list(arrays)

    @staticmethod
    def fit(client: BallotClient[Any], request: Request, arrays: Arrays | None = None, **config: Any) -> Any:
        """Arrays and metrics of one answer, to the request or to one with other arrays or words."""
        sent = deserialise(request.tensors) if arrays is None else arrays
        out, _, metrics = client.fit(sent, {**request.config, **config})
        return out, metrics

    def composition(self, settings: CommonSettings | None = None) -> Composition:
        """What client 0 is charged for, as the server has it."""
        return self.server("composition", settings).strategy.composition(0)

    def seeded(self, seed: int) -> CommonSettings:
        """The settings with seeded noise, where there is any to seed."""
        if "noise_seed" not in names_of(self.method.settings):
            return self.settings
        return dataclasses.replace(self.settings, noise_seed=seed)  # type: ignore[call-arg]


@contextmanager
def recorded(trial: Trial) -> Iterator[set[str]]:
    """Which settings are read one by one; not by what takes them all, such as the record of a run."""
    kind, seen, pause = type(trial.settings), set[str](), 0
    names = {*names_of(kind)}

    def get(self: Any, name: str) -> Any:
        if name in names and not pause:
            seen.add(name)
        return object.__getattribute__(self, name)

    def quiet(name: str) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal pause
            pause += 1
            try:
                return getattr(kind, name)(self, *args, **kwargs)
            finally:
                pause -= 1

        return call

    whole = {name: quiet(name) for name in ("__post_init__", "__hash__", "__eq__", "to_dict", "headline")}
    watched: Any = type(kind.__name__, (kind,), {**whole, "__getattribute__": get})
    plain, trial.settings = trial.settings, watched(**{name: getattr(trial.settings, name) for name in names})
    try:
        yield seen
    finally:
        trial.settings = plain


def charges_of(trial: Trial, name: str) -> dict[str, Any]:
    """What client 0 was charged in the run of that name, by request and part."""
    folder = trial.root / name / "clients" / "00000" / "ledger"
    return charges(Ledger(folder)) if (folder / "ledger.jsonl").exists() else {}
