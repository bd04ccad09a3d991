"""The evaluation sheet of a site: its ledger, its rules, and its files."""

from __future__ import annotations

from collections.abc import Sequence

from fedballot.core import numbers
from fedballot.core.errors import SettingsError
from fedballot.deploy.approval import Asked
from fedballot.deploy.modes import check_modes
from fedballot.deploy.officer import evidence, sheet
from fedballot.deploy.officer.sheet import BOTTOM, MIDDLE, TOP, Row
from fedballot.deploy.site_file import Site
from fedballot.studies.ledger_view import LedgerView


def site_sheet(site: Site, ledger: LedgerView | None, asked: Sequence[Asked], lines: int) -> list[Row]:
    """All rows.

    Parameters
    ----------
    ledger
        The site's ledger, verified; None: nothing was ever charged.
    asked
        What runs have asked for.
    lines
        Of the ledger.
    """
    guarantees = [ledger.guarantee.worded()] if ledger and ledger.guarantee else []
    charged = {entry.request.partition("/")[0] for entry in ledger.entries if entry.charge} if ledger else set()
    methods = sorted({one.method for one in asked if one.run in charged})
    unnamed = len(charged - {one.run for one in asked})
    seeded = any(str(one["status"]) == "seeded" for one in guarantees)
    words = "noise of at least one charge came from a known seed." if seeded else ""
    ours = bool(methods) and not unnamed and all(name in evidence.METHOD_TESTS for name in methods)
    mechanisms = [*methods, *(["a method that was not noted"] if unnamed else [])]
    nothing = Row(
        TOP,
        "Privacy parameters ε and δ",
        "Nothing was charged: no answer has left this site.",
        "backed",
        evidence.LEDGER,
    )
    made = [sheet.correctness(mechanisms, guarantees, words)] if guarantees else []
    drawn = [sheet.noise(guarantees, ours=ours, seeded=seeded)] if guarantees else []
    return [
        *(sheet.strength(guarantees, site.data.records_per_person) if guarantees else [nothing]),
        _budget(site, ledger),
        _other_releases(ledger),
        *made,
        _accounting(site, ledger, lines),
        _trust(site),
        *drawn,
        *sheet.uncovered(),
        Row(BOTTOM, "Side channels: refusals and error messages", _REFUSALS, "backed", evidence.REFUSALS),
        _access(site),
        _collection(site, ledger),
    ]


_REFUSALS = "Refusals depend on the request, on this site’s file and on what was spent, not on what a record says."


def _budget(site: Site, ledger: LedgerView | None) -> Row:
    heading, limit = "Privacy budget", site.budget.epsilon
    spent = ledger.spent if ledger else 0.0
    words = (
        f"ε = {numbers.epsilon(spent)} of {numbers.epsilon(limit)} is spent, at δ = {numbers.delta(site.budget.delta)}."
    )
    if spent > limit:
        return Row(TOP, heading, f"{words} More than the limit: nothing more is released.", "missing", evidence.LEDGER)
    return Row(TOP, heading, f"{words} The site refuses what would go beyond.", "backed", evidence.LEDGER)


def _other_releases(ledger: LedgerView | None) -> Row:
    words = ledger.guarantee.composition if ledger and ledger.guarantee else "No charge yet"
    words = f"{words[:1].upper()}{words[1:]}. What left these records by other ways than this ledger is not known here."
    return Row(TOP, "Mixing with other data releases", words, "limited", evidence.LOST)


def _accounting(site: Site, ledger: LedgerView | None, lines: int) -> Row:
    heading = "Algorithms and correctness: accounting"
    words = f"One rule, fixed when the ledger is opened, decides what fits ({site.budget.accountant}), also "
    words += "where whoever asks has seen earlier answers."
    if ledger is None:
        return Row(MIDDLE, heading, f"{words} There is no ledger yet.", "backed", evidence.FILTERS)
    words += f" The ledger’s {lines} lines and all answers kept with it were verified for this pack; its head is "
    words += f"{ledger.head}."
    return Row(MIDDLE, heading, words, "backed", [*evidence.FILTERS, *evidence.LEDGER])


def _trust(site: Site) -> Row:
    rules = site.allowed
    if not rules.secure_aggregation:
        words = "This site allows answers that only a trusted server protects (secure_aggregation = false)."
        return Row(BOTTOM, "Trust models", words, "limited", evidence.TRUST)
    words = "Nothing leaves that only a trusted server would protect: sums are of at least "
    words += f"{rules.least_clients} clients, of which at least {rules.least_colluders} may collude."
    return Row(BOTTOM, "Trust models", words, "backed", [*evidence.SECURE_SUM, *evidence.TRUST])


def _access(site: Site) -> Row:
    heading = "Data security and access control"
    try:
        check_modes(site)
    except SettingsError as error:
        return Row(BOTTOM, heading, str(error), "missing", evidence.MODES)
    words = "Nobody else on the machine but its administrator can open key, ledger or state, read the records, or "
    words += "change the rules, by the modes of the files now. Backups and the encryption of disks are not looked at."
    return Row(BOTTOM, heading, words, "limited", evidence.MODES)


def _collection(site: Site, ledger: LedgerView | None) -> Row:
    words = f"The records ({site.data.population}) stay at this site; what leaves are answers that the ledger was "
    words += "charged for."
    if site.data.persons:
        words += f" The column {site.data.id!r} says whose record each is; it is never a feature."
    return Row(BOTTOM, "Data collection exposure", words, "backed", evidence.STAYS)
