"""A server that asks for anything: requests drawn at random, put to real sites that differ in their records only.

What must hold, whatever is asked and in whatever order:
- what leaves was charged, part by part, and all charges together stay within the budget;
- one name is answered with the same bytes for ever, and never for two questions;
- a sum is opened once;
- sites with other records, broken ones among them, say the same words: refusals depend on public facts only.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fedballot.datasets.fingerprint import fingerprint
from fedballot.datasets.own import SITES, load_own
from fedballot.deploy.party import SiteClient
from fedballot.deploy.site_ledger import SiteLedger
from fedballot.deploy.site_file import read_site
from fedballot.deploy.template import init_site
from fedballot.engine import federated_data
from fedballot.errors import SettingsError
from fedballot.methods import METHODS
from fedballot.privacy import accounting
from fedballot.secagg import STAGES
from fedballot.settings import build
from tests.deploy.harness import edit

FEATURES, CLASSES, PUBLIC, RECORDS = 4, 3, 60, 24
POOL, QUERIES = 40, 8
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


def make_site(folder: Path, place: Path, twin: str, print_: str, unit: str, **changes: Any) -> Path:
    """A site's file in ``place`` with the twin's records."""
    init_site(place, number=1, sites=3, server="localhost:1")
    path = place / "site.toml"
    edit(
        path,
        private=str(folder / f"{twin}.npz"),
        public=str(folder / "public.npz"),
        public_fingerprint=print_,
        model="logistic-regression",
        methods=list(METHODS),
        largest_epsilon=20.0,
        smallest_epsilon=0.0,
        unit=unit,
        **{**BUDGET, "accountant": "rdp", **changes},
    )
    return path


@dataclass
class Told:
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
    round: int
    arrays: str
    stage: str | None = None
    session: str = "s"


def put(site: Path, question: Question, folder: Path) -> Told | None:
    """Put a question to a site; None: there are no such settings."""
    kind = METHODS[question.method].settings
    try:
        asked = build(kind, {**dict(question.settings), "dataset": SITES, "public_dataset": str(folder / "public.npz")})
        data = federated_data(asked)
    except SettingsError:
        return None
    config: dict[str, Any] = {
        "request": question.name,
        "round": question.round,
        "fingerprint": data.public_fingerprint,
    }
    if question.stage:
        config |= {"stage": question.stage, "session": question.session}
    out, one, metrics = SiteClient(site, METHODS[question.method], asked).fit(arrays_of(question, asked), config)
    assert one == 1
    content = b"".join(array.tobytes() for array in out)
    shapes = tuple((array.dtype.str, array.shape) for array in out)
    if question.stage:  # masks are random and dense packing hides nothing but their length
        content = b""
    return Told(str(metrics["refused"]), str(metrics["detail"]), shapes, content)
