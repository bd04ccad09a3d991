"""One run of a method in one world: its own Strategy asks, its own clients answer, and an adversary listens."""

from __future__ import annotations

import secrets
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedballot.clients.workspace import Workspace
from fedballot.core.errors import RunError
from fedballot.core.files import read_arrays, write_arrays
from fedballot.core.folders import ClientFolder
from fedballot.datasets.federation import FederatedData
from fedballot.methods.api import Method
from fedballot.runs.engine import needs_torch, new_strategy, prepare_worker, resolve_device
from fedballot.settings.parts import CommonSettings
from fedballot.strategies.base import BallotStrategy
from fedballot.strategies.fedmd import FedmdStrategy
from fedballot.strategies.weights import WeightsStrategy
from fedballot.studies.attacks.reading import Reader, Signal
from fedballot.studies.attacks.world import Coins, World
from fedballot.wire.messages import Reply, Request, deserialise, serialise

Seen = Literal["server", "output"]
READ = 5  # rounds of weights that are read, evenly spread with the first and the last: each takes as long as training


class Table:
    """Plays runs of a method.

    The other clients have the same records in every world. Their answers are public to the adversary, who is given all
    but the target's: they are made once, by the real clients, and kept; but where the noise of a sum is made of shares,
    which nobody has seen singly, they answer anew in every run, with the models that they have.

    Parameters
    ----------
    method, settings, world
        The experiment.
    seen
        ``server``: each answer of the target, or only the sum of all where they come under masks. ``output``: what the
        server makes of a round's answers.
    folder
        For what clients keep.
    planted
        Whether the world's records are in the public pool: the server then asks about them in every round.
    """

    def __init__(
        self, method: Method, settings: CommonSettings, world: World, seen: Seen, folder: Path, *, planted: bool = False
    ) -> None:
        masked = bool(getattr(settings, "secure_aggregation", False))
        self.settings = unmasked(settings, evaluate_clients=False)
        self.method = same_queries(method) if planted else method
        self.world, self.folder = world, folder
        self.seen: Seen = "output" if masked else seen
        self.device = ready(method, settings)
        strategy = self.strategy(world.data)
        composition = strategy.composition()
        central = all(part.central for part in composition.parts.values())
        shared = composition.private and composition.trust.kind != "self" and not central
        self.answers_anew = shared and self.seen == "output"
        self.alone = self.seen == "server" and strategy.rounds == 1  # the others' answers change nothing that is seen
        rounds = strategy.rounds
        few = isinstance(strategy, WeightsStrategy) and rounds > READ
        self.read = {int(number) for number in np.linspace(1, rounds, READ if few else rounds).round()}
        self.reader = Reader(world, linear=composition.private, planted=planted)

    def strategy(self, data: FederatedData) -> BallotStrategy[Any]:
        """The server of a fresh run."""
        return fresh_server(self.method, self.settings, data, self.device)

    def play(self, coins: Coins) -> list[Signal]:
        """What the adversary sees in a run in this world, one signal for each round in which it sees anything.

        Raises
        ------
        RunError
            If the target refuses, or too few clients answer.
        """
        data, target = self.world.of(coins), self.world.target
        strategy = self.strategy(data)
        names = [*strategy.numbers]
        own = ClientFolder(self.folder / f"target-{secrets.token_hex(8)}")
        if self.answers_anew:
            for ledger in self.folder.glob("[0-9]*/ledger"):
                shutil.rmtree(ledger)
        signals: list[Signal] = []
        try:
            for server_round in strategy.exchanges():
                for request in strategy.ask(server_round, names):
                    if int(request.to) == target:
                        reply = self._reply(request, data, own)
                        if self.seen == "server" and server_round in self.read:
                            signals.append(self._heard(strategy, server_round, request, reply))
                    elif self.alone:
                        continue
                    else:
                        reply = self._other(request, server_round)
                    strategy.receive(replace(reply, arrived=time.time()))
                if not self.alone:
                    strategy.conclude(server_round)
                    if self.seen == "output" and server_round in self.read:
                        signals.append(self.reader.state(strategy, server_round))
        finally:
            shutil.rmtree(own.path, ignore_errors=True)
        return signals

    def _heard(self, strategy: BallotStrategy[Any], server_round: int, request: Request, reply: Reply) -> Signal:
        return self.reader.answer(strategy, server_round, deserialise(request.tensors), deserialise(reply.tensors))

    def _reply(self, request: Request, data: FederatedData, folder: ClientFolder) -> Reply:
        return answered(self.method, self.settings, self.device, request, data, folder)

    def _other(self, request: Request, server_round: int) -> Reply:
        folder = ClientFolder(self.folder / f"{int(request.to):05d}")
        if self.answers_anew:
            return self._reply(request, self.world.data, folder)
        kept = self.folder / f"answers/{server_round}-{request.to}.npz"
        if not kept.exists():
            reply = self._reply(request, self.world.data, folder)
            told = deserialise(reply.tensors)
            write_arrays(kept, {f"{place:03d}": array for place, array in enumerate(told)})
        arrays: list[npt.NDArray[Any]] = [array for _, array in sorted(read_arrays(kept).items())]
        return Reply(request.to, serialise(arrays), {"client_id": int(request.to)})


