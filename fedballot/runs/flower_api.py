"""Which of Flower's two APIs carries a run's messages: chosen here, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module, metadata
from typing import Protocol, cast

from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import Context
from flwr.serverapp import ServerApp

from fedballot.core.errors import SettingsError
from fedballot.runs.engine import ServerSide

VARIABLE = "FEDBALLOT_FLOWER_API"  # of the environment, for tests; the same for servers and clients
APIS = {"legacy": "fedballot.runs.legacy_api", "message": "fedballot.runs.message_api"}
MESSAGES_SINCE = (1, 42)  # where Flower keeps the legacy pair in flwr.compat


class FlowerApi(Protocol):
    """What a module has that carries messages."""

    def client_app(self, client: Callable[[Context], NumPyClient]) -> ClientApp:
        """The app of a client; ``client`` makes it anew for each message."""

    def server_app(self, server: Callable[[Context], ServerSide]) -> ServerApp:
        """The app of a server; ``server`` makes it when a run starts."""


def flower_api() -> FlowerApi:
    """The API for the Flower that is installed here, or the one that ``FEDBALLOT_FLOWER_API`` names.

    Raises
    ------
    SettingsError
        If it names none.
    """
    version = tuple(int(part) for part in metadata.version("flwr").split(".")[:2])
    name = os.environ.get(VARIABLE) or ("message" if version >= MESSAGES_SINCE else "legacy")
    if name not in APIS:
        raise SettingsError(f"{VARIABLE}={name!r} is neither {' nor '.join(APIS)}")
    return cast(FlowerApi, import_module(APIS[name]))
