"""What a site refuses whatever its data are: requests beyond its file's rules, and releases beyond its budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from fedballot.clients.base import Refusal
from fedballot.datasets.own import SITES
from fedballot.deploy.site_file import Site
from fedballot.errors import RunError, SettingsError
from fedballot.methods import Method
from fedballot.privacy import accounting
from fedballot.privacy.costs import Cost
from fedballot.privacy.guarantee import Adjacency, Unit
from fedballot.privacy.ledger import Account, Arrays, Ledger
from fedballot.settings import CommonSettings

ADJACENCY: dict[Unit, Adjacency] = {"agent": "zero-out", "record": "replace-one"}  # what the methods' costs speak of


def check_request(site: Site, method: Method, settings: CommonSettings) -> None:
    """Refuse what the site's file does not allow, before any data are read.

    Raises
    ------
    Refusal
        With reason ``policy`` and a sentence that names the rule; it holds nothing of the site's data.
    """
    allowed, queries = site.allowed, getattr(settings, "query_count", settings.public_size)
    rules = (
        (
            method.name in allowed.methods,
            f"method {method.name!r} is not allowed here; allowed are {', '.join(allowed.methods)}",
        ),
        (settings.dataset == SITES, f"dataset={settings.dataset!r}: this site answers with its own records only"),
        (settings.agents == site.sites, f"agents={settings.agents}, but this site joined a federation of {site.sites}"),
        (queries <= allowed.queries, f"{queries} queries are more than the {allowed.queries} that this site allows"),
        (getattr(settings, "noise_seed", None) is None, "noise_seed is set: seeded noise protects nobody"),
        (
            not allowed.secure_aggregation or getattr(settings, "secure_aggregation", True),
            "secure_aggregation=false: this site's ballots, where only their sum is needed, leave under masks only",
        ),
        (not math.isinf(getattr(settings, "epsilon", 0.0)), "epsilon=inf: this site releases nothing without noise"),
    )
    for holds, words in rules:
        if not holds:
            raise Refusal("policy", words)


def has_ledger(site: Site) -> bool:
    """Whether the site's ledger was opened before."""
    return (site.budget.ledger / "ledger.jsonl").exists()


class SiteLedger(Ledger):
    """The site's ledger, which also keeps each release within the epsilon that the site's file allows.

    Attributes
    ----------
    used : whether anything was charged or served; an answer without that never leaves the site.
    """

    def __init__(self, site: Site, data: str) -> None:
        budget = site.budget
        budget.ledger.mkdir(mode=0o700, parents=True, exist_ok=True)
        account = Account(
            party=f"site {site.number}",
            data=data,
            unit=budget.unit,
            adjacency=ADJACENCY[budget.unit],
            epsilon=budget.epsilon,
            delta=budget.delta,
            accountant=budget.accountant,
        )
        if has_ledger(site):
            # the site's file is its owner's word: another budget there is noted in the ledger, not refused
            known = Ledger(budget.ledger)
            if known.account.epsilon != budget.epsilon:
                known.set_budget(budget.epsilon)
        super().__init__(budget.ledger, account)
        self.site, self.used = site, False

    def release(
        self, request: str, cost: Cost, draw: Callable[[], Mapping[str, NDArray[Any]]], *, seeded: bool = False
    ) -> Arrays:
        """As :meth:`Ledger.release`, with a refusal in words that may leave the site."""
        allowed, delta = self.site.allowed, self.site.budget.delta
        step = accounting.epsilon([cost], delta, self.account.accountant)
        if not allowed.smallest_epsilon <= step <= allowed.largest_epsilon:
            raise Refusal(
                "policy",
                f"the release costs epsilon {step:.3g} at delta {delta:g}; this site allows "
                f"{allowed.smallest_epsilon:g} to {allowed.largest_epsilon:g}",
            )
        after = accounting.epsilon([*self.costs(), cost], delta, self.account.accountant)
        try:
            arrays = super().release(request, cost, draw, seeded=seeded)
        except SettingsError as error:
            if after > self.account.epsilon:
                raise Refusal("budget", "the site's privacy budget does not allow this release") from error
            raise
        self.used = True
        return arrays

    def require_use(self) -> None:
        """Refuse to let an answer out that nothing was charged for.

        Raises
        ------
        RunError
            If the client never asked the ledger.
        """
        if not self.used:
            raise RunError("the answer was not charged to the site's ledger; it stays here")
