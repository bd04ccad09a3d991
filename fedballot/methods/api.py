"""What a method is: how it is set, who runs it, and what it promises.

Neither Flower nor a learner is imported here, so that a list of methods comes at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fedballot.core import plugins
from fedballot.core.errors import SettingsError
from fedballot.settings.parts import CommonSettings, client_models, server_models

if TYPE_CHECKING:
    from fedballot.clients.base import BallotClient
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
        The two sides: classes, or texts ``package.module:Class``, which are imported when they are first used.
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
    client: type[BallotClient[Any]] | str
    strategy: type[BallotStrategy[Any]] | str
    single_client: bool = False
    multi_label: bool = False
    search: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def client_class(self) -> type[BallotClient[Any]]:
        """The class of :attr:`client`.

        Raises
        ------
        SettingsError
            If its text names no such class.
        """
        from fedballot.clients.base import BallotClient

        loaded: type[BallotClient[Any]] = self._side("client", self.client, BallotClient)
        return loaded

    @cached_property
    def strategy_class(self) -> type[BallotStrategy[Any]]:
        """The class of :attr:`strategy`.

        Raises
        ------
        SettingsError
            If its text names no such class.
        """
        from fedballot.strategies.base import BallotStrategy

        loaded: type[BallotStrategy[Any]] = self._side("strategy", self.strategy, BallotStrategy)
        return loaded

    def _side(self, side: str, named: type | str, base: type) -> Any:
        if not isinstance(named, str):
            return named
        try:
            loaded = plugins.load(named, group=side, kind=type)
        except SettingsError as error:
            raise SettingsError(f"method {self.name!r}: {error}") from error
        if not issubclass(loaded, base):
            raise SettingsError(f"method {self.name!r}: {side} {named!r} is no subclass of {base.__name__}")
        return loaded

    def trained_models(self, settings: CommonSettings) -> tuple[str, ...]:
        """Learners that clients train, if any; with a single client those are the server's."""
        return server_models(settings) if self.single_client else client_models(settings)

    def nodes(self, settings: CommonSettings) -> int:
        """Number of Flower nodes that the method needs."""
        return 1 if self.single_client else settings.clients
