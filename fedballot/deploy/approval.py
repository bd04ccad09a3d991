"""What a site was asked, by whom and what for, and whether its people let it through: a file a run in ``state/asked``.

Method, run and purpose are the server's word: they tell people what is wanted, and bind nobody.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from fedballot.clients.workspace import Refusal
from fedballot.core.errors import DataError, SettingsError
from fedballot.core.files import read_json, write_json
from fedballot.core.setting import Settings
from fedballot.deploy.site_file import Site

Decision = Literal["by rule", "waits", "approved", "refused"]
LOOK_S = 1.0
LONGEST_TEXT = 300
SLACK = 1 + 1e-9


@dataclass(frozen=True)
class Asked:
    """What one run asks of the site.

    Attributes
    ----------
    run : the run's own name.
    method, settings : what it does; settings that differ from the method's defaults.
    requester, purpose : as the server says.
    epsilon : of one release, at the site's delta.
    releases : how many the run will ask for, at most.
    total : epsilon of all of these together.
    spent : epsilon that the site had spent before, of ``limit``.
    asked, decided : when, in UTC; the second is empty while it waits.
    """

    run: str
    method: str
    settings: str
    requester: str
    purpose: str
    epsilon: float
    releases: int
    total: float
    spent: float
    limit: float
    asked: str
    decision: Decision = "waits"
    decided: str = ""


@dataclass(frozen=True)
class Request:
    """What is known of a request before its cost is: who asks for what, and how long the server waits."""

    method: str
    settings: Settings
    requester: str
    purpose: str
    patience_s: float


@dataclass(frozen=True)
class RunCost:
    """What a run costs, as epsilon at the ledger's delta.

    Attributes
    ----------
    release : of this release by itself.
    releases : how many the run will ask for, at most.
    whole : of that many such releases.
    so_far : of what the run was charged before, and of this release.
    spent : of all charges before, other runs' too.
    """

    release: float
    releases: int
    whole: float
    so_far: float
    spent: float


def asked_runs(site: Site) -> list[Asked]:
    """All runs that have asked, the newest first.

    Raises
    ------
    DataError
        If a record is damaged.
    """
    found = []
    for path in _folder(site).glob("*.json"):
        try:
            found.append(Asked(**read_json(path)))
        except TypeError as error:
            raise DataError(f"{path}: is no record of a run; move it away") from error
    return sorted(found, key=lambda one: one.asked, reverse=True)


def decide(site: Site, run: str, *, approved: bool) -> Asked:
    """Let a run through, or refuse it; ``run`` may be the beginning of its name.

    A decision can be changed: another one holds from the run's next request on, and what was charged stays charged.

    Raises
    ------
    SettingsError
        If no such run was asked about, or several were.
    """
    known = [one for one in asked_runs(site) if one.decision != "by rule"]
    meant = [one for one in known if one.run.startswith(run)]
    waiting = [one for one in meant if one.decision == "waits"]
    meant = waiting if len(waiting) == 1 else meant
    if len(meant) != 1:
        names = ", ".join(f"{one.run} ({one.decision})" for one in known) or "none"
        raise SettingsError(f"{run!r} names {len(meant) or 'no'} runs of those to be decided by hand here: {names}")
    decision: Decision = "approved" if approved else "refused"
    record = replace(meant[0], decision=decision, decided=_now())
    write_json(_path(site, record.run, record.method, record.settings), asdict(record))
    return record


def require(site: Site, request: Request, name: str, cost: RunCost) -> None:
    """Note what is asked, and where the site's file says so wait until somebody decides.

    A run that comes to cost more than was decided about is asked about again.

    Parameters
    ----------
    name
        Of the request: the run's name, a slash, and the round.

    Raises
    ------
    Refusal
        If it is refused, or nobody decides while the server waits; a decision that comes later holds for ``--resume``.
    """
    run, settings = name.partition("/")[0], settings_words(request.settings)
    path = _path(site, run, request.method, settings)
    record = Asked(**read_json(path)) if path.exists() else None
    if record is None or (record.decision == "approved" and cost.so_far > record.total * SLACK):
        record = Asked(
            run=run,
            method=request.method,
            settings=settings,
            requester=request.requester[:LONGEST_TEXT],
            purpose=request.purpose[:LONGEST_TEXT],
            epsilon=cost.release,
            releases=cost.releases,
            total=max(cost.whole, cost.so_far),
            spent=cost.spent,
            limit=site.budget.epsilon,
            asked=_now(),
        )
        if site.allowed.approve == "by-rule" or record.total <= site.allowed.unasked_epsilon:
            record = replace(record, decision="by rule", decided=record.asked)
        write_json(path, asdict(record))
    deadline = time.monotonic() + request.patience_s
    while record.decision == "waits":
        if time.monotonic() > deadline:
            raise Refusal("policy", "nobody at this site has decided yet: take the run up later with --resume")
        time.sleep(LOOK_S)
        record = Asked(**read_json(path))
    if record.decision == "refused":
        raise Refusal("policy", "this site's people have refused this run")


def settings_words(settings: Settings) -> str:
    """The settings that differ from their defaults, as ``--set`` takes them."""
    defaults = type(settings)().to_dict(machine=False)
    values = settings.to_dict(machine=False)
    return " ".join(f"{key}={value}" for key, value in sorted(values.items()) if value != defaults.get(key))


def _folder(site: Site) -> Path:
    return site.state / "asked"


def _path(site: Site, run: str, method: str, settings: str) -> Path:
    digest = hashlib.sha256("\n".join((run, method, settings)).encode()).hexdigest()
    return _folder(site) / f"{digest[:32]}.json"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
