"""A site's ledger: its budget is the site's word, and each release stays within what the site's file allows.

The site's state folder remembers the ledger of each population as it was after its last line, so that another ledger,
an older one or none is noticed there. What the state folder cannot notice, for it was put back as well, the server's
requests tell (:mod:`fedballot.privacy.ledger.heads`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from fedballot.clients.workspace import Refusal
from fedballot.core.errors import RunError
from fedballot.core.files import read_json, write_json
from fedballot.datasets.own import OwnRecords
from fedballot.deploy import approval
from fedballot.deploy.site_file import Site
from fedballot.privacy import accounting
from fedballot.privacy.guarantee import ADJACENCY
from fedballot.privacy.ledger import Account, Admission, Arrays, Chain, Costs, Ledger, Line, Version
from fedballot.privacy.ledger.spending import costs_of

SEEN = "ledgers.json"  # in the state folder


class LedgerGoneError(RunError):
    """The site's ledger is not the one that was used last: lines of it are missing, or all of it."""


def has_ledger(site: Site) -> bool:
    """Whether the site's ledger was opened before."""
    return (site.budget.ledger / "ledger.jsonl").exists()


def version_of(site: Site, own: OwnRecords) -> Version:
    """The version of the data that these records are."""
    return Version(own.fingerprint, len(own.examples.y), site.data.records_per_person)


def remembered(site: Site) -> dict[str, Any] | None:
    """The ledger of the site's population as its state folder knows it, None where it knows of none.

    Raises
    ------
    DataError
        If the state folder's file is damaged.
    """
    path = site.state / SEEN
    last = read_json(path).get(site.data.population) if path.exists() else None
    return dict(last) if last else None


def require_ledger(site: Site) -> None:
    """Refuse where the state folder knows a ledger of this population and none is there.

    Raises
    ------
    LedgerGoneError
        In words for the site's own eyes.
    """
    last = remembered(site)
    if last and not has_ledger(site):
        raise LedgerGoneError(
            f"{site.budget.ledger}: no ledger is here, but {site.state} knows one about {site.data.population!r}, with "
            f"{last['lines']} lines, in {last['folder']}; a new one would start at nothing. Name that folder in "
            f"budget.ledger, or {restoring(site, [last['head']], last)}"
        )


def restoring(site: Site, heads: Sequence[str], last: Mapping[str, Any] | None) -> str:
    """The command that puts a backup back, with all that the site remembers of the ledger that is gone."""
    options = "".join(f" --lost-head {head}" for head in heads)
    if last:
        options += f" --limit {last['limit']!r} --delta {last['delta']!r}"
    return (
        f"put a backup back: fedballot ledger restore BACKUP {shlex.quote(str(site.budget.ledger))}{options}; where an "
        "older ledger lies in that folder already, BACKUP is the folder itself"
    )


