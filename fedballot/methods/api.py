"""What a method is: how it is set, who runs it, and what it promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedballot.clients.base import BallotClient
from fedballot.settings.parts import CommonSettings
from fedballot.strategies.base import BallotStrategy


@dataclass(frozen=True)
class Method:
    """One method.

    Parameters
    ----------
    name
        By which users call it.
    summary, sends, protects, from_whom, source
        For ``fedballot methods``: what happens, what leaves a client, whom the guarantee protects from whom, and where
        the method is described.
    settings
        What can be set, and the mechanism that follows.
    client, strategy
        The two sides.
    single_client
        Whether all runs on one Flower node.
    multi_label
        Whether records may have several labels.
    search
        Values that ``fedballot frontier`` tries.

    Examples
    --------
    >>> from fedballot.methods.registry import get_method
    >>> get_method("pate-fl").sends
    'one noisy vote matrix per client'
    """

    name: str
    summary: str
    sends: str
    protects: str
    from_whom: str
    source: str
    settings: type[CommonSettings]
    client: type[BallotClient[Any]]
    strategy: type[BallotStrategy[Any]]
    single_client: bool = False
    multi_label: bool = False
    search: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def nodes(self, settings: CommonSettings) -> int:
        """Number of Flower nodes that the method needs."""
        return 1 if self.single_client else settings.clients
