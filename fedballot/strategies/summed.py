"""What a Strategy does whose ballots are integers to be added up: see them all, or only their sum."""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from flwr.common import FitIns, FitRes, Parameters, Scalar, ndarrays_to_parameters
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy

from fedballot.core.errors import RunError
from fedballot.core.files import read_arrays, write_arrays
from fedballot.distillation.aggregation import tally
from fedballot.settings.summed import SummedSettings
from fedballot.strategies.base import Answer, Arrays, BallotStrategy, Tally, WatchedProxy
from fedballot.wire import secagg
from fedballot.wire.packing import WireError, payload_bytes
from fedballot.wire.secagg import Exchange, Form, SecaggError

S = TypeVar("S", bound=SummedSettings)

KEPT = "kept"  # array of an opened sum's file that holds the round's record and the counts, as JSON
LABELS = {
    secagg.KEYS: "clients",
    secagg.SHARES: "shares",
    secagg.MASKED: "masked ballots",
    secagg.CONFIRM: "confirming",
    secagg.UNMASK: "opening",
}


class SummedStrategy(BallotStrategy[S], Generic[S]):
    """Ask for ballots of one :class:`Form`, and learn from their sum (:meth:`combine_sum`).

    With ``secure_aggregation`` a round is five exchanges of messages (:mod:`fedballot.wire.secagg`). The opened sum is
    on disk before anything is made of it: clients open it once only, so a run that breaks off later goes on from there.
    """

    _exchange: Exchange | None = None

    @property
    @abstractmethod
    def form(self) -> Form:
        """Shape and largest magnitude of a ballot, as the client has it."""

    @abstractmethod
    def combine_sum(self, server_round: int, total: npt.NDArray[np.int64], contributors: int) -> dict[str, Any]:
        """What the server makes of the sum of this many ballots; returns the round's metrics."""

    def combine(self, server_round: int, answers: list[Answer]) -> dict[str, Any]:
        total = tally((answer.ballot for answer in answers), self.form.shape)
        return self.combine_sum(server_round, total, len(answers))

    @property
    def better_than_charged(self) -> bool:
        """Under masks the sum has the noise of all that came, and charges count those agreed on."""
        return self.settings.secure_aggregation

    @property
    def aggregation(self) -> dict[str, Any]:
        if not self.settings.secure_aggregation:
            return {"secure": False, "words": "The server saw every ballot and added them up itself."}
        plan = self.settings.plan
        words = (
            f"Ballots were added up under masks (secure aggregation): of {plan.clients} clients at least "
            f"{plan.min_clients} must be in the sum, which is all that the server saw, unless more than "
            f"{plan.colluders} of them collude with it."
        )
        return {"secure": True, "words": words, **asdict(plan), "bits": plan.bits(self.form)}

    @property
    def exchanging(self) -> bool:
        return self._exchange is not None

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        """The first exchange goes to every connected client, later ones to those that are still there."""
        if not self.settings.secure_aggregation:
            return super().configure_fit(server_round, parameters, client_manager)
        if self._exchange is None:
            asked = super().configure_fit(server_round, parameters, client_manager)
            request = f"{self.request_id}/{server_round + self.rounds_done}"
            self._exchange = Exchange(self.settings.plan, self.form, request)
            self._cids: dict[int, str] = {}
            self._asked, self._bytes_before, self._wall_s = len(asked), self.counts.bytes_up, 0.0
        else:
            asked = self._further(server_round + self.rounds_done, self._exchange, client_manager)
        for _, instruction in asked:
            instruction.config.update(stage=self._exchange.stage, session=self._exchange.session)
        return asked

    def _further(
        self, server_round: int, exchange: Exchange, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        connected, config = client_manager.all(), self._config(server_round)
        asked: list[tuple[ClientProxy, FitIns]] = []
        for client_id in exchange.clients:
            if (proxy := connected.get(self._cids[client_id])) is None:
                continue  # counted when the answers are
            sent = ndarrays_to_parameters(exchange.ask(client_id))
            self.counts.bytes_down += payload_bytes(sent.tensors)
            self._round_bytes_down += payload_bytes(sent.tensors)
            self.counts.messages += 1
            asked.append((WatchedProxy(proxy, self.progress), FitIns(sent, dict(config))))
        self._asked_at = time.time()
        self.progress.start(f"round {server_round}: {LABELS[exchange.stage]}", len(asked))
        if not asked:
            self._exchange = None
            raise RunError(f"round {server_round}: no client is connected any more; go on with --resume when they are")
        return asked

    def aggregate_fit(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, FitRes]],
        failures: list[tuple[ClientProxy, FitRes] | BaseException],
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """Take the answers of one exchange; after the last one, combine.

        Raises
        ------
        RunError
            If fewer clients are left than a sum may be made of, or it cannot be opened.
        """
        if self._exchange is None:
            return super().aggregate_fit(server_round, results, failures)
        exchange, server_round = self._exchange, server_round + self.rounds_done
        # whose ballot is in the sum has answered, whether or not it helps to open it
        counts = Tally() if exchange.stage in (secagg.CONFIRM, secagg.UNMASK) else self.counts
        expected = len(exchange.clients) if exchange.stage != secagg.KEYS else len(results) + len(failures)
        good = self._collect(results, failures, counts)
        for _ in range(expected - len(results) - len(failures)):
            counts.reject("no answer", "the client is no longer connected")
        if exchange.stage == secagg.KEYS:
            self._cids = {answer.client_id: answer.cid for answer in good}
        stage = exchange.stage
        try:
            exchange.take({answer.client_id: list(answer.ballot) for answer in good})
        except SecaggError as error:
            self._exchange = None
            raise RunError(
                f"round {server_round}, secure aggregation, exchange of {stage}: {error}. {len(good)} of {self._asked} "
                f"clients are left. Rejected: {counts.why() or 'none'}. Nothing was opened"
            ) from error
        if good:
            self._wall_s += self._clock(results, good)
        if exchange.total is None:
            return ndarrays_to_parameters([]), {}
        self._exchange = None
        self.refuse_blank(server_round, len(exchange.inside), self.required)
        self.counts.answered += len(exchange.inside)
        record = {
            "round": server_round,
            "asked": self._asked,
            "answered": len(exchange.inside),
            "wall_s": self._wall_s,
            "bytes_up": self.counts.bytes_up - self._bytes_before,
            "bytes_down": self._round_bytes_down,
        }
        if path := self._sum_path:
            kept = {"record": record, "progress": self._progress()}
            write_arrays(path, {"total": exchange.total, KEPT: np.array(json.dumps(kept))})
        self._end_round(record, self.combine_sum(server_round, exchange.total, len(exchange.inside)))
        return ndarrays_to_parameters([]), {}

    @property
    def _sum_path(self) -> Path | None:
        return self._checkpoint.with_name("sum.npz") if self._checkpoint else None

    def take_kept(self, server_round: int) -> bool:
        path = self._sum_path
        if not self.settings.secure_aggregation or path is None or not path.exists():
            return False
        arrays = read_arrays(path)
        kept = json.loads(str(arrays[KEPT]))
        record = kept["record"]
        if record["round"] != server_round + self.rounds_done:
            return False
        self._take_progress(kept["progress"])
        self._end_round(record, self.combine_sum(record["round"], arrays["total"], record["answered"]))
        return True

    def _read(self, client_id: int, cid: str, arrays: Arrays) -> Any:
        exchange = self._exchange
        if exchange is None:
            return self.read(arrays)
        if exchange.stage != secagg.KEYS and self._cids.get(client_id) != cid:
            raise WireError("client_id", f"client {client_id} was another client before")
        return exchange.read(client_id, arrays)