class SiteLedger(Ledger):
    """The site's ledger, which also keeps each release within the epsilon that the site's file allows.

    One object serves one request.

    Attributes
    ----------
    used : whether anything was charged or served; an answer without that never leaves the site.
    request : who asks for what, to be noted and perhaps decided by hand before the first charge; None: nobody is told.
    """

    def __init__(self, site: Site, request: approval.Request | None = None) -> None:
        budget = site.budget
        self.site, self.used, self.request = site, False, request
        require_ledger(site)
        budget.ledger.mkdir(mode=0o700, parents=True, exist_ok=True)
        account = Account(
            client=f"site {site.number}",
            population=site.data.population,
            unit=budget.unit,
            adjacency=ADJACENCY[budget.unit],
            epsilon=budget.epsilon,
            delta=budget.delta,
            accountant=budget.accountant,
        )
        if not has_ledger(site):
            super().__init__(budget.ledger, account)
            return
        super().__init__(budget.ledger)
        limit = self.account.epsilon
        self.require(replace(account, epsilon=limit))  # all but the limit must be the file's
        last = remembered(site)
        self.require_heads([last["head"]] if last else [], f"the state folder {site.state}", last)
        if limit != budget.epsilon:
            self._take_limit(limit)

    def _take_limit(self, before: float) -> None:
        """Note another budget: the site's file is its owner's word, so it is not refused.

        Raises
        ------
        LedgerGoneError
            If the limit before was a backup's: then a higher one may have been spent already.
        """
        limit, folder = self.site.budget.epsilon, shlex.quote(str(self.site.budget.ledger))
        if limit > before and not self.read().raised_since_restored:
            raise LedgerGoneError(
                f"{self.path} was restored, and {self.site.path} says budget.epsilon = {limit:g}, above its limit of "
                f"{before:g}. If the ledger that is gone had that limit already, restore again with --limit {limit:g}. "
                f"If it is a new decision: fedballot ledger budget {folder} --epsilon {limit:g} --raise"
            )
        self.set_budget(limit)

    def admit(
        self, request: str, costs: Costs, digest: str, *, uncharged: Sequence[str] = (), seeded: bool = False
    ) -> Admission:
        """As :meth:`Ledger.admit`, within the site's limits, every part charged, and none with seeded noise.

        Raises
        ------
        Refusal
            In words that may leave the site.
        """
        if uncharged or seeded or not costs:
            raise RunError(f"request {request!r}: without a charge, or with seeded noise; it stays here")
        step = self._require_limits(costs)
        if self.request is not None:
            chain = self.read()
            charges = [line for line in chain.lines if line["kind"] == "charge"]
            if not any(line["request"] == request for line in charges):
                cost = self._run_cost(self.request, request, costs, step, charges, chain.spending.epsilon())
                approval.require(self.site, self.request, request, cost)
        return super().admit(request, costs, digest)

    def answer(self, admission: Admission, draw: Callable[[], Mapping[str, NDArray[Any]]]) -> Arrays:
        """As :meth:`Ledger.answer`."""
        arrays = super().answer(admission, draw)
        self.used = True
        return arrays

    def _run_cost(
        self, asked: approval.Request, request: str, costs: Costs, release: float, charges: Sequence[Line], spent: float
    ) -> approval.RunCost:
        """What the run of this request costs; the same release is asked for once a round."""
        account, run = self.account, request.partition("/")[0]
        before = [line for line in charges if line["request"].partition("/")[0] == run]
        parts, charged = [*costs.values()], [cost for line in before for cost in costs_of(line).values()]
        releases = int(getattr(asked.settings, "rounds", 1))
        whole = so_far = release
        if all(cost.noisy for cost in (*parts, *charged)):  # a secret sample is drawn once, and costs no epsilon
            whole = accounting.epsilon([cost.times(releases) for cost in parts], account.delta, account.accountant)
            so_far = accounting.epsilon([*charged, *parts], account.delta, account.accountant)
        return approval.RunCost(release, releases, whole, so_far, spent)

    def _require_limits(self, costs: Costs) -> float:
        """What a release costs; refuses one that costs more or less than the site's file allows.

        Raises
        ------
        Refusal
            In words that may leave the site.
        """
        allowed, delta = self.site.allowed, self.site.budget.delta
        step = accounting.epsilon([*costs.values()], delta, self.site.budget.accountant)
        if not allowed.smallest_epsilon <= step <= allowed.largest_epsilon:
            raise Refusal(
                "policy",
                f"the release costs epsilon {step:.3g} at delta {delta:g}; this site allows "
                f"{allowed.smallest_epsilon:g} to {allowed.largest_epsilon:g}",
            )
        return step

    def require_heads(self, heads: Sequence[str], who: str, last: Mapping[str, Any] | None = None) -> None:
        """Refuse if heads that this ledger has shown before are neither in its chain nor given up as lost.

        Raises
        ------
        LedgerGoneError
            In words for the site's own eyes.
        """
        missing = self.unknown(heads)
        if missing:
            lines = f"ended in line {last['lines']}, this one has {len(self.lines())}" if last else "went on"
            raise LedgerGoneError(
                f"{self.path}: an older ledger, or a copy that was used beside another one: {who} knows one that "
                f"{lines}. Use the newest one, or {restoring(self.site, missing, last)}"
            )

    def append(self, chain: Chain, body: Line) -> Chain:
        """As :meth:`Ledger.append`; the state folder remembers the ledger as it is then."""
        longer = super().append(chain, body)
        self._remember(longer)  # after the line: whoever dies in between has a note of one that is there as well
        return longer

    def _remember(self, chain: Chain) -> None:
        path = self.site.state / SEEN
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        last = {
            "folder": str(self.folder),
            "lines": len(chain.lines),
            "head": chain.head,
            "limit": chain.highest_limit,
            "delta": chain.spending.delta,
        }
        ledgers = read_json(path) if path.exists() else {}
        write_json(path, {**ledgers, self.site.data.population: last})

    def require_use(self) -> None:
        """Refuse to let an answer out that nothing was charged for.

        Raises
        ------
        RunError
            If the client never asked the ledger.
        """
        if not self.used:
            raise RunError("the answer was not charged to the site's ledger; it stays here")
