"""A whole federation in one process, on real files, whose processes die and whose messages get lost by a seed.

What must hold after every schedule, whatever broke:
- each ledger verifies, has only grown, and holds one charge for a request at most;
- what was released once is the same for ever, and so is the answer to the same message;
- what the server has kept is the sum, or the mean, of what the sites whose answers it got have stored;
- a run ends with a result or an error in words, and the last start, in which nothing breaks, with a result.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fedballot.core.errors import FedballotError
from fedballot.core.progress import Silent
from fedballot.core.setting import build
from fedballot.datasets.own import SITES
from fedballot.deploy.client import SiteClient
from fedballot.methods.registry import get_method
from fedballot.privacy.ledger import Ledger
from fedballot.privacy.ledger.heads import Heads
from fedballot.runs.engine import make_server, open_run
from fedballot.runs.local import run_rounds
from fedballot.runs.worker import Job, reply_to
from fedballot.wire.messages import Reply, Request
from tests.conftest import fitting
from tests.deploy.kills import AT_SERVERS, AT_SITES, EARLY, PHASES, TEMPORARY, Doom, Killed, Reaper
from tests.deploy.small_sites import METHODS, SIZES, USUAL


@dataclass(frozen=True)
class Fate:
    """What becomes of one message to a site and of its answer."""

    away: bool = False
    doom: Doom | None = None
    silent: bool = False  # it dies when its answer is ready, or the answer is lost
    again: bool = False  # the message comes again: after a restart, or just so
    twice: bool = False  # the server gets the answer twice


class Schedule:
    """One run of one federation under one seed."""

    def __init__(self, world: Path, seed: int) -> None:
        self.draw, self.seen = Random(seed), Counter[str]()
        self.place = world / f"schedule-{seed}"
        self.reaper = Reaper(self.place)
        self.size = self.draw.choice(SIZES)
        self.method = get_method(self.draw.choice(METHODS))
        shutil.copytree(world / "sites" / str(self.size), self.place)
        self.sites = [self.place / str(number) for number in range(self.size)]
        fewest = self.draw.randint(self.size // 2 + 1, self.size)
        own = {
            "clients": self.size,
            "min_clients": fewest,
            "dataset": SITES,
            "public_dataset": str(world / "public.npz"),
        }
        self.settings = build(self.method.settings, fitting(self.method.settings, {**USUAL, **own}))
        self.masks = bool(getattr(self.settings, "secure_aggregation", False))
        self.rate = 0.0  # of what breaks
        self.asked: list[Request] = []
        self.answers: dict[tuple[Any, ...], bytes] = {}
        self.released: dict[Path, bytes] = {}
        self.ledgers = [b""] * self.size
        self.heard: dict[tuple[Any, ...], set[int]] = {}  # whose good answers the server got, by message
        self.latest: dict[str, Any] = {}  # the last session of each request
        self.sums: dict[str, bytes] = {}

    # what happens

    def go(self) -> None:
        """Start the server until nothing breaks any more, and look at everything after each start."""
        error: str | None = "not begun"
        for _ in range(self.draw.randint(1, 4)):
            if error is not None or self.draw.random() < 0.2:
                self.rate = self.draw.choice((0.02, 0.05, 0.1, 0.2))
                error = self._start(self._doom(AT_SERVERS) if self.draw.random() < 0.6 else None)
                self.check()
        self.rate = 0.0
        error = self._start(None)
        self.check()
        assert error is None, f"with all sites up, the last start ends with: {error}"
        result = json.loads((self.place / "run" / "result.json").read_text())
        assert result["status"] == "done" and (self.place / "run" / "release.npz").exists()

    def _start(self, doom: Doom | None) -> str | None:
        """One start of the server, as its app makes it; returns the error that it ends with, or None."""
        self.dies_after = self.draw.randint(1, 5 * self.size) if doom and self.draw.random() < 0.3 else 0
        try:
            with self.reaper.life(None if self.dies_after else doom):
                folder = open_run(self.place / "run", self.method, self.settings, resume=True)
                with folder.held():
                    side = make_server(self.method, self.settings, folder, workers=self.size, progress=Silent())
                    side.strategy.ledger_heads = Heads(self.place / "server" / "ledger-heads.json")
                    run_rounds(side, Job(self._client, folder.log), self._replies)
        except Killed:
            self.seen["server killed"] += 1
            return "killed"
        except FedballotError as error:
            assert str(error)
            self.seen["ended with an error"] += 1
            return str(error)
        self.seen["ended with a result"] += 1
        return None

    def _client(self, number: int) -> SiteClient:
        return SiteClient(self.sites[number] / "site.toml", self.method, self.settings)

    def _doom(self, kinds: Sequence[str]) -> Doom:
        kind, phase = self.draw.choice(kinds), self.draw.choice(PHASES)
        return Doom(kind, phase, 1 if kind else self.draw.randint(1, 6), torn=self.draw.random() < 0.5)

    def _fate(self, stage: object) -> Fate:
        """What becomes of a message; most dies where a site answers with what it makes of its records."""
        answers = stage in (None, "masked")
        if self.draw.random() >= self.rate * (3 if answers else 1):
            return Fate()
        again, doom = self.draw.random() < 0.5, self._doom(AT_SITES if answers else EARLY)
        if answers or self.draw.random() < 0.4:
            return Fate(doom=doom, silent=True, again=again)
        others = Fate(away=True), Fate(silent=True, again=again), Fate(again=True), Fate(twice=True)
        return self.draw.choice(others)

    def _replies(self, job: Job, requests: Sequence[Request], timeout_s: float) -> Iterator[Reply | str]:
        """Messages and answers in any order, some lost and some twice, and old messages that come late."""
        if self.rate and self.asked and self.draw.random() < 0.3:
            self.seen["old message"] += 1
            self._ask(job, self.draw.choice(self.asked), None)
        replies: list[Reply | str] = []
        for request in self.draw.sample(list(requests), len(requests)):
            replies += self._delivered(job, request)
        self.heard.update({_name(request): set() for request in requests})
        self.draw.shuffle(replies)
        for reply in replies:
            self.dies_after -= 1
            if self.dies_after == 0:
                self.reaper.die("server, between receiving and storing")
            if isinstance(reply, Reply) and not reply.metrics["refused"]:
                self.heard[_name(requests[0])].add(int(reply.sender))
            yield reply
        self.latest[str(requests[0].config["request"])] = _name(requests[0])

    def _delivered(self, job: Job, request: Request) -> list[Reply | str]:
        self.asked.append(request)
        fate = self._fate(request.config.get("stage"))
        if fate.away:
            self.seen["site away"] += 1
            return ["no answer"]
        reply = self._ask(job, request, fate.doom)
        if fate.silent and isinstance(reply, Reply):
            self.reaper.places["site, its answer made but not sent"] += 1
            reply = "no answer"
        if fate.again:
            self.seen["message again"] += 1
            reply = self._ask(job, request, None)
        self.seen["answer twice"] += fate.twice
        return [reply, reply] if fate.twice else [reply]

    def _ask(self, job: Job, request: Request, doom: Doom | None) -> Reply | str:
        """The answer of a site's process, made anew for it; or why there is none."""
        self.seen["messages"] += 1
        try:
            with self.reaper.life(doom):
                reply = reply_to(job, replace(request, config=dict(request.config)))
        except Killed:
            self.seen["site killed"] += 1
            self._check_site(int(request.to))
            return "no answer: Node Unavailable"
        self._check_site(int(request.to))
        if not reply.metrics["refused"]:
            self._check_secrets(int(request.to))
            content = b"".join(reply.tensors)
            same = (request.to, _name(request), hashlib.sha256(b"".join(request.tensors)).digest())
            assert self.answers.setdefault(same, content) == content, f"{same[:2]}: asked twice, answered differently"
        return reply

    # what must hold

    def _check_site(self, number: int) -> None:
        """What a site has written is not written anew, whatever has become of its process."""
        place = self.sites[number] / "ledger"
        path = place / "ledger.jsonl"
        content = path.read_bytes() if path.exists() else b""
        assert content.startswith(self.ledgers[number]), f"site {number}: its ledger has lost lines"
        self.ledgers[number] = content
        for file in place.glob("releases/*.npz"):
            first = self.released.setdefault(file, file.read_bytes())
            assert file.read_bytes() == first, f"site {number}: drawn anew: {file.name}"

    def check(self) -> None:
        """Ledgers, charges, and what the server has kept."""
        run = self.place / "run" / "run.json"
        name = json.loads(run.read_text())["request"] if run.exists() else ""
        for number, place in enumerate(self.sites):
            if not (place / "ledger" / "ledger.jsonl").exists():
                continue
            Ledger(place / "ledger").verify()
            charged = [line["request"] for line in self._lines(number) if line["kind"] == "charge"]
            assert len(charged) == len(set(charged)), f"site {number}: charged twice: {charged}"
            assert all(one.startswith(f"{name}/") for one in charged), f"site {number}: charged for {charged}"
        checkpoint = self.place / "run" / "checkpoint.npz"
        if checkpoint.exists():
            with np.load(checkpoint) as kept:
                self._check_kept(name, {key: kept[key] for key in kept.files})

    def _check_kept(self, name: str, kept: dict[str, Any]) -> None:
        rounds = len(json.loads(str(kept["progress"]))["round_records"])
        request = f"{name}/{rounds}"
        found = kept["total" if self.masks else "consensus"]
        assert self.sums.setdefault(request, found.tobytes()) == found.tobytes(), f"{request}: two sums"
        session = self.latest[request][1]
        inside = self.heard[request, session, "masked" if self.masks else None]
        stored = [self._stored(number, request) for number in inside]
        assert len(inside) >= self.settings.min_clients
        if self.masks:
            assert int(kept["arrived"]) == len(inside)
            assert np.array_equal(found, sum(one["votes"].astype(np.int64) for one in stored)), f"{request}: wrong sum"
        else:
            mean = np.mean([one["predictions"].astype(np.float64) for one in stored], axis=0)
            assert np.allclose(found, mean, rtol=1e-5, atol=1e-6), f"{request}: wrong mean"
        self.seen["sums and means compared"] += 1

    def _lines(self, number: int) -> list[dict[str, Any]]:
        path = self.sites[number] / "ledger" / "ledger.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def _stored(self, number: int, request: str) -> dict[str, Any]:
        """What a site has released, read without fedballot."""
        (digest,) = [
            one["sha256"] for one in self._lines(number) if one["kind"] == "release" and one["request"] == request
        ]
        for file in (self.sites[number] / "ledger" / "releases").glob("*.npz"):
            if hashlib.sha256(file.read_bytes()).hexdigest() == digest:
                with np.load(file) as arrays:
                    return {key: arrays[key] for key in arrays.files}
        raise AssertionError(f"site {number}: {request} is nowhere")

    def _check_secrets(self, number: int) -> None:
        """After an answer, no half-written keys are left, and none of an exchange that is over."""
        files = {path.name for path in self.sites[number].glob("state/runs/*/secagg/*")} - {"lock"}
        halves = {name for name in files if TEMPORARY.match(name)}
        over = {name.removesuffix(".opened.npz") for name in files if name.endswith(".opened.npz")}
        assert not halves | {f"{name}.pending.npz" for name in over} & files, f"site {number}: keys are left: {files}"


def _name(request: Request) -> tuple[Any, ...]:
    """Request, session and exchange of a message."""
    return tuple(request.config.get(key) for key in ("request", "session", "stage"))
