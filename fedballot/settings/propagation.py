"""Settings of a server that labels public records by their neighbours, too."""

from __future__ import annotations

from dataclasses import dataclass

from fedballot.core.setting import setting, where
from fedballot.settings.parts import FeatureSteps

PROPAGATES = where("student", "propagated", "self-train")


@dataclass(frozen=True)
class Propagation(FeatureSteps):
    """Of methods with a setting ``student``, whose labels may propagate over a graph of the public pool."""

    neighbours: int = setting(
        5, "neighbours of a record in the propagation graph", low=1, reads="server", read_if=PROPAGATES
    )
    spread: float = setting(
        0.99,
        "share of a record's label that comes from its neighbours",
        low=0,
        below=1,
        reads="server",
        read_if=PROPAGATES,
    )
    graph_features: str = setting(
        "auto",
        "what the graph compares: an extractor such as deskew (upright digits)",
        reads="server",
        kind="extractor",
        read_if=PROPAGATES,
    )
