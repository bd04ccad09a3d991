"""Runs as rows of a pandas data frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedballot.report.again import changed_settings

if TYPE_CHECKING:
    import pandas as pd

    from fedballot.api.result import Result

MEASURES = ("server_accuracy", "label_accuracy", "server_auc")
PROMISES = ("epsilon", "delta", "unit", "adjacency", "view", "trust", "status")


def frame_of_runs(results: Sequence[Result]) -> pd.DataFrame:
    """A row for each run: name, method, settings that differ from their defaults, measures, guarantee, bytes, time.

    There is a column for presets where a run came from one. Columns of the guarantee are those of the first one; its
    status is ``guarantee``.
    """
    import pandas as pd

    changed = [changed_settings(one.values) for one in results]
    presets = any(one.values.get("preset") for one in results)
    names = list(dict.fromkeys(name for one in changed for name in one))
    rows = []
    for result in results:
        measures = result.metrics.get("server_measures") or {}
        clients = result.metrics.get("client_accuracy") or {}
        promise: dict[str, Any] = next(iter(result.values.get("guarantees", [])), {})
        timing, sent = result.values.get("timing", {}), result.values.get("communication", {})
        rows.append(
            {
                "run": result.folder.resolve().name,
                "method": result.method,
                "status": result.status,
                **({"preset": result.values.get("preset")} if presets else {}),
                **{name: _cell(result.settings.get(name)) for name in names},
                "accuracy": result.accuracy,
                **{name: result.metrics.get(name) for name in MEASURES},
                "balanced_accuracy": measures.get("balanced_accuracy"),
                "client_accuracy": clients.get("mean"),
                **{("guarantee" if name == "status" else name): promise.get(name) for name in PROMISES},
                "bytes_up": sent.get("bytes_up"),
                "wall_s": timing.get("wall_s"),
            }
        )
    return pd.DataFrame(rows)


def _cell(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, list) else value
