"""Whether the public pool fits the clients' records, asked under differential privacy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedballot.api.experiment import run
from fedballot.api.result import Result

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Poll(Result):
    """The run of a poll, and what it says of the public pool."""

    @property
    def verdict(self) -> str:
        """``fits``, ``fits in part``, ``does not fit`` or ``cannot be told``."""
        return str(self.metrics["poll"]["verdict"])

    @property
    def advice(self) -> list[str]:
        """What to do, in words; the first is the recommendation."""
        return [str(words) for words in self.metrics["poll"]["advice"]]

    def cells(self) -> pd.DataFrame:
        """A row for each group of alike public records: its share of the pool and of the clients' records."""
        import pandas as pd

        rows = []
        for cell in self.metrics["poll"]["cells"]:
            share = cell["clients"]
            rows.append({**cell, "clients": share["value"], "error": share["error"]})
        return pd.DataFrame(rows)


def poll(out: str | Path | None = None, **options: Any) -> Poll:
    """Ask clients whether the public pool fits their records: a run of the method poll.

    Parameters
    ----------
    out : path, optional
        The run's folder; by default ``runs/poll-TIME``.
    **options
        As for `run`.

    Examples
    --------
    >>> import fedballot as fb  # doctest: +SKIP
    >>> fb.poll(dataset=(x, y), public_dataset=pool, clients=8).verdict  # doctest: +SKIP
    """
    done = run("poll", out=out, **options)
    return Poll(done.folder, done.values)
