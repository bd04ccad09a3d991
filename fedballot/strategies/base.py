"""What every Strategy of fedballot does: ask all clients, check each answer, count, and never average too few."""

from __future__ import annotations

import json
import math
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from flwr.common import (
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
    parameters_to_ndarrays,
)
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy

from fedballot.core.errors import RunError
from fedballot.core.files import read_arrays, write_arrays
from fedballot.core.progress import Progress
from fedballot.privacy.guarantee import Guarantee
from fedballot.privacy.ledger.heads import SENT, Heads, Known
from fedballot.privacy.ledger.ledger import Costs
from fedballot.settings.parts import CommonSettings
from fedballot.wire.packing import WireError, payload_bytes

S = TypeVar("S", bound=CommonSettings)
Arrays = list[npt.NDArray[Any]]

PROGRESS = "progress"  # array of a checkpoint that holds the counts and records, as JSON
JOIN_TIMEOUT_S = 60.0  # how long clients may take to connect before the server goes on without them


@dataclass(frozen=True)
class Answer:
    """One good answer: who gave it, and the arrays as the method reads them."""

    client_id: int
    ballot: npt.NDArray[Any]
    compute_s: float
    began: float
    cid: str = ""


@dataclass
class Tally:
    """Running counts of a run: what was asked, answered, rejected and sent."""

    asked: int = 0
    answered: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    first_details: dict[str, str] = field(default_factory=dict)
    bytes_up: int = 0
    bytes_down: int = 0
    messages: int = 0

    def reject(self, reason: str, detail: str) -> None:
        """Count a bad answer, keeping the first detail of each reason."""
        self.rejected[reason] += 1
        self.first_details.setdefault(reason, detail)

    def why(self) -> str:
        """The rejections in words."""
        return "; ".join(
            f"{reason}: {count} (first: {self.first_details[reason]})" for reason, count in self.rejected.most_common()
        )


class WatchedProxy(ClientProxy):
    """A client proxy that tells when its answer has come, so that a round has a progress bar."""

    def __init__(self, proxy: ClientProxy, progress: Progress) -> None:
        super().__init__(proxy.cid)
        self._proxy, self._progress = proxy, progress
        self.replied = 0.0

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        try:
            return self._proxy.fit(ins, timeout, group_id)
        finally:
            self.replied = time.time()
            self._progress.advance()

    def get_properties(self, ins: GetPropertiesIns, timeout: float | None, group_id: int | None) -> GetPropertiesRes:
        return self._proxy.get_properties(ins, timeout, group_id)

    def get_parameters(self, ins: GetParametersIns, timeout: float | None, group_id: int | None) -> GetParametersRes:
        return self._proxy.get_parameters(ins, timeout, group_id)

    def evaluate(self, ins: EvaluateIns, timeout: float | None, group_id: int | None) -> EvaluateRes:
        return self._proxy.evaluate(ins, timeout, group_id)

    def reconnect(self, ins: ReconnectIns, timeout: float | None, group_id: int | None) -> DisconnectRes:
        return self._proxy.reconnect(ins, timeout, group_id)


