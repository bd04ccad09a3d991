"""``fedballot site check``: everything about a site that can be tested without the network."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from fedballot.core.errors import FedballotError, SettingsError
from fedballot.datasets.encoders.sources import make_encoder
from fedballot.datasets.encoders.stored import encoded
from fedballot.datasets.examples import Source
from fedballot.datasets.fingerprint import source_fingerprint
from fedballot.datasets.own import OwnRecords, schema_of
from fedballot.datasets.schema.apply import Comparison, comparisons
from fedballot.datasets.schema.prepare import public_preparation
from fedballot.datasets.schema.words import listed
from fedballot.deploy.modes import check_modes
from fedballot.deploy.pki import check_certificate, check_site_key
from fedballot.deploy.records import own_examples, own_records, public_source
from fedballot.deploy.rules import limits_of
from fedballot.deploy.site_file import Allowed, Site, read_site
from fedballot.deploy.site_ledger import SiteLedger, has_ledger, require_ledger, version_of
from fedballot.learners.options import neighbours_of
from fedballot.learners.registry import get_learner
from fedballot.learners.tryout import try_learner
from fedballot.methods.api import Method
from fedballot.methods.registry import get_method
from fedballot.privacy.ledger import Version

T = TypeVar("T")
LONGEST_NOTE = 500  # characters, which go into the ledger as they are


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; ``good`` is None for one that another fault kept from being looked at."""

    what: str
    good: bool | None
    words: str


def check_site(path: Path) -> list[Finding]:
    """Test a site's file, data, public source, model, key, certificate, file modes and ledger, and list its limits.

    Raises
    ------
    SettingsError
        If the file itself cannot be read: nothing else can be said then.
    """
    site = read_site(path)
    findings = [Finding("file", True, str(site.path))]
    public = _note(findings, "public data", lambda: _source(site))
    own = _note(findings, "own data", lambda: _records(site, public) if public else None)
    if own and public and own.compared:
        theirs = comparisons(schema_of(public), public.train.x)
        findings += [_column(one, other) for one, other in zip(own.compared, theirs, strict=True)]
        findings.append(Finding("other columns", True, f"left out: {listed(own.extra)}" if own.extra else "none"))
    _note(findings, "model", lambda: _model(site, public, own) if public else None)
    _note(findings, "key", lambda: _key(site))
    _note(findings, "authority", lambda: _authority(site))
    _note(findings, "file modes", lambda: _modes(site))
    _note(findings, "budget", lambda: _budget(site, own) if own else None)
    findings.append(Finding("limits", True, _common_limits(site.allowed)))
    findings += [Finding(f"limits of {name}", True, _limits(site, get_method(name))) for name in site.allowed.methods]
    return findings


def carry_over(path: Path, note: str) -> Version:
    """Note in a site's ledger that from now on charges are about the data as they are now.

    Raises
    ------
    SettingsError
        If there is no ledger yet, nothing has changed, or the note says nothing.
    DataError
        If the data cannot be used.
    RunError
        If the ledger is not the one that was used last.
    """
    site = read_site(path)
    if not note.strip() or len(note) > LONGEST_NOTE or not note.isprintable():
        raise SettingsError(f"--note: expected what has changed, in one line of 1 to {LONGEST_NOTE} characters")
    require_ledger(site)
    if not has_ledger(site):
        raise SettingsError(f"{site.budget.ledger}: no ledger yet, so nothing was spent; the first request makes one")
    own = own_records(site)
    ledger, version = SiteLedger(site), version_of(site, own)
    if ledger.version() == version:
        raise SettingsError(f"{site.data.private}: is the version that the ledger is about; nothing to carry over")
    ledger.register(version, note)
    return version


def _note(findings: list[Finding], what: str, look: Callable[[], tuple[T, str] | None]) -> T | None:
    """Look at one thing and note what it says; returns the thing, None where it is wrong or was not looked at."""
    try:
        result = look()
    except FedballotError as error:
        findings.append(Finding(what, False, str(error)))
    except OSError as error:
        findings.append(Finding(what, False, f"{error.filename}: {error.strerror}"))
    else:
        thing, words = result or (None, "not looked at: see above")
        findings.append(Finding(what, True if result else None, words))
        return thing
    return None


def _source(site: Site) -> tuple[Source, str]:
    public = public_source(site)
    print_ = source_fingerprint(public)
    schema = f" --schema {shlex.quote(site.data.schema.name)}" if site.data.schema else ""
    command = f"`fedballot data {shlex.quote(site.data.public.name)}{schema}`"
    if print_ != site.data.public_fingerprint:
        raise SettingsError(
            f"{site.data.public} has fingerprint {print_}, but data.public_fingerprint = "
            f"{site.data.public_fingerprint!r}; get the agreed file and schema. Where these are the agreed ones "
            f"now: write the fingerprint that the server's {command} prints"
        )
    return public, f"{len(public.train)} records, classes {', '.join(public.classes)}, fingerprint as agreed"


