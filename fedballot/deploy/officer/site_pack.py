"""The pack of a site, for its own people: every charge to its ledger, what all of them mean, and what guards them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fedballot import __version__
from fedballot.core.files import write_json
from fedballot.deploy.approval import Asked, asked_runs
from fedballot.deploy.officer import registry, seal, software
from fedballot.deploy.officer.run_pack import Publisher, write_entry
from fedballot.deploy.officer.sheet import levels
from fedballot.deploy.officer.site_sheet import site_sheet
from fedballot.deploy.site_file import Site, read_site
from fedballot.deploy.site_ledger import LedgerGoneError, has_ledger, remembered, require_ledger
from fedballot.deploy.spending_picture import spending_picture
from fedballot.privacy.ledger import Ledger
from fedballot.privacy.words import holds, tone
from fedballot.report.html import write_page
from fedballot.studies.ledger_view import Entry, LedgerView, view


@dataclass(frozen=True)
class Charge:
    """A charge, and what was asked by the run that it is for; the same run may have asked more than once."""

    entry: Entry
    asked: Sequence[Asked]


def write_site_pack(
    site_file: Path, out: Path, *, signer: seal.Signer | None, publisher: Publisher, bill: bool
) -> Path:
    """Write a site's pack into a new folder; the site's own files are read only.

    Raises
    ------
    SettingsError
        If the site's file cannot be read, ``out`` is not empty, or a library is missing.
    LedgerGoneError
        If the ledger is gone, or an older one than the site's state folder knows.
    DataError
        If the ledger, an answer kept with it, or a record of what was asked is damaged.
    """
    site = read_site(site_file)
    ledger, lines = _whole_ledger(site)
    asked = asked_runs(site)
    if bill:
        software.require_library()
    with seal.new_pack(out, signer) as folder:
        guarantee = ledger.guarantee.worded() if ledger and ledger.guarantee else None
        if guarantee is not None and holds(guarantee):
            write_entry(folder / registry.FILE, guarantee, _about(site, publisher))
        if ledger is not None:
            write_json(folder / "ledger.json", ledger.to_dict())
        if bill:
            software.write_bill(folder / software.FILE, software.installed())
        title = f"Site {site.number}, {site.data.population}"
        rows = site_sheet(site, ledger, asked, lines)
        write_page("pack_sheet.html.j2", {"title": title, "levels": levels(rows)}, folder / "evaluation.html")
        page = {
            "site": site,
            "ledger": ledger,
            "lines": lines,
            "spent": None if ledger and math.isinf(ledger.spent) else ledger.spent if ledger else 0.0,
            "tone": "" if guarantee is None else tone(guarantee),
            "charges": _charges(ledger, asked),
            "uncharged": _uncharged(ledger, asked),
            "picture": spending_picture(ledger.entries, site.budget.epsilon) if ledger else None,
            "now": f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
            "files": sorted(path.name for path in folder.iterdir()),
            "signed": signer is not None,
        }
        write_page("pack_site.html.j2", page, folder / "report.html")
    return out


def _whole_ledger(site: Site) -> tuple[LedgerView | None, int]:
    """The site's ledger and its number of lines, verified with all answers that it keeps."""
    require_ledger(site)
    if not has_ledger(site):
        return None, 0
    ledger = Ledger(site.budget.ledger)
    lines = ledger.verify()
    last = remembered(site)
    if last and ledger.unknown([last["head"]]):
        raise LedgerGoneError(
            f"{ledger.path}: an older ledger than {site.state} knows, which ended in line {last['lines']}; "
            f"`fedballot site check {site.path}` says what to do"
        )
    return view(ledger), lines


def _charges(ledger: LedgerView | None, asked: Sequence[Asked]) -> list[Charge]:
    entries = [entry for entry in ledger.entries if entry.charge is not None] if ledger else []
    return [Charge(entry, [one for one in asked if one.run == _run_of(entry)]) for entry in entries]


def _uncharged(ledger: LedgerView | None, asked: Sequence[Asked]) -> list[Asked]:
    charged = {_run_of(entry) for entry in ledger.entries if entry.charge is not None} if ledger else set()
    return [one for one in asked if one.run not in charged]


def _run_of(entry: Entry) -> str:
    return entry.request.partition("/")[0]


def _about(site: Site, publisher: Publisher) -> registry.About:
    return registry.About(
        name=f"Answers of site {site.number} about {site.data.population}",
        description="Answers of one site of a federation about public records; the statement is about all that its "
        "ledger was charged for so far.",
        kind="Summary statistics",
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        mechanisms=f"Implemented by fedballot {__version__}.",
        curators=publisher.curators,
        purpose=publisher.purpose,
        region=publisher.region,
        access="Interactive",
        releases="Many releases",
        notes=f"The site refuses what would go beyond epsilon = {site.budget.epsilon:g} in all.",
    )
