"""The table of what ledgers have spent."""

from collections.abc import Mapping
from typing import Any

from fedballot.core.numbers import count, delta, epsilon
from fedballot.report.tables import Table


def ledger_table(result: Mapping[str, Any]) -> Table | None:
    """Write the largest and median ε that ledgers have spent beside their budget; None where none was read."""
    rows = tuple(
        (
            f"{count(entry['count'])}, about a {entry['unit']} ({entry['adjacency']}), δ = {delta(entry['delta'])}",
            epsilon(entry["median"]),
            epsilon(entry["largest"]),
            epsilon(entry["budget"]),
        )
        for entry in result.get("ledgers") or ()
    )
    if not rows:
        return None
    head = ("ledgers", "median ε", "largest", "budget")
    return Table("ledgers", "Spent by the clients’ ledgers", head, rows)
