"""A method's server side as Flower's Strategy: Flower's types on one side, :class:`Rounds` on the other."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic

from flwr.common import (
    Code,
    DisconnectRes,
    EvaluateIns,
    EvaluateRes,
    FitIns,
    FitRes,
    GetParametersIns,
    GetParametersRes,
    GetPropertiesIns,
    GetPropertiesRes,
    Parameters,
    ReconnectIns,
    Scalar,
    ndarrays_to_parameters,
)
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy

from fedballot.strategies.hooks import S
from fedballot.strategies.intake import Tally
from fedballot.strategies.rounds import Rounds
from fedballot.strategies.shelf import Answer
from fedballot.wire.messages import Arrays, Reply, Request

__all__ = ["Answer", "Arrays", "BallotStrategy", "S", "Tally", "WatchedProxy"]

TENSOR_TYPE = "numpy.ndarray"
ASKED_AT_ONCE = 64  # virtual clients, for their numbers


class WatchedProxy(ClientProxy):
    """A client proxy that hands the answer to the Strategy when it comes; Flower keeps one without arrays."""

    def __init__(self, proxy: ClientProxy, strategy: BallotStrategy[Any]) -> None:
        super().__init__(proxy.cid)
        self._proxy, self._strategy = proxy, strategy

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        try:
            came = self._proxy.fit(ins, timeout, group_id)
        except BaseException as error:
            self._strategy.miss(str(error), self.cid)
            raise
        finally:
            self._strategy.progress.advance()
        if came.status.code == Code.OK:
            self._strategy.take_in(Reply(self.cid, came.parameters.tensors, came.metrics, time.time()))
        else:
            self._strategy.miss(came.status.message, self.cid)
        return FitRes(came.status, Parameters([], TENSOR_TYPE), came.num_examples, {})

    def get_properties(self, ins: GetPropertiesIns, timeout: float | None, group_id: int | None) -> GetPropertiesRes:
        return self._proxy.get_properties(ins, timeout, group_id)

    def get_parameters(self, ins: GetParametersIns, timeout: float | None, group_id: int | None) -> GetParametersRes:
        return self._proxy.get_parameters(ins, timeout, group_id)

    def evaluate(self, ins: EvaluateIns, timeout: float | None, group_id: int | None) -> EvaluateRes:
        return self._proxy.evaluate(ins, timeout, group_id)

    def reconnect(self, ins: ReconnectIns, timeout: float | None, group_id: int | None) -> DisconnectRes:
        return self._proxy.reconnect(ins, timeout, group_id)


class BallotStrategy(Rounds[S], Strategy, Generic[S]):
    """The base of every method's Strategy; :class:`fedballot.strategies.hooks.Hooks` says what a method fills in."""

    _fault: BaseException | None = None

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters:
        """No initial weights: predictions are shared, not parameters."""
        return ndarrays_to_parameters([])

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        """See :meth:`Rounds.ask`; waits for clients first. Flower counts rounds from 1 at each start of a run."""
        if not self.exchanging:
            client_manager.num_available()  # Flower looks for clients every 5 s, and for this, not for `wait_for`
            client_manager.wait_for(self.nodes, timeout=math.ceil(self.patience_s))
        proxies = client_manager.all()
        names = self.in_order(proxies, lambda names: _numbers(proxies, names))
        requests = self.ask(server_round + self.rounds_done, names)
        if not requests:  # an empty cohort is a round like any other: Flower would skip it, and its noise with it
            self.conclude(server_round + self.rounds_done)
        return [(WatchedProxy(proxies[one.to], self), _fit_ins(one)) for one in requests]

    def aggregate_fit(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, FitRes]],
        failures: list[tuple[ClientProxy, FitRes] | BaseException],
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """See :meth:`Rounds.conclude`; the answers themselves have come through :class:`WatchedProxy`."""
        if self._fault is not None:
            raise self._fault
        self.conclude(server_round + self.rounds_done)
        return ndarrays_to_parameters([]), {}

    def take_in(self, reply: Reply) -> None:
        """See :meth:`Rounds.receive`; Flower would take an error here for a client's, so it is raised afterwards."""
        try:
            self.receive(reply)
        except BaseException as error:
            self._fault = error

    def configure_evaluate(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, EvaluateIns]]:
        """No federated evaluation: an accuracy on private records would be a release of its own."""
        return []

    def aggregate_evaluate(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, EvaluateRes]],
        failures: list[tuple[ClientProxy, EvaluateRes] | BaseException],
    ) -> tuple[float | None, dict[str, Scalar]]:
        """Nothing to aggregate."""
        return None, {}

    def evaluate(self, server_round: int, parameters: Parameters) -> tuple[float, dict[str, Scalar]] | None:
        """The server's model is measured once, when the method is done."""
        return None


def _numbers(proxies: Mapping[str, ClientProxy], names: Sequence[str]) -> dict[str, int]:
    """The numbers of virtual clients, as they tell them."""
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        replies = pool.map(lambda name: proxies[name].get_properties(GetPropertiesIns({}), None, None), names)
        return {name: int(one.properties["client_id"]) for name, one in zip(names, replies, strict=True)}


def _fit_ins(request: Request) -> FitIns:
    return FitIns(Parameters(request.tensors, TENSOR_TYPE), request.config)
