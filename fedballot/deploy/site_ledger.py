"""A site's ledger: its budget is the site's word, and each release stays within what the site's file allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from fedballot.clients.base import Refusal
from fedballot.deploy.site_file import Site
from fedballot.errors import RunError
from fedballot.privacy import accounting
from fedballot.privacy.guarantee import Adjacency, Unit
from fedballot.privacy.ledger import Account, Arrays, Costs, Ledger

ADJACENCY: dict[Unit, Adjacency] = {"agent": "zero-out", "record": "replace-one"}  # what the methods' costs speak of


def has_ledger(site: Site) -> bool:
    """Whether the site's ledger was opened before."""
    return (site.budget.ledger / "ledger.jsonl").exists()


class SiteLedger(Ledger):
    """The site's ledger, which also keeps each release within the epsilon that the site's file allows.

    Attributes
    ----------
    used : whether anything was charged or served; an answer without that never leaves the site.
    """

    def __init__(self, site: Site) -> None:
        budget = site.budget
        budget.ledger.mkdir(mode=0o700, parents=True, exist_ok=True)
        account = Account(
            party=f"site {site.number}",
            population=f"site {site.number}",
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

    def check(self, request: str, costs: Costs, digest: str) -> None:
        """As :meth:`Ledger.check`, and that the release lies within the site's limits.

        Raises
        ------
        Refusal
            In words that may leave the site.
        """
        allowed, delta = self.site.allowed, self.site.budget.delta
        step = accounting.epsilon([*costs.values()], delta, self.account.accountant)
        if not allowed.smallest_epsilon <= step <= allowed.largest_epsilon:
            raise Refusal(
                "policy",
                f"the release costs epsilon {step:.3g} at delta {delta:g}; this site allows "
                f"{allowed.smallest_epsilon:g} to {allowed.largest_epsilon:g}",
            )
        super().check(request, costs, digest)

    def release(
        self,
        request: str,
        costs: Costs,
        draw: Callable[[], Mapping[str, NDArray[Any]]],
        *,
        digest: str,
        uncharged: Sequence[str] = (),
        seeded: bool = False,
    ) -> Arrays:
        """As :meth:`Ledger.release`, within the site's limits, every part charged, and none with seeded noise."""
        if uncharged or seeded or not costs:
            raise RunError(f"request {request!r}: without a charge, or with seeded noise; it stays here")
        self.check(request, costs, digest)
        arrays = super().release(request, costs, draw, digest=digest)
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