def unmasked(settings: CommonSettings, *, evaluate_clients: bool) -> CommonSettings:
    """The settings that an attack plays: a sum is the same with and without masks."""
    quiet: dict[str, Any] = {"secure_aggregation": False, "evaluate_clients": evaluate_clients}
    return replace(settings, **{key: value for key, value in quiet.items() if hasattr(settings, key)})


def same_queries(method: Method) -> Method:
    """The method whose server asks about the first round's public records in all rounds."""
    kind = method.strategy_class
    if not issubclass(kind, FedmdStrategy):
        return method

    class Insisting(kind):  # type: ignore[misc, valid-type]
        def queries(self, server_round: int) -> npt.NDArray[np.int64]:
            return np.asarray(super().queries(1))

    return replace(method, strategy=Insisting)


def ready(method: Method, settings: CommonSettings) -> str:
    """Prepare this process for the method's clients; returns the device on which they train."""
    models = method.trained_models(settings)
    prepare_worker(needs_torch(settings, models))
    return resolve_device(settings, models)


def fresh_server(method: Method, settings: CommonSettings, data: FederatedData, device: str) -> BallotStrategy[Any]:
    """The server of a fresh run, to which each client is known by its number."""
    name = f"attack-{secrets.token_hex(8)}"  # else the same request would get the same noise
    strategy = new_strategy(method, settings, data, request_id=name, device=device)
    strategy.numbers = {str(number): number for number in range(strategy.nodes)}
    return strategy


def answered(
    method: Method, settings: CommonSettings, device: str, request: Request, data: FederatedData, folder: ClientFolder
) -> Reply:
    """What the method's own client answers.

    Raises
    ------
    RunError
        If it refuses.
    """
    workspace = Workspace(int(request.to), settings, data, folder, device)
    arrays, _, metrics = method.client_class(workspace).fit(deserialise(request.tensors), request.config)
    if metrics["refused"]:
        raise RunError(
            f"attack: client {request.to} refused ({metrics['refused']!s}): {metrics['detail']!s}; "
            f"{folder.path / 'errors.txt'}"
        )
    return Reply(request.to, serialise(arrays), metrics)


def together(signals: list[Signal]) -> Signal:
    """All rounds of a run as one: the last of each score, the first, and the mean; labels on average."""
    scores = np.stack([signal.scores for signal in signals])
    every = [scores.mean(axis=0)] if len(scores) == 1 else [scores.mean(axis=0), scores[0], scores[-1]]
    right = np.mean([signal.right for signal in signals], axis=0)
    return Signal(np.column_stack(every), right, signals[0].main, signals[0].log_odds)
