"""What the results of a first run mean, in words: classes that nobody finds, and a server worse than its clients."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedballot.core import numbers

Result = Mapping[str, Any]
MARGIN = 0.01  # of accuracy: what is less may be chance
BLIND = 0.01  # so little above that of always one answer, a balanced accuracy says that classes are not told apart


def verdict(own: Result, alone: Result, pooled: Result, config: Path) -> list[str]:
    """Sentences that the figures alone do not say.

    Parameters
    ----------
    own, alone, pooled
        Results of the method, of clients alone, and of all records pooled.
    config
        The settings file of the three.
    """
    return [*_missed(own, alone, pooled), *_worse(own, alone, config)]


def _missed(own: Result, alone: Result, pooled: Result) -> list[str]:
    words = []
    if missed := never_found(own):
        records = "; ".join(f"{name!r} ({count} of the test records)" for name, count in missed.items())
        also = [name for name in missed if name in never_found(pooled)]
        helps = (
            f"With all records pooled it does not find {' and '.join(map(repr, also))} either: more records of it help"
            if also
            else "With all records pooled it does: more clients or more records of it help"
        )
        words.append(f"The server never finds {records}: its accuracy only says how common the others are. {helps}.")
    balanced = balanced_accuracy(alone, "client_measures")
    if balanced is not None and balanced <= 1 / len(alone["classes"]) + BLIND:
        words.append(
            "A client alone does not tell the classes apart: its balanced accuracy is that of one answer for every "
            f"record ({numbers.percent(balanced)})."
        )
    return words


def never_found(result: Result) -> dict[str, int]:
    """Classes of which the server has found no test record, and how many there are."""
    measures = result["metrics"].get("server_measures") or {}
    rows = zip(result["classes"], measures.get("recall_per_class", ()), measures.get("support", ()), strict=False)
    return {name: count for name, recall, count in rows if count and recall == 0}


def _worse(own: Result, alone: Result, config: Path) -> list[str]:
    pairs = {
        "accuracy": (own["metrics"].get("server_accuracy"), alone["metrics"]["client_accuracy"]["mean"]),
        "balanced accuracy": (balanced_accuracy(own, "server_measures"), balanced_accuracy(alone, "client_measures")),
    }
    worse = [
        f"{numbers.percent(server)} against {numbers.percent(client)} {measure}"
        for measure, (server, client) in pairs.items()
        if server is not None and client is not None and server < client - MARGIN
    ]
    if not worse:
        return []
    epsilon = own["settings"].get("epsilon")
    more = "more clients" if epsilon is None or math.isinf(float(epsilon)) else "more clients or a larger ε"
    return [
        f"The server is worse than a client alone ({', '.join(worse)}): this federation does not pay yet. What helps: "
        f"{more}; whether the public records fit says: fedballot poll --config {shlex.quote(str(config))}"
    ]


def balanced_accuracy(result: Result, measures: str) -> float | None:
    """Of ``server_measures``, or the mean of ``client_measures``; None: not measured."""
    value = (result["metrics"].get(measures) or {}).get("balanced_accuracy")
    return value["mean"] if isinstance(value, Mapping) else value
