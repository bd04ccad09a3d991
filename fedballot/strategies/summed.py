"""What a Strategy does whose ballots are integers to be added up: see them all, or only their sum."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fedballot.core.errors import RunError
from fedballot.core.files import read_arrays, write_arrays
from fedballot.distillation.aggregation import Sum
from fedballot.privacy.noise.randomness import secret_noise
from fedballot.settings.summed import SummedSettings
from fedballot.strategies.base import Answer, Arrays, Tally
from fedballot.strategies.folds import Fold
from fedballot.strategies.one_shot import SERVER, Kept, Learned, OneShotStrategy
from fedballot.strategies.rounds import PROGRESS
from fedballot.wire import secagg
from fedballot.wire.codec import Integers
from fedballot.wire.messages import Request, serialise
from fedballot.wire.packing import WireError, payload_bytes
from fedballot.wire.secagg import Exchange, Form, SecaggError

S = TypeVar("S", bound=SummedSettings)

EXCHANGE = "exchange.npz"  # beside the checkpoint, while the last two exchanges go on
LABELS = {
    secagg.KEYS: "clients",
    secagg.SHARES: "shares",
    secagg.MASKED: "masked ballots",
    secagg.CONFIRM: "confirming",
    secagg.UNMASK: "opening",
}


class SummedStrategy(OneShotStrategy[S], Generic[S]):
    """Ask for ballots of one :class:`Form`, and learn from their sum (:meth:`learn_from_sum`).

    With ``secure_aggregation`` a round is five exchanges of messages (:mod:`fedballot.wire.secagg`). The opened sum is
    on disk before anything is made of it: clients open it once only, so a run that breaks off later goes on from there.
    """

    _exchange: Exchange | None = None

    @property
    @abstractmethod
    def form(self) -> Form:
        """Shape and largest magnitude of a ballot, as the client has it."""

    def read(self, arrays: Arrays) -> npt.NDArray[np.integer]:
        """A ballot that was sent in the clear; one larger than a client's can be is refused, which no mask allows."""
        return Integers(self.form.shape, self.form.largest).read(arrays)

    @abstractmethod
    def learn_from_sum(self, total: npt.NDArray[np.int64], arrived: int) -> Learned:
        """What the server makes of the sum of this many ballots, central noise included."""

    def keeping(self) -> Fold[Kept]:
        ballots, clients = Sum(self.form.shape), set[int]()

        def add(answer: Answer) -> None:
            ballots.add(answer.ballot)
            clients.add(answer.client_id)

        return Fold(add, lambda: self.keep_sum(ballots.total, clients), ordered=False)

    def keep(self, answers: Sequence[Answer]) -> Kept:
        return self.keeping().of(answers)

    def keep_sum(self, total: npt.NDArray[np.int64], clients: Collection[int]) -> Kept:
        """The sum, with the noise of a mechanism whose clients trust the server to draw it: drawn once."""
        (part,) = self.composition().parts.values()
        if part.central:
            total = part.release(total, secret_noise(getattr(self.settings, "noise_seed", None), SERVER))
        return {"total": total, "arrived": np.array(len(clients))}

    def learn(self, kept: Kept) -> Learned:
        return self.learn_from_sum(kept["total"], int(kept["arrived"]))

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

    def ask(self, server_round: int, connected: list[str]) -> list[Request]:
        """The first exchange goes to every connected client, later ones to those that are still there."""
        if not self.settings.secure_aggregation:
            return super().ask(server_round, connected)
        if self._exchange is None:
            self._cids: dict[int, str] = {}
            self._take_up_exchange(server_round)
        if self._exchange is None:
            requests = super().ask(server_round, connected)
            self._exchange = Exchange(self.settings.plan, self.form, f"{self.request_id}/{server_round}")
            self._asked, self._bytes_before, self._wall_s = len(requests), self.counts.bytes_up, 0.0
        else:
            requests = self._further(server_round, self._exchange, connected)
        for request in requests:
            request.config.update(stage=self._exchange.stage, session=self._exchange.session)
        # whose ballot is in the sum has answered, whether or not it helps to open it
        self._rejected = Tally() if self._exchange.stage in (secagg.CONFIRM, secagg.UNMASK) else self.counts
        fold: Fold[None] = Fold(self._hand_on, lambda: None, ordered=False)
        self._open(fold, [request.to for request in requests], self._rejected)
        return requests

    def _hand_on(self, answer: Answer) -> None:
        assert self._exchange is not None
        self._cids[answer.client_id] = answer.cid
        self._exchange.receive(answer.client_id, list(answer.ballot))

    def _further(self, server_round: int, exchange: Exchange, connected: list[str]) -> list[Request]:
        config, there = self._config(server_round), set(connected)
        requests: list[Request] = []
        common = serialise(exchange.common)
        sent = [(name, common) for name in connected]  # of an exchange that was taken up nobody knows who is who
        if self._cids:  # those who are not there are counted when the answers are
            here = [client_id for client_id in exchange.clients if self._cids[client_id] in there]
            sent = [(self._cids[client_id], [*common, *serialise(exchange.own(client_id))]) for client_id in here]
        for name, tensors in sent:
            self.counts.bytes_down += payload_bytes(tensors)
            self._round_bytes_down += payload_bytes(tensors)
            self.counts.messages += 1
            requests.append(Request(name, tensors, dict(config)))
        self._note_asking()
        self.progress.start(f"round {server_round}: {LABELS[exchange.stage]}", len(requests))
        if not requests:
            self._exchange = None
            raise RunError(f"round {server_round}: no client is connected any more; go on with --resume when they are")
        return requests

    def conclude(self, server_round: int) -> None:
        """Take the answers of one exchange; after the last one, combine.

        Raises
        ------
        RunError
            If fewer clients are left than a sum may be made of, or it cannot be opened.
        """
        if self._exchange is None:
            super().conclude(server_round)
            return
        exchange, intake, counts = self._exchange, self._under_way(), self._rejected
        expected = len(exchange.clients) if exchange.stage != secagg.KEYS else intake.asked
        for _ in range(expected - intake.asked):
            counts.reject("no answer", "the client is no longer connected")
        stage, good = exchange.stage, len(intake.clients)
        try:
            exchange.advance()
        except SecaggError as error:
            self._exchange = None
            raise RunError(
                f"round {server_round}, secure aggregation, exchange of {stage}: {error}. {good} of {self._asked} "
                f"clients are left. Rejected: {counts.why() or 'none'}. Nothing was opened; --resume asks them again"
            ) from error
        if good:
            self._wall_s += self._clock(intake)
        if exchange.total is None:
            self._keep_exchange(exchange)
            return
        self._exchange = None
        self.refuse_blank(server_round, len(exchange.inside), self.min_clients)
        self.counts.answered += len(exchange.inside)
        record = {
            "round": server_round,
            "asked": self._asked,
            "answered": len(exchange.inside),
            "wall_s": self._wall_s,
            "bytes_up": self.counts.bytes_up - self._bytes_before,
            "bytes_down": self._round_bytes_down,
        }
        self._kept = self.keep_sum(exchange.total, exchange.inside)
        self._end_round(record, {})
        if self._exchange_file:
            self._exchange_file.unlink(missing_ok=True)

    @property
    def _exchange_file(self) -> Path | None:
        return self._checkpoint and self._checkpoint.with_name(EXCHANGE)

    def _keep_exchange(self, exchange: Exchange) -> None:
        """Have the last two exchanges on disk before they begin: whoever has signed a list takes part in no other."""
        if self._exchange_file is None or exchange.stage not in (secagg.CONFIRM, secagg.UNMASK):
            return
        figures = [self._progress(), self._asked, self._bytes_before, self._round_bytes_down, self._wall_s]
        state = {**exchange.state(), PROGRESS: np.array(json.dumps(figures))}
        write_arrays(self._exchange_file, state, mode=0o600)

    def _take_up_exchange(self, server_round: int) -> None:
        """Go on with the exchanges about this round in which an earlier start of the run broke off."""
        path = self._exchange_file
        if path is None or not path.exists():
            return
        state = read_arrays(path)
        progress, *figures = json.loads(str(state.pop(PROGRESS)))
        exchange = Exchange.taken_up(self.settings.plan, self.form, state)
        if exchange.request != f"{self.request_id}/{server_round}":
            return
        self._exchange = exchange
        self._take_progress(progress)
        self._asked, self._bytes_before, self._round_bytes_down, self._wall_s = figures

    def _read(self, client_id: int, cid: str, arrays: Arrays) -> Any:
        exchange = self._exchange
        if exchange is None:
            return self.read(arrays)
        if exchange.stage != secagg.KEYS and client_id not in exchange.clients:
            raise WireError("client_id", f"client {client_id} takes no part in this exchange")
        if exchange.stage != secagg.KEYS and self._cids.get(client_id, cid) != cid:
            raise WireError("client_id", f"client {client_id} was another client before")
        return exchange.read(client_id, arrays)
