"""What the ledgers of a simulation's clients have spent, against their budgets."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from fedballot.privacy.accounting import to_plain
from fedballot.privacy.ledger import Ledger


def spent(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """Of each kind of account: how many ledgers, their budget, and the largest and median ε spent.

    Parameters
    ----------
    folders : iterable of Path
        Of the ledgers.

    Returns
    -------
    list of dict
        As ``ledgers`` in docs/result.md; what is not finite is None.
    """
    accounts: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    known: dict[str, float] = {}  # clients are mostly charged alike, and to account takes long
    for folder in sorted(folders):
        ledger = Ledger(folder)
        about = ledger.account
        key = (about.unit, about.adjacency, about.epsilon, about.delta, about.accountant)
        costs = json.dumps([key, [to_plain(cost) for cost in ledger.costs()]], sort_keys=True)
        if costs not in known:
            known[costs] = ledger.spent()
        accounts[key].append(known[costs])
    return [
        {
            "unit": unit,
            "adjacency": adjacency,
            "budget": _finite(budget),
            "delta": delta,
            "count": len(values),
            "largest": _finite(max(values)),
            "median": _finite(median(values)),
        }
        for (unit, adjacency, budget, delta, _), values in accounts.items()
    ]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