def _records(site: Site, public: Source) -> tuple[OwnRecords, str]:
    own = own_records(site)
    counts = np.bincount(own.examples.y, minlength=len(public.classes))
    by_class = ", ".join(f"{name}: {count}" for name, count in zip(public.classes, counts, strict=True))
    examples = own_examples(site, own)  # which are kept, so that no request waits for it
    by = f", as {examples.x.shape[1]} features each by encoder={site.data.encoder}" if site.data.encoder else ""
    left = f"; {own.dropped} more are beyond {site.data.records_per_person} of a person" if own.dropped else ""
    persons = f" of {own.persons} persons" if own.persons is not None else ""
    return own, f"{len(own.examples.y)} records{persons} ({by_class}){by}{left}"


def _column(own: Comparison, public: Comparison) -> Finding:
    """What the site's file holds of a column beside what the public one holds."""
    column = own.column
    words = f"{column.kind}{f' in {column.unit}' if column.unit else ''}: {_holds(own)}; public: {_holds(public)}"
    low, middle, high = (math.nan if one is None else one for one in (public.low, own.middle, public.high))
    if middle < low or middle > high:
        words += ". The median lies outside all public values: is it the same unit?"
    return Finding(f"column {column.name}", True, words)


def _holds(one: Comparison) -> str:
    parts = [f"{one.missing} missing"] if one.missing else []
    if one.column.kind == "category":
        parts.insert(0, f"{one.words} of {len(one.column.words)} words")
    elif one.low is not None:
        parts.insert(0, f"{one.low:.6g} to {one.high:.6g}, median {one.middle:.6g}")
    return ", ".join(parts) or "text"


def _model(site: Site, public: Source, own: OwnRecords | None) -> tuple[str, str]:
    x = public_preparation(public)(public.train.x) if public.schema and public.schema.tabular else public.train.x
    if site.data.encoder:
        x = encoded(make_encoder(site.data.encoder), x[:100])
    try_learner(site.model, x, n_classes=len(public.classes))
    tried = ", tried on public records" if get_learner(site.model).foreign or "(" in site.model else ""
    few = ""
    if own and len(own.examples.y) < (asked := neighbours_of(site.model)):
        few = f"; n_neighbors={asked} is more than the site's records, so that all of them are neighbours of each"
    return site.model, f"{site.model}{tried}{few}"


def _authority(site: Site) -> tuple[Path, str]:
    return site.ca, f"{site.ca}, valid to {check_certificate(site.ca):%Y-%m-%d}"


def _key(site: Site) -> tuple[Path, str]:
    check_site_key(site.key)
    return site.key, str(site.key)


def _modes(site: Site) -> tuple[Site, str]:
    check_modes(site)
    return site, "others on this machine can read no key, ledger, state or record, and change no rule"


def _budget(site: Site, own: OwnRecords) -> tuple[Path, str]:
    require_ledger(site)
    budget = site.budget
    if not has_ledger(site):
        return budget.ledger, f"epsilon {budget.epsilon:g}, nothing spent; the first request makes {budget.ledger}"
    ledger, version = SiteLedger(site), version_of(site, own)
    lines, registered = ledger.verify(), ledger.version()
    if registered not in (None, version):
        raise SettingsError(
            f"{site.data.private} holds {version.records} records, {version.fingerprint}, but the ledger is about "
            f"{registered.records} records, {registered.fingerprint}{_most(registered, version)}. Where these are "
            f"{site.data.population!r} in another version: fedballot ledger carry-over {shlex.quote(str(site.path))} "
            "--note 'WHAT HAS CHANGED'; what was spent stays spent. Where they are of others, data.population and "
            "budget.ledger are others, too"
        )
    return budget.ledger, (
        f"epsilon {ledger.spent():.4g} of {budget.epsilon:g} spent at delta {ledger.spending().delta:g} "
        f"({budget.unit} level, {ledger.account.adjacency}); the ledger's {lines} lines are whole"
    )


def _most(registered: Version, version: Version) -> str:
    if registered.records_per_person == version.records_per_person:
        return ""
    return f", at most {registered.records_per_person} of a person, not {version.records_per_person}"


def _common_limits(allowed: Allowed) -> str:
    """What holds for every request."""
    masks = "; what is added up leaves under masks only (secure_aggregation)" if allowed.secure_aggregation else ""
    return (
        f"at most {allowed.queries} queries; epsilon {allowed.smallest_epsilon:g} to {allowed.largest_epsilon:g} for a "
        f"release; answers of at least {allowed.least_clients} sites (min_clients; 0 asks for nine in ten); "
        f"{allowed.longest_training_s:g} s{masks}"
    )


def _limits(site: Site, method: Method) -> str:
    """What the server may set of a method; what it sets beyond that is refused, or has no effect here."""
    limits = limits_of(site, method)
    if site.allowed.secure_aggregation:  # what that means stands among the limits of every request
        limits.pop("secure_aggregation", None)
    return "; ".join(f"{name}: {limit.words}" for name, limit in sorted(limits.items()))
