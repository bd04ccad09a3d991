"""Clients on disk and a server, in process and with real cryptography."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from scipy import stats

from fedballot.wire.secagg import KEYS, STAGES, Exchange, Form, Holder, Plan

SHAPE = (40, 10)
FORM = Form(SHAPE, 50)


class FileMark:
    """A client's marks in a JSON file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def opened(self, request: str) -> str | None:
        return json.loads(self.path.read_text()).get(request) if self.path.exists() else None

    def open(self, request: str, session: str) -> None:
        assert self.opened(request) in (None, session)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps({request: session}))


class World:
    """Clients on disk and a server; every message goes to a fresh object, as after a restart."""

    def __init__(self, folder: Path, plan: Plan, form: Form = FORM, seed: int = 0) -> None:
        self.folder, self.plan, self.form = folder, plan, form
        rng = np.random.default_rng(seed)
        self.ballots = rng.integers(-form.largest, form.largest, size=(plan.clients, *form.shape), endpoint=True)
        self.exchange = Exchange(plan, form, "run/1")
        self.seen: dict[str, dict[int, list[np.ndarray]]] = {}
        self.asked: dict[str, dict[int, list[np.ndarray]]] = {}

    def holder(self, client_id: int, session: str | None = None, request: str = "run/1") -> Holder:
        mark = FileMark(self.folder / "marks" / str(client_id))
        return Holder(
            self.plan, client_id, self.folder / str(client_id), request, session or self.exchange.session, mark
        )

    def answer(
        self, client_id: int, stage: str, arrays: list[np.ndarray], session: str | None = None
    ) -> list[np.ndarray]:
        return self.holder(client_id, session).answer(stage, arrays, self.form, lambda request: self.ballots[client_id])

    def step(self, gone: tuple[int, ...] = ()) -> None:
        exchange, stage = self.exchange, self.exchange.stage
        clients = range(self.plan.clients) if stage == KEYS else exchange.clients
        self.asked[stage] = {
            client_id: [np.arange(3)] if stage == KEYS else exchange.ask(client_id)
            for client_id in clients
            if client_id not in gone
        }
        self.seen[stage] = {
            client_id: self.answer(client_id, stage, asked) for client_id, asked in self.asked[stage].items()
        }
        take(exchange, self.seen[stage])

    def run(self, gone: dict[str, tuple[int, ...]]) -> np.ndarray:
        lost: tuple[int, ...] = ()
        for stage in STAGES:
            lost += gone.get(stage, ())
            self.step(lost)
        assert self.exchange.total is not None
        return self.exchange.total


def take(exchange: Exchange, answers: dict[int, list[np.ndarray]]) -> None:
    """Take all answers of a stage, as a server does that reads each as it comes."""
    for client_id, arrays in answers.items():
        exchange.receive(client_id, exchange.read(client_id, arrays))
    exchange.advance()


def looks_random(values: np.ndarray, bits: int) -> bool:
    """Whether residues modulo 2^bits pass a chi-squared test on 16 cells that a good generator fails once in 10^9."""
    counts = np.bincount(values.ravel().astype(np.int64) >> (bits - 4), minlength=16)
    return bool(stats.chisquare(counts).pvalue > 1e-9)
