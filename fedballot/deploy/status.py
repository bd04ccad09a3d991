"""What goes on at a server and at a site, read from their folders and from Flower; nothing is changed."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fedballot import __version__
from fedballot.core import numbers
from fedballot.core.errors import FedballotError, RunError
from fedballot.core.files import read_json
from fedballot.deploy import members, pki, running
from fedballot.deploy.flower import ask
from fedballot.deploy.renewal import server_warnings, site_warnings
from fedballot.deploy.server import ServerFolder
from fedballot.deploy.site_file import read_site
from fedballot.deploy.site_ledger import has_ledger, require_ledger
from fedballot.privacy.ledger import Ledger
from fedballot.runs.follow import PROGRESS_FILE
from fedballot.studies.ledger_view import Entry, LedgerView, view

LATEST_RUNS = 20


@dataclass(frozen=True)
class CertificateStatus:
    """A certificate and when it ends (UTC)."""

    name: str
    ends: str
    days: int


@dataclass(frozen=True)
class Stage:
    """How far a run is.

    Attributes
    ----------
    label : what it does, such as ``round 1: clients``; empty before its first step.
    done, total : steps.
    left_s : seconds that the stage will still take at this pace; None before its first step.
    """

    label: str
    done: int
    total: int
    left_s: float | None


@dataclass(frozen=True)
class RunView:
    """A run with its stage and, once it has one, its result's accuracy and first guarantee."""

    run: running.RunStatus
    stage: Stage
    accuracy: float | None
    guarantee: str


@dataclass(frozen=True)
class ServerStatus:
    """A server.

    Attributes
    ----------
    problem : why Flower's server does not answer; empty if it does.
    warnings : certificates that are to be renewed.
    """

    version: str
    folder: str
    problem: str
    certificates: Sequence[CertificateStatus]
    sites: Sequence[members.MemberStatus]
    runs: Sequence[RunView]
    warnings: Sequence[str]


@dataclass(frozen=True)
class SiteStatus:
    """A site.

    Attributes
    ----------
    problem : why its ledger cannot be read; empty if it can, or there is none yet.
    spent, limit, delta : epsilon of all charges, the most there may be, and the delta of both.
    entries : the ledger's lines, the oldest first.
    sentence : what all charges together mean; empty before the first.
    """

    version: str
    file: str
    number: int
    server: str
    model: str
    population: str
    unit: str
    problem: str
    spent: float
    limit: float
    delta: float
    entries: Sequence[Entry]
    sentence: str
    certificates: Sequence[CertificateStatus]
    warnings: Sequence[str]


def server_status(server: ServerFolder) -> ServerStatus:
    """Read a server's folder, and ask Flower's server, which may be down.

    Raises
    ------
    SettingsError
        If the folder is no server's.
    DataError
        If its lists are damaged.
    """
    _ = server.control
    known, submitted = members.members(server), running.submissions(server)
    try:
        nodes, runs = ask(server.home, "supernode", "list")["nodes"], ask(server.home, "list")["runs"]
        problem = ""
    except RunError as error:
        nodes, runs, problem = [], [], str(error)
    listed = running.statuses(submitted, runs)[:LATEST_RUNS]
    return ServerStatus(
        version=__version__,
        folder=str(server.path),
        problem=problem,
        certificates=_certificates([server.certificate, server.authority]),
        sites=members.statuses(known, nodes),
        runs=[_run_view(run) for run in listed],
        warnings=server_warnings(server),
    )


def site_status(path: Path) -> SiteStatus:
    """Read a site's file and ledger.

    Raises
    ------
    SettingsError
        If the file cannot be read.
    """
    site, ledger, problem = read_site(path), None, ""
    try:
        require_ledger(site)
        ledger = view(Ledger(site.budget.ledger)) if has_ledger(site) else None
    except FedballotError as error:
        problem = str(error)
    return SiteStatus(
        version=__version__,
        file=str(site.path),
        number=site.number,
        server=site.server,
        model=site.model,
        population=site.data.population,
        unit=site.budget.unit,
        problem=problem,
        spent=ledger.spent if ledger else 0.0,
        limit=site.budget.epsilon,
        delta=ledger.delta if ledger else site.budget.delta,
        entries=ledger.entries if ledger else (),
        sentence=_sentence(ledger),
        certificates=_certificates([site.ca]),
        warnings=site_warnings(site),
    )


def stage_of(path: Path, now: float | None = None) -> Stage:
    """The stage that a run's progress file tells of; one that is not there tells of none.

    Parameters
    ----------
    now
        Seconds since the epoch; None: now.
    """
    stage, began = Stage("", 0, 0, None), math.nan
    if not path.exists():
        return stage
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            event = json.loads(line)
        except ValueError:  # a line that is being written
            continue
        if "label" in event:
            stage, began = Stage(str(event["label"]), 0, int(event["total"]), None), float(event.get("at", math.nan))
        else:
            stage = Stage(stage.label, stage.done + int(event["steps"]), stage.total, None)
    if stage.done and not math.isnan(began):
        pace = ((time.time() if now is None else now) - began) / stage.done
        return Stage(stage.label, stage.done, stage.total, max(0.0, pace * (stage.total - stage.done)))
    return stage


def _run_view(run: running.RunStatus) -> RunView:
    folder = Path(run.out) if run.out else None
    accuracy, guarantee = None, ""
    if folder and run.ended and (folder / "result.json").exists():
        result = read_json(folder / "result.json")
        accuracy = result.get("metrics", {}).get("server_accuracy")
        first = next(iter(result.get("guarantees", ())), None)
        guarantee = (
            ""
            if first is None
            else f"ε = {numbers.epsilon(first['epsilon'])} for one {first['unit']}, {first['status']}"
        )
    stage = stage_of(folder / PROGRESS_FILE) if folder and not run.ended else Stage("", 0, 0, None)
    return RunView(run, stage, accuracy, guarantee)


def _sentence(ledger: LedgerView | None) -> str:
    return ledger.guarantee.sentence() if ledger and ledger.guarantee else ""


def _certificates(paths: Sequence[Path]) -> list[CertificateStatus]:
    found = []
    for path in filter(Path.exists, paths):
        ends = max(one.not_valid_after_utc for one in pki.read_certificates(path))
        found.append(CertificateStatus(path.name, f"{ends:%Y-%m-%d}", (ends - datetime.now(UTC)).days))
    return found
