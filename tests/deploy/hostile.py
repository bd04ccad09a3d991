"""A server that asks for anything: requests drawn at random, put to real sites that differ in their records only.

What must hold, whatever is asked and in whatever order:
- what leaves was charged, part by part, and all charges together stay within the budget;
- one name is answered with the same bytes for ever, and never for two questions;
- a sum is opened once;
- sites with other records, broken ones among them, say the same words: refusals depend on public facts only.
"""

from __future__ import annotations

import dataclasses
import math
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fedballot.core.errors import SettingsError
from fedballot.core.setting import build
from fedballot.datasets.embedding import AXES
from fedballot.datasets.fingerprint import fingerprint
from fedballot.datasets.own import SITES
from fedballot.deploy.client import SiteClient
from fedballot.deploy.template import init_site
from fedballot.methods.registry import all_methods, get_method
from fedballot.privacy import accounting
from fedballot.privacy.ledger import Ledger
from fedballot.privacy.ledger.samples import SAMPLE
from fedballot.runs.engine import federated_data
from fedballot.settings.voting import ballot_form
from fedballot.wire import secagg
from fedballot.wire.packing import WireError
from fedballot.wire.secagg import STAGES
from tests.deploy.harness import edit
from tests.wire.secagg.world import take

FEATURES, CLASSES, PUBLIC, RECORDS = 4, 3, 60, 24
POOL, QUERIES = 40, 8
POOL_AXES = 4  # principal components of the pool, at most its width
BUDGET = {"epsilon": 30.0, "delta": 1e-3}
# the same for every twin but what is private
TWINS = ("plain", "others", "one class", "far away", "alike")


