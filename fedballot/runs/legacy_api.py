"""A run through Flower's legacy pair: a ``Server`` with a Strategy, and clients that answer ``fit``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flwr.client import Client, ClientApp, NumPyClient
from flwr.common import Context, Parameters, Scalar
from flwr.server import Server, ServerApp, ServerAppComponents, ServerConfig, SimpleClientManager
from flwr.server.history import History
from flwr.server.server import FitResultsAndFailures

from fedballot.runs.engine import ServerSide, finishing
from fedballot.strategies.base import BallotStrategy

MESSAGES_IN_FLIGHT = 64  # Flower's default of cores + 4 costs 20 ms a message


class BallotServer(Server):
    """Flower's server, with a word at the end: the outcome, or why there is none."""

    def __init__(self, strategy: BallotStrategy[Any], finish: Callable[[BaseException | None], None]) -> None:
        super().__init__(client_manager=SimpleClientManager(), strategy=strategy)
        self.set_max_workers(MESSAGES_IN_FLIGHT)
        self._ballots, self._finish = strategy, finish

    def fit_round(
        self, server_round: int, timeout: float | None
    ) -> tuple[Parameters | None, dict[str, Scalar], FitResultsAndFailures] | None:
        """One exchange with the clients, or as many as the Strategy needs."""
        out = super().fit_round(server_round, timeout)
        while self._ballots.exchanging:
            out = super().fit_round(server_round, timeout)
        return out

    def fit(self, num_rounds: int, timeout: float | None) -> tuple[History, float]:
        with finishing(self._finish):
            return super().fit(num_rounds, timeout)


def client_app(client: Callable[[Context], NumPyClient]) -> ClientApp:
    """The app of a client; ``client`` makes it anew for each message."""

    def client_fn(context: Context) -> Client:
        return client(context).to_client()

    return ClientApp(client_fn=client_fn)


def server_app(server: Callable[[Context], ServerSide]) -> ServerApp:
    """The app of a server; ``server`` makes it when a run starts."""

    def server_fn(context: Context) -> ServerAppComponents:
        side = server(context)
        rounds = side.strategy.rounds - side.strategy.rounds_done
        return ServerAppComponents(
            server=BallotServer(side.strategy, side.finish),
            config=ServerConfig(num_rounds=rounds, round_timeout=side.round_timeout_s),
        )

    return ServerApp(server_fn=server_fn)
