"""Whether ledgers hold what a result promises: a guarantee that nobody was charged for is none."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedballot.core.errors import RunError
from fedballot.privacy import accounting
from fedballot.privacy.accounting import Cost, to_plain
from fedballot.privacy.guarantee import Guarantee
from fedballot.privacy.ledger.account import Costs
from fedballot.privacy.ledger.ledger import Ledger
from fedballot.privacy.ledger.spending import costs_of

SLACK = 1e-3  # relative: costs that are solved for an epsilon reach it to within that


def reconcile(
    ledgers: Mapping[int, Path],
    charge: Callable[[int], Costs | None],
    answered: Mapping[str, int],
    guarantees: Sequence[Guarantee],
    better: bool = False,
    own: Callable[[int], Sequence[Guarantee]] | None = None,
) -> None:
    """Compare every ledger of a run with the mechanism that its guarantees rest on.

    Parameters
    ----------
    ledgers : mapping of int to Path
        Folder of each client's ledger, by its number.
    charge : callable
        What one request must cost a client, by part; None: nothing.
    answered : mapping of str to int
        How many answers came, by the name under which each was to be charged.
    guarantees : sequence of Guarantee
        What the result promises; those without a promise are passed over.
    better : bool
        Whether the result may promise a smaller epsilon than was charged: more shares of noise came than were agreed
        on, or who was drawn is a secret of the server's.
    own : callable, optional
        What the result promises to each client, where it promises more to some than to all.

    Raises
    ------
    RunError
        If an answer was not charged, was charged with another cost, or the guarantees are not what was charged.
    """
    promised = _finite(guarantees)
    if not promised:
        return
    counted = dict.fromkeys(answered, 0)
    checked = set[str]()  # what was charged to whom: clients are mostly charged alike, and to account takes long
    for number, folder in sorted(ledgers.items()):
        ledger, wanted = Ledger(folder), charge(number)
        for request, costs in charges(ledger).items():
            if wanted is None or costs != dict(wanted):
                raise RunError(
                    f"{ledger.path}: request {request!r} was charged {_plain(costs)}, but the guarantee rests on "
                    f"{_plain(wanted or {})}: client and Strategy speak of two mechanisms"
                )
            if request in counted:
                counted[request] += 1
        about = ledger.account
        alike = json.dumps([_plain(wanted or {}), about.unit, about.adjacency, about.delta, about.accountant])
        if alike not in checked:
            alone = promised if own is None else _finite(own(number))
            _check_promise(ledger, alone, [*(wanted or {}).values()] * len(answered), better)
            checked.add(alike)
    for request, answers in answered.items():
        if counted[request] < answers:
            raise RunError(
                f"{answers} clients answered request {request!r} and {counted[request]} ledgers were charged for it, "
                f"but the result calls its guarantee {promised[0].status!r} ({promised[0].mechanism}): an answer "
                "that nobody was charged for is not private"
            )


def charges(ledger: Ledger) -> dict[str, dict[str, Cost]]:
    """What each request was charged, by part."""
    return {line["request"]: costs_of(line) for line in ledger.read().lines if line["kind"] == "charge"}


def _check_promise(ledger: Ledger, promised: Sequence[Guarantee], costs: Sequence[Cost], better: bool) -> None:
    """Refuse guarantees of which none states what a client is charged for a whole run, or all of them more."""
    account = ledger.account
    alike = [g for g in promised if (g.unit, g.adjacency) == (account.unit, account.adjacency)]
    stated = min((g.epsilon for g in alike), default=None)
    if stated is None:
        raise RunError(
            f"{ledger.path} is about {account.unit}s under {account.adjacency}, of which the result states no guarantee"
        )
    # a pure guarantee holds at any delta, so also at that of the ledger
    charged = accounting.epsilon(costs, max(g.delta or account.delta for g in alike), account.accountant)
    if stated > charged * (1 + SLACK):
        raise RunError(f"{ledger.path}: a run is charged epsilon {charged:.4g}, but the result states {stated:.4g}")
    # the tightest accountant: no proved guarantee for these costs is smaller
    if not better and all(
        g.epsilon * (1 + SLACK) < accounting.epsilon(costs, g.delta or account.delta, "pld") for g in alike
    ):
        raise RunError(
            f"{ledger.path}: a run is charged epsilon {charged:.4g}, but the result states no more than "
            f"{max(g.epsilon for g in alike):.4g}: its noise does not give that (if more shares of noise came than "
            "were agreed on, and so are counted, the Composition says so by amplified=True)"
        )


def _finite(guarantees: Sequence[Guarantee]) -> list[Guarantee]:
    return [g for g in guarantees if g.status in ("proved", "seeded") and g.epsilon < float("inf")]


def _plain(costs: Costs) -> dict[str, Any]:
    return {part: to_plain(cost) for part, cost in costs.items()}