def world(folder: Path) -> str:
    """Write a public source and the records of every twin; returns the source's fingerprint."""
    rng = np.random.default_rng(0)
    centres = rng.normal(0, 3, (CLASSES, FEATURES))

    def records(n: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.arange(n) % CLASSES
        return (centres[y] + rng.normal(0, 1, (n, FEATURES))).astype(np.float32), y.astype(np.int64)

    x, y = records(PUBLIC)
    np.savez(folder / "public.npz", x=x, y=y)
    for name in TWINS:
        own_x, own_y = records(RECORDS)
        if name == "one class":
            own_y[:] = 1
        if name == "far away":
            own_x[5] = 3e38  # training on it fails, or overflows
        if name == "alike":
            own_x[:], own_y[:] = own_x[0], own_y[0]
        np.savez(folder / f"{name}.npz", x=own_x, y=own_y)
    return fingerprint(x)


def make_site(
    folder: Path, place: Path, twin: str, print_: str, unit: str, *, number: int = 1, masks: bool = False
) -> Path:
    """A site's file in ``place`` with the twin's records."""
    init_site(place, number=number, sites=3, server="localhost:1")
    path = place / "site.toml"
    edit(
        path,
        private=str(folder / f"{twin}.npz"),
        public=str(folder / "public.npz"),
        public_fingerprint=print_,
        model="logistic-regression",
        methods=list(all_methods()),
        largest_epsilon=20.0,
        smallest_epsilon=0.0,
        unit=unit,
        secure_aggregation=masks,
        accountant="rdp",
        **BUDGET,
    )
    return path


@dataclass
class Answer:
    """What a site has said to one request."""

    refused: str
    detail: str
    shapes: tuple[Any, ...]
    content: bytes = field(repr=False, default=b"")

    @property
    def words(self) -> tuple[Any, ...]:
        """What may not depend on records."""
        return self.refused, self.detail, self.shapes


@dataclass(frozen=True)
class Question:
    """One message of the server."""

    method: str
    settings: tuple[tuple[str, Any], ...]
    name: str
    round: int = 1
    arrays: str = "asked"
    stage: str | None = None

    def build(self, folder: Path) -> Any:
        """The settings as a server would build them; None where there are no such settings."""
        values = {**COMMON, **dict(self.settings), "dataset": SITES, "public_dataset": str(folder / "public.npz")}
        kind = get_method(self.method).settings
        names = {field.name for field in dataclasses.fields(kind)}
        try:
            settings = build(kind, {name: value for name, value in values.items() if name in names})
            federated_data(settings)
        except SettingsError:
            return None
        return settings


COMMON = {
    "clients": 3,
    "min_clients": 3,
    "public_size": POOL,
    "test_size": PUBLIC - POOL,
    "queries": QUERIES,
    "epochs": 1,
    "rounds": 1,
    "pretrain_epochs": 0,
    "evaluate_clients": False,
    "min_size": RECORDS // 2,
    "k": 3,
    "records": RECORDS,
    "dimension": 4,
    "cells": 4,
    "components": 4,
    "secure_aggregation": False,
    "client_models": "logistic-regression",
}
PRIVATE = (
    *("pate-fl", "private-knn-fl", "fedkt", "fedkd-dp", "fedmd-ldp", "fedmd-nfdp"),
    *("fedauxfdp", "fedauxfdp-sum", "fedd-p", "fedavg-p", "poll"),
)
PROMISELESS = ("fedmd", "ds-fl", "selective-fd", "fedkd", "standalone", "fedaux-f", "centralized", "public-only")
SETTINGS: dict[str, tuple[Any, ...]] = {
    "epsilon": (0.5, 2.0, 8.0, 25.0, math.inf),
    "score_epsilon": (0.1, math.inf),
    "client_epsilons": ((4.3, 0.5), (0.5, 4.3), (4.3,), (0.01, 4.3), (2.0, 0.5), (2.0, 2000.0)),
    "delta": (1e-3, 1e-5),
    "head": ("class-sums", "logistic"),
    "share": ("logits", "softmax", "argmax", "heads", "predictions"),
    "noise": ("gaussian", "laplace"),
    "unit": ("client", "record"),
    "cells": (1, 4),
    "k": (1, 3, 12),
    "min_size": (1, RECORDS, 4 * RECORDS),
    "vote_fraction": (0.2, 1.0),
    "abstain": (True, False),
    "epochs": (0, 1, 10**9),
    "min_clients": (0, 1, 2, 3),
    "colluders": (0, 1, 2),
    "clients": (2, 3, 4),
    "noise_seed": (None, 1),
    "seed": (0, 1),
    "lam": (1e-300, 0.01, 1.0),
    "extractor": ("auto", "pca", "hog", "this:s", "simclr-resnet8"),
    "server_epochs": (1, 31),
    "rounds": (1, 3),
    "queries": (1, QUERIES),
    "replacement": (True, False),
    "logit_bound": (1e-3, 1.0),
    "secure_aggregation": (True, False),
}


def often(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """The usual value four times of five."""
    return st.sampled_from((*[usual] * 4 * len(others), *others))


def questions(methods: Sequence[str]) -> st.SearchStrategy[Question]:
    """Requests with a few settings changed, few names, and arrays that may be anything."""
    some = st.lists(st.sampled_from(sorted(SETTINGS)), max_size=2, unique=True)
    changed = some.flatmap(
        lambda names: st.tuples(*(st.tuples(st.just(n), st.sampled_from(SETTINGS[n])) for n in names))
    )
    return st.builds(
        Question,
        method=st.sampled_from(methods),
        settings=changed,
        name=often("run/1", "run/2", "other/1", "", "x" * 300),
        round=often(1, 0, 2),
        arrays=often("asked", "others", "nothing", "wrong", "not finite"),
        stage=often(None, "keys", "shares", "masked", "unmask", "?"),
    )


def arrays_of(question: Question, settings: Any) -> list[np.ndarray]:
    """What is sent along: what the method asks for, other rows of the same kind, or something else."""
    count = min(getattr(settings, "queries", 0) or POOL, POOL)
    rows = np.arange(count, dtype=np.int32)
    match question.arrays:
        case "nothing":
            return []
        case "wrong":
            return [np.full(count, -7, dtype=np.int32)]
        case "not finite":
            return [np.full((count, 2), np.nan, dtype=np.float32)]
        case "others":
            rows = rows + (POOL - count)
    if question.method == "poll":
        cells = np.arange(POOL, dtype=np.int32) % settings.cell_count
        return [cells, np.full(POOL, 1.0 if question.arrays == "asked" else 9.0, dtype=np.float32)]
    if question.method.startswith(("fedaux", "fedd", "fedavg")):
        landmarked = question.method.startswith("fedauxfdp") and getattr(settings, "head", "class-sums") == "class-sums"
        if not landmarked:
            return []
        axes = min(AXES, POOL_AXES)
        return [np.full((settings.coordinates, axes), 0.5 if question.arrays == "asked" else -0.5, dtype=np.float32)]
    return [rows]


def put(site: Path, question: Question, settings: Any) -> Answer:
    """Put a question to a site."""
    config: dict[str, Any] = {
        "request": question.name,
        "round": question.round,
        "fingerprint": federated_data(settings).public_fingerprint,
    }
    if question.stage:
        config |= {"stage": question.stage, "session": "s"}
    out, one, metrics = SiteClient(site, get_method(question.method), settings).fit(
        arrays_of(question, settings), config
    )
    assert one == 1
    shapes = tuple(array.shape for array in out)  # integers are as narrow as the noisy values allow, whatever made them
    return Answer(str(metrics["refused"]), str(metrics["detail"]), shapes, b"".join(array.tobytes() for array in out))


class Trial:
    """Twins of one site, and what they have answered a server so far."""

    def __init__(self, folder: Path, print_: str, unit: str, twins: Sequence[str] = TWINS) -> None:
        self.folder = folder
        self.place = Path(tempfile.mkdtemp(prefix="trial-", dir=folder))
        self.sites = {twin: make_site(folder, self.place / twin, twin, print_, unit) for twin in twins}
        self.answers: dict[tuple[str, str], tuple[Question, bytes]] = {}

    def ask(self, question: Question) -> str | None:
        """Put one question to all twins and check what must hold; returns the refusal, None where none can be put."""
        settings = question.build(self.folder)
        if settings is None:
            return None
        answers = {}
        for twin, site in self.sites.items():
            answers[twin] = put(site, question, settings)
            self._check(twin, site, question, answers[twin])
        words = {twin: one.words for twin, one in answers.items()}
        assert len(set(words.values())) == 1, f"{question} is answered differently: {words}"
        return next(iter(answers.values())).refused

    def _check(self, twin: str, site: Path, question: Question, answer: Answer) -> None:
        if answer.refused:
            assert not answer.shapes, "a refusal brings something along"
            return
        if question.stage in ("keys", "shares"):
            return
        ledger = Ledger(site.parent / "ledger")
        lines = [line for line in ledger.lines() if line["kind"] == "charge"]
        names = [line["request"] for line in lines]
        assert len(names) == len(set(names)), "charged twice under one name"
        sampled = question.method == "fedmd-nfdp"
        mine = [line for line in lines if line["request"].startswith(SAMPLE if sampled else question.name)]
        assert mine, f"{question} left without a charge"
        stored = {line["request"] for line in ledger.lines() if line["kind"] == "release"}
        assert {line["request"] for line in mine} <= stored, "sent before it was stored"
        assert all("uncharged" not in line and "seeded" not in line for line in lines)
        spent = accounting.epsilon(ledger.costs(), BUDGET["delta"], ledger.account.accountant)
        assert spent <= BUDGET["epsilon"], f"spent {spent}"
        if not sampled:  # whose answers are about one sample, whatever is asked
            first = self.answers.setdefault((twin, question.name), (question, answer.content))
            assert first[1] == answer.content, f"{question.name!r} was answered twice: {first[0]}, then {question}"

    def close(self) -> None:
        """Remove the twins' folders."""
        shutil.rmtree(self.place)


# secure aggregation: three sites, and a server that drives them through exchanges in its own way


@dataclass(frozen=True)
class Attempt:
    """One way through the exchanges of a request.

    Parameters
    ----------
    name : of the request.
    changed : settings that differ from the usual ones, from exchange ``since`` on.
    answering : the sites that are heard in each exchange.
    lie : a tampered message: who is said to be in the sum, an exchange left out, or asked twice with other arrays.
    """

    name: str
    changed: tuple[tuple[str, Any], ...]
    since: int
    answering: tuple[tuple[int, ...], ...]
    lie: str


def attempts() -> st.SearchStrategy[Attempt]:
    """Attempts of which many get through, so that there is something to compare."""
    everybody, some = (0, 1, 2), ((0, 1, 2), (0, 1), (1, 2), (0, 2), (0,))
    changes = {
        "server_epochs": (31,),
        "min_clients": (1, 3),
        "colluders": (1,),
        "epsilon": (4.0,),
        "seed": (1,),
        "share_threshold": (2, 3),
        "queries": (4,),
    }
    one = st.sampled_from(sorted(changes)).flatmap(lambda n: st.tuples(st.just(n), st.sampled_from(changes[n])))
    return st.builds(
        Attempt,
        name=often("run/1", "run/2"),
        changed=st.one_of(st.just(()), st.tuples(one)),
        since=st.integers(0, len(STAGES) - 1),
        answering=st.tuples(*(often(everybody, *some) for _ in STAGES)),
        lie=often("", "list without one", "skip", "twice", "old session"),
    )


class Masked:
    """Three sites that answer under masks only, and every sum that a server has opened."""

    def __init__(self, folder: Path, print_: str, twin: str) -> None:
        self.folder, self.sessions = folder, ["s"]
        self.place = Path(tempfile.mkdtemp(prefix="masked-", dir=folder))
        kinds = ("plain", twin, "others")
        self.sites = [
            make_site(folder, self.place / str(n), kind, print_, "client", number=n, masks=True)
            for n, kind in enumerate(kinds)
        ]
        self.opened: dict[str, set[bytes]] = {}

    def go(self, attempt: Attempt) -> list[tuple[str, int, str]]:
        """Go through the exchanges as far as they lead; returns (exchange, site, refusal) of every message."""
        common: tuple[tuple[str, Any], ...] = (("epsilon", 20.0), ("min_clients", 2), ("secure_aggregation", True))
        usual = Question("pate-fl", common, attempt.name).build(self.folder)
        other = Question("pate-fl", (*common, *attempt.changed), attempt.name).build(self.folder)
        if usual is None or other is None:
            return []
        exchange = secagg.Exchange(usual.plan, ballot_form(usual, CLASSES), attempt.name)
        if attempt.lie == "old session":
            exchange.session = self.sessions[-1]
        self.sessions.append(exchange.session)
        said: list[tuple[str, int, str]] = []
        for number, stage in enumerate(STAGES):
            if attempt.lie == "skip" and number == 2:
                continue
            settings, answers = other if number >= attempt.since else usual, {}
            for client_id in attempt.answering[number]:
                if number and client_id not in exchange.clients:
                    continue
                rows = np.arange(usual.query_count, dtype=np.int32)
                arrays = [rows] if stage == secagg.KEYS else exchange.ask(client_id)
                if attempt.lie == "list without one" and stage == secagg.CONFIRM:
                    arrays = [arrays[0][:-1]]
                if attempt.lie == "twice" and number:
                    said.append(
                        (stage, client_id, self._say(client_id, settings, exchange, stage, [a[:-1] for a in arrays])[1])
                    )
                out, refused = self._say(client_id, settings, exchange, stage, arrays)
                said.append((stage, client_id, refused))
                if not refused:
                    answers[client_id] = out
            try:
                take(exchange, answers)
            except (secagg.SecaggError, WireError):
                break
        if exchange.total is not None:
            self.opened.setdefault(attempt.name, set()).add(exchange.total.tobytes())
            assert len(exchange.inside) >= usual.min_clients
        return said

    def _say(
        self, client_id: int, settings: Any, exchange: Any, stage: str, arrays: list[Any]
    ) -> tuple[list[Any], str]:
        config = {
            "request": exchange.request,
            "round": 1,
            "fingerprint": federated_data(settings).public_fingerprint,
            "stage": stage,
            "session": exchange.session,
        }
        out, _, metrics = SiteClient(self.sites[client_id], get_method("pate-fl"), settings).fit(arrays, config)
        return out, str(metrics["refused"])

    def check(self) -> None:
        """One sum of each request, one charge for it at each site, and all within the budget."""
        for name, totals in self.opened.items():
            assert len(totals) == 1, f"{len(totals)} sums of {name} were opened"
        for site in self.sites:
            if not (site.parent / "ledger" / "ledger.jsonl").exists():
                continue
            ledger = Ledger(site.parent / "ledger")
            charged = [line["request"] for line in ledger.lines() if line["kind"] == "charge"]
            assert len(charged) == len(set(charged))
            assert ledger.spent() <= BUDGET["epsilon"]

    def close(self) -> None:
        """Remove the sites' folders."""
        shutil.rmtree(self.place)