class BallotStrategy(Strategy, Generic[S]):
    """Ask every client the same thing, keep the good answers, combine them.

    A method says what is asked (:meth:`request`), how an answer is read (:meth:`read`) and what follows
    (:meth:`combine`). A method of many rounds also says what it needs to go on after any of them (:meth:`state`,
    :meth:`restore`).

    Parameters
    ----------
    settings
        The resolved settings.
    nodes
        Number of clients that take part.
    fingerprint
        Of the public set; clients that hold another refuse.
    request_id
        Names this run; a client answers the same request with the same bytes.
    progress
        Told about every answer and every step of the server's training.
    """

    rounds = 1

    def __init__(self, settings: S, *, nodes: int, fingerprint: str, request_id: str, progress: Progress) -> None:
        self.settings = settings
        self.nodes = nodes
        self.fingerprint = fingerprint
        self.request_id = request_id
        self.progress = progress
        self.counts = Tally()
        self.round_records: list[dict[str, Any]] = []
        self.client_compute_s = 0.0
        self.first_began: float | None = None
        self.rounds_wall_s = 0.0
        self.rounds_done = 0  # by earlier starts of the run: Flower counts from 1 each time
        self._round_bytes_down = 0
        self._asked_at = 0.0  # seconds since the epoch
        self._checkpoint: Path | None = None
        self.ledger_heads: Heads | None = None  # of the sites' ledgers; None: nobody remembers them
        self._known_heads: Known = {}
        self.clients: Path | None = None  # where the clients' folders lie, if on this machine

    def blank(self) -> list[int]:
        """Clients of this machine whose own work has failed, so that their answers are blank."""
        return sorted(int(path.parent.name) for path in self.clients.glob("*/blank.json")) if self.clients else []

    def refuse_blank(self, server_round: int, good: int, needed: int) -> None:
        """End a simulation whose clients fail: their answers look like any other, and nothing can be learned from them.

        Raises
        ------
        RunError
            If too few answers remain without the blank ones.
        """
        blank = self.blank()
        if blank and self.clients and good - len(blank) < needed:
            raise RunError(
                f"round {server_round}: the work of {len(blank)} clients failed behind their charge, so that they "
                f"answered blank; {good - len(blank)} of {good} answers are left, and {needed} are needed. "
                f"{self.clients / f'{blank[0]:05d}' / 'errors.txt'} says why; they answer blank for ever, so mend it "
                "and start a new run"
            )

    def take_up(self, checkpoint: Path) -> None:
        """Go on after the last round that ``checkpoint`` knows of, if it exists; keep it up to date from now on.

        Raises
        ------
        DataError
            If the file is damaged.
        """
        self._checkpoint = checkpoint
        if not checkpoint.exists():
            return
        arrays = read_arrays(checkpoint)
        self._take_progress(json.loads(str(arrays.pop(PROGRESS))))
        self.rounds_done = len(self.round_records)
        self.restore(arrays)

    def _progress(self) -> dict[str, Any]:
        return {
            "counts": vars(self.counts),
            "round_records": self.round_records,
            "client_compute_s": self.client_compute_s,
            "rounds_wall_s": self.rounds_wall_s,
        }

    def _take_progress(self, kept: dict[str, Any]) -> None:
        self.counts = Tally(**{**kept["counts"], "rejected": Counter(kept["counts"]["rejected"])})
        self.round_records = kept["round_records"]
        self.client_compute_s, self.rounds_wall_s = kept["client_compute_s"], kept["rounds_wall_s"]

    def _keep(self) -> None:
        state = self.state()
        if self._checkpoint is None or state is None:
            return
        write_arrays(self._checkpoint, {**state, PROGRESS: np.array(json.dumps(self._progress()))})

    # what a method fills in

    @abstractmethod
    def request(self, server_round: int) -> Arrays:
        """Arrays that every client gets in this round."""

    @abstractmethod
    def read(self, arrays: Arrays) -> npt.NDArray[Any]:
        """The ballot in an answer; raises WireError for a bad one."""

    @abstractmethod
    def combine(self, server_round: int, answers: list[Answer]) -> dict[str, Any]:
        """What the server makes of a round's good answers (sorted by client); returns the round's metrics."""

    @abstractmethod
    def outcome(self) -> Mapping[str, Any]:
        """The method's part of the result: ``metrics``, ``distill_s``, ``warnings``."""

    def charge(self, client_id: int) -> Costs | None:
        """What one request costs this client, by part, in its own ledger; the guarantees rest on it. None: nothing."""
        return None

    @property
    def better_than_charged(self) -> bool:
        """Whether the guarantees may rightly state a smaller epsilon than clients are charged, see ``reconcile``."""
        return False

    def charged_as(self, server_round: int) -> str:
        """The name under which the answers of a round are charged."""
        return f"{self.request_id}/{server_round}"

    @abstractmethod
    def guarantees(self) -> list[Guarantee]:
        """What the method promises, or that it promises nothing; the first is the headline."""

    def cohort(self, server_round: int, proxies: list[ClientProxy]) -> list[ClientProxy]:
        """Which of the connected clients are asked in this round: all of them."""
        return proxies

    def needed(self, asked: int) -> int:
        """Good answers without which a round fails, of ``asked`` clients."""
        return self.required

    def state(self) -> Mapping[str, npt.NDArray[Any]] | None:
        """What the server needs to go on after the round just done; None: a run starts at its first round again."""
        return None

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take up what :meth:`state` gave."""

    def save(self, folder: Any) -> None:
        """Write what the method keeps besides the result (released labels, the server's model)."""

    @property
    def aggregation(self) -> dict[str, Any]:
        """How ballots that are added up come together, for the result; empty for other methods."""
        return {}

    @property
    def exchanging(self) -> bool:
        """Whether the round needs a further exchange of messages before it has a result."""
        return False

    def take_kept(self, server_round: int) -> bool:
        """Do a round from what an earlier start of the run has kept of its answers; False where nothing is kept."""
        return False

    # Flower's interface

    @property
    def required(self) -> int:
        """Good answers without which a round fails."""
        return min(self.settings.required_clients, self.nodes)

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters:
        """No initial weights: predictions are shared, not parameters."""
        return ndarrays_to_parameters([])

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        """Ask the connected clients, or the cohort of them that the method draws.

        Raises
        ------
        RunError
            If fewer clients are there than a result needs.
        """
        server_round += self.rounds_done
        patience = min(JOIN_TIMEOUT_S, max(5.0, self.settings.round_timeout_s))
        client_manager.wait_for(self.nodes, timeout=math.ceil(patience))
        proxies = [proxy for _, proxy in sorted(client_manager.all().items())]
        if not self.required <= len(proxies) <= self.nodes:
            raise RunError(
                f"{len(proxies)} clients are connected, but clients={self.nodes} and at least {self.required} must "
                "answer: start that many SuperNodes (in a simulation: num-supernodes), or change `clients`"
            )
        proxies = self.cohort(server_round, proxies)
        sent = ndarrays_to_parameters(self.request(server_round))
        config = self._config(server_round)
        self.counts.asked += len(proxies)
        self._round_bytes_down = payload_bytes(sent.tensors) * len(proxies)
        self.counts.bytes_down += self._round_bytes_down
        self.counts.messages += len(proxies)
        self.progress.start(f"round {server_round}: clients", len(proxies))
        self._asked_at = time.time()
        return [(WatchedProxy(proxy, self.progress), FitIns(sent, config)) for proxy in proxies]

    def _config(self, server_round: int) -> dict[str, Scalar]:
        """What goes with every message of a round; a site checks that its ledger holds the heads that it has shown."""
        self._known_heads = self.ledger_heads.read() if self.ledger_heads else {}
        return {
            "round": server_round,
            "request": f"{self.request_id}/{server_round}",
            "fingerprint": self.fingerprint,
            **({SENT: json.dumps(self._known_heads)} if self._known_heads else {}),
        }

    def aggregate_fit(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, FitRes]],
        failures: list[tuple[ClientProxy, FitRes] | BaseException],
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """Check each answer, drop bad ones with a reason, and combine the rest.

        Raises
        ------
        RunError
            If too few good answers remain.
        """
        server_round += self.rounds_done
        before = self.counts.bytes_up
        good = self._collect(results, failures, self.counts)
        self.counts.answered += len(good)
        if len(good) < self.needed(len(results) + len(failures)):
            raise RunError(
                f"only {len(good)} of {len(results) + len(failures)} clients gave a good answer in round "
                f"{server_round}, but min_clients asks for {self.required}. Rejected: {self.counts.why() or 'none'}"
            )
        self.refuse_blank(server_round, len(good), self.needed(len(results) + len(failures)))
        record = {
            "round": server_round,
            "asked": len(results) + len(failures),
            "answered": len(good),
            "wall_s": self._clock(results, good),
            "bytes_up": self.counts.bytes_up - before,
            "bytes_down": self._round_bytes_down,
        }
        self._end_round(record, self.combine(server_round, good))
        return ndarrays_to_parameters([]), {}

    def _end_round(self, record: dict[str, Any], metrics: dict[str, Any]) -> None:
        self.round_records.append({**record, "metrics": metrics})
        self._keep()

    def _collect(
        self,
        results: list[tuple[ClientProxy, FitRes]],
        failures: list[tuple[ClientProxy, FitRes] | BaseException],
        counts: Tally,
    ) -> list[Answer]:
        """The good answers, sorted by client; bad ones and missing ones are counted, each once."""
        for failure in failures:
            text = str(failure) if isinstance(failure, BaseException) else str(failure[1].status.message)
            counts.reject("no answer", " ".join(text.split())[:300])
        answers: dict[int, Answer] = {}
        for proxy, reply in results:
            self.counts.messages += 1
            self.counts.bytes_up += payload_bytes(reply.parameters.tensors)
            try:
                answer = self._check(proxy.cid, reply)
                if answer.client_id in answers:
                    raise WireError("duplicate", f"client {answer.client_id} answered twice")
                answers[answer.client_id] = answer
            except WireError as error:
                counts.reject(error.reason, str(error).removeprefix(f"{error.reason}: "))
        return [answers[client_id] for client_id in sorted(answers)]

    def _check(self, cid: str, reply: FitRes) -> Answer:
        metrics = reply.metrics
        if reason := str(metrics.get("refused", "")):
            raise WireError(reason, str(metrics.get("detail", "")))
        client_id = metrics.get("client_id")
        if not isinstance(client_id, int) or not 0 <= client_id < self.nodes:
            raise WireError("client_id", f"client_id {client_id!r} is not one of 0..{self.nodes - 1}")
        if self.ledger_heads:  # also where the ballot is bad: it was charged
            self.ledger_heads.show(metrics, self._known_heads)
        try:
            arrays = parameters_to_ndarrays(reply.parameters)
        except (ValueError, OSError, EOFError) as error:
            raise WireError("unreadable", f"not NumPy arrays: {error}") from error
        ballot = self._read(client_id, cid, arrays)
        compute_s, began = float(metrics.get("compute_s", 0.0)), float(metrics.get("began", self._asked_at))
        return Answer(client_id, ballot, compute_s, began, cid)

    def _read(self, client_id: int, cid: str, arrays: Arrays) -> Any:
        return self.read(arrays)

    def _clock(self, results: list[tuple[ClientProxy, FitRes]], good: list[Answer]) -> float:
        """Seconds from the first client's start to the last answer; adds to the run's totals.

        Sites of a real federation do not tell when they began: there it is since they were asked.
        """
        self.client_compute_s += sum(answer.compute_s for answer in good)
        began = min((answer.began for answer in good), default=time.time())
        last = max((proxy.replied for proxy, _ in results if isinstance(proxy, WatchedProxy)), default=began)
        self.first_began = began if self.first_began is None else self.first_began
        wall_s = max(0.0, last - began)
        self.rounds_wall_s += wall_s
        return wall_s

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


def one_array(arrays: Arrays) -> npt.NDArray[Any]:
    """The single array of an answer; raises WireError with reason ``count`` for another number."""
    if len(arrays) != 1:
        raise WireError("count", f"expected 1 array, got {len(arrays)}")
    return np.asarray(arrays[0])
