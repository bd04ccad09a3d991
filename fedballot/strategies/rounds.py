"""What every server does in a round: ask all clients, check each answer, count, and never combine too few."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic

import numpy as np

from fedballot.core.errors import RunError
from fedballot.core.files import read_arrays, write_arrays
from fedballot.privacy.ledger.heads import HEADS_KEY, Heads, HeadsByPlace
from fedballot.strategies.folds import Fold
from fedballot.strategies.hooks import Hooks, S
from fedballot.strategies.intake import Intake, Tally
from fedballot.strategies.shelf import Answer, Shelf
from fedballot.wire.messages import Arrays, Config, Reply, Request, Scalar, deserialise, serialise
from fedballot.wire.packing import WireError, payload_bytes

PROGRESS = "progress"  # array of a checkpoint that holds the counts and records, as JSON
JOIN_TIMEOUT_S = 60.0  # how long clients may take to connect before the server goes on without them


class Rounds(Hooks[S], Generic[S]):
    """Ask every client the same thing (:meth:`ask`), take each answer as it comes (:meth:`receive`), and end the round.

    A good answer goes into the method's :class:`Fold`, and none of its arrays is kept; :meth:`conclude` ends the round.
    """

    def __init__(self, settings: S, **given: Any) -> None:
        super().__init__(settings, **given)
        self.counts = Tally()
        self.round_records: list[dict[str, Any]] = []
        self.client_compute_s = 0.0
        self.first_began: float | None = None
        self.rounds_wall_s = 0.0
        self.rounds_done = 0  # by earlier starts of the run
        self._round_bytes_down = self._bytes_before = 0
        self._asked_at = self._arrived_at = 0.0  # seconds since the epoch
        self._began_at: float | None = None  # when the clients were asked first in this round
        self._origin = time.time()
        self._worked_s = 0.0  # by earlier starts, up to the end of their last round
        self._checkpoint: Path | None = None
        self.ledger_heads: Heads | None = None  # of the sites' ledgers; None: nobody remembers them
        self._known_heads: HeadsByPlace = {}
        self.clients_root: Path | None = None  # where the clients' folders lie, if on this machine
        self.numbers: dict[str, int] = {}  # of virtual clients, by the network's names for them
        self._intake: Intake | None = None  # of the exchange that is under way
        self.round_ended: Callable[[int, Mapping[str, Any]], None] | None = None  # is told each round's record

    @property
    def arrived(self) -> int | None:
        return self.round_records[-1]["answered"] if self.round_records else None

    def blank(self) -> list[int]:
        """Clients of this machine whose own work has failed, so that their answers are blank."""
        root = self.clients_root
        return sorted(int(path.parent.name) for path in root.glob("*/blank.json")) if root else []

    def refuse_blank(self, server_round: int, good: int, min_clients: int) -> None:
        """End a simulation whose clients fail: their answers look like any other, and nothing can be learned from them.

        Raises
        ------
        RunError
            If too few answers remain without the blank ones.
        """
        blank = self.blank()
        if blank and self.clients_root and good - len(blank) < min_clients:
            raise RunError(
                f"round {server_round}: the work of {len(blank)} clients failed behind their charge, so that they "
                f"answered blank; {good - len(blank)} of {good} answers are left, and {min_clients} are needed. "
                f"{self.clients_root / f'{blank[0]:05d}'}/errors.txt says why; they answer blank for ever, so mend it "
                "and start a new run"
            )

    def take_up(self, checkpoint: Path) -> None:
        """Go on after the last round that ``checkpoint`` knows of, if it exists; keep it up to date from now on.

        Raises
        ------
        DataError
            If the file is damaged.
        """
        self._checkpoint, self.scratch = checkpoint, checkpoint.parent
        if not checkpoint.exists():
            return
        arrays = read_arrays(checkpoint)
        self._take_progress(json.loads(str(arrays.pop(PROGRESS))))
        self.rounds_done = len(self.round_records)
        self._worked_s = self.round_records[-1].get("ended_s", 0.0) if self.round_records else 0.0
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
        write_arrays(self._checkpoint, {**state, PROGRESS: np.array(json.dumps(self._progress()))}, mode=0o600)

    @property
    def patience_s(self) -> float:
        """How long clients may take to connect before a round starts without them."""
        return min(JOIN_TIMEOUT_S, max(5.0, self.settings.round_timeout_s))

    def exchanges(self) -> Iterator[int]:
        """The rounds that are left, each as often as it asks the clients."""
        for server_round in range(self.rounds_done + 1, self.rounds + 1):
            yield server_round
            while self.exchanging:
                yield server_round

    def in_order(self, names: Iterable[str], ask_numbers: Callable[[list[str]], Mapping[str, int]]) -> list[str]:
        """The network's names of the connected clients, sorted.

        A network may draw them at random. Where a simulation draws cohorts, clients stand by their numbers, so that a
        seed fixes who is drawn; ``ask_numbers`` asks those that have not told theirs.
        """
        order = sorted(names)
        if self.asks_all or self.clients_root is None:
            return order
        if strange := [name for name in order if name not in self.numbers]:
            self.numbers |= ask_numbers(strange)
        return sorted(order, key=lambda name: self.numbers.get(name, len(order)))

    def ask(self, server_round: int, connected: list[str]) -> list[Request]:
        """What goes to the connected clients, or to the cohort of them that the method draws.

        Parameters
        ----------
        server_round
            From 1, over all starts of the run.
        connected
            The network's names of the clients that are there, sorted.

        Raises
        ------
        RunError
            If fewer clients are there than a result needs.
        """
        if not self.min_clients <= len(connected) <= self.nodes:
            raise RunError(
                f"{len(connected)} clients are connected, but clients={self.nodes} and at least {self.min_clients} "
                "must answer: start that many SuperNodes (in a simulation: num-supernodes), or change `clients`"
            )
        cohort = self.cohort(server_round, connected)
        sent = serialise(self.request(server_round))
        config = self._config(server_round)
        self._open(self.fold(server_round), cohort)
        self.counts.asked += len(cohort)  # nobody is, should anything above fail
        self._round_bytes_down = payload_bytes(sent) * len(cohort)
        self.counts.bytes_down += self._round_bytes_down
        self._bytes_before = self.counts.bytes_up
        self.counts.messages += len(cohort)
        self.progress.start(f"round {server_round}: clients", len(cohort))
        self._note_asking()
        return [Request(name, sent, dict(config)) for name in cohort]

    def _open(self, fold: Fold[Any], asked: list[str], rejected: Tally | None = None) -> None:
        """Begin to take the answers of those who are asked; bad ones are counted in the run's tally, or elsewhere."""
        numbers = [self.numbers[name] for name in asked if name in self.numbers]
        expected = numbers if len(numbers) == len(asked) else range(self.nodes)
        shelf = Shelf(self.scratch)
        self._intake = Intake(self._check, fold, expected, shelf, self.counts, rejected or self.counts)

    def _note_asking(self) -> None:
        self._asked_at = self._arrived_at = time.time()
        self._began_at = self._began_at or self._asked_at

    def _config(self, server_round: int) -> dict[str, Scalar]:
        """What goes with every message of a round; a site checks that its ledger holds the heads that it has shown."""
        self._known_heads = self.ledger_heads.read() if self.ledger_heads else {}
        return {
            "round": server_round,
            "request": f"{self.request_id}/{server_round}",
            "fingerprint": self.fingerprint,
            **({HEADS_KEY: json.dumps(self._known_heads)} if self._known_heads else {}),
        }

    def receive(self, reply: Reply) -> None:
        """Check a reply as it comes: a good answer is combined with the others, a bad one counted with its reason."""
        self._under_way().receive(reply, self.numbers.get(reply.sender))

    def miss(self, why: str, name: str = "") -> None:
        """Count a client that sends no reply, by the network's name for it where that is known."""
        self._under_way().miss(why, self.numbers.get(name))

    def _under_way(self) -> Intake:
        if self._intake is None:
            raise RuntimeError("nobody was asked")
        return self._intake

    def conclude(self, server_round: int) -> None:
        """End the exchange: all answers have come that will.

        Parameters
        ----------
        server_round
            The round that was asked about, from 1 over all starts of the run.

        Raises
        ------
        RunError
            If too few answers were good.
        """
        intake, self._intake = self._under_way(), None
        good, wanted = len(intake.clients), self.min_clients_of(intake.asked)
        self.counts.answered += good
        if good < wanted:
            raise RunError(
                f"only {good} of {intake.asked} clients gave a good answer in round {server_round}, but min_clients "
                f"asks for {self.min_clients}. Rejected: {self.counts.why() or 'none'}"
            )
        self.refuse_blank(server_round, good, wanted)
        record = {
            "round": server_round,
            "asked": intake.asked,
            "answered": good,
            "wall_s": self._clock(intake),
            "bytes_up": self.counts.bytes_up - self._bytes_before,
            "bytes_down": self._round_bytes_down,
        }
        self._end_round(record, intake.finish())

    def _end_round(self, record: dict[str, Any], metrics: dict[str, Any]) -> None:
        done = {**record, **self._times(), "metrics": metrics}
        self.round_records.append(done)
        self._keep()
        if self.round_ended is not None:
            self.round_ended(record["round"], {**done, "metrics": dict(metrics)})

    def _times(self) -> dict[str, float | None]:
        """When the round that ends now lay in the run's work, stops left out, and who worked how long in it."""
        now, began = time.time(), self._began_at or self._asked_at
        self._began_at = None
        before = sum(record.get("compute_s") or 0.0 for record in self.round_records)
        return {
            "began_s": self._worked_s + max(0.0, began - self._origin),
            "ended_s": self._worked_s + max(0.0, now - self._origin),
            "compute_s": max(0.0, self.client_compute_s - before) if self.client_compute_s else None,
            "server_s": max(0.0, now - self._arrived_at),
        }

    def _check(self, reply: Reply) -> Answer:
        metrics = reply.metrics
        if reason := str(metrics.get("refused", "")):
            raise WireError(reason, str(metrics.get("detail", "")))
        client_id = metrics.get("client_id")
        if not isinstance(client_id, int) or not 0 <= client_id < self.nodes:
            raise WireError("client_id", f"client_id {client_id!r} is not one of 0..{self.nodes - 1}")
        if self.ledger_heads:  # also where the ballot is bad: it was charged
            self.ledger_heads.show(metrics, self._known_heads)
        try:
            arrays = deserialise(reply.tensors)
        except (ValueError, OSError, EOFError) as error:
            raise WireError("unreadable", f"not NumPy arrays: {error}") from error
        ballot = self._read(client_id, reply.sender, arrays)
        compute_s, began = _seconds(metrics, "compute_s", 0.0), _seconds(metrics, "began", self._asked_at)
        return Answer(client_id, ballot, compute_s, began, reply.sender)

    def _read(self, client_id: int, cid: str, arrays: Arrays) -> Any:
        return self.read(arrays)

    def _clock(self, intake: Intake) -> float:
        """Seconds from the first client's start to the last answer; adds to the run's totals.

        Sites of a real federation do not tell when they began: there it is since they were asked.
        """
        self.client_compute_s += intake.compute_s
        began = time.time() if intake.began is None else intake.began
        self.first_began = began if self.first_began is None else self.first_began
        self._arrived_at = intake.arrived or began
        wall_s = max(0.0, self._arrived_at - began)
        self.rounds_wall_s += wall_s
        return wall_s


def _seconds(metrics: Config, name: str, default: float) -> float:
    value = metrics.get(name, default)
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise WireError("unreadable", f"{name} is no number")
    return float(value)
