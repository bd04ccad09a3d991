"""A run out of Flower's run-config, which lets a run change existing keys only: so one key holds all settings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fedballot.core.errors import SettingsError
from fedballot.core.setting import Settings
from fedballot.methods.api import Method
from fedballot.methods.registry import get_method, settings_types
from fedballot.privacy.ledger.heads import FILE
from fedballot.settings.layers import parse_assignments, resolve
from fedballot.settings.parts import CommonSettings

if TYPE_CHECKING:
    from flwr.common import Context  # a second of importing, in the process over each site's

# an empty text means "not set"; `heads` is for `fedballot submit`, whose server keeps one file for all of its runs
# and so are `requester` and `purpose`, which sites show to their people
KEYS = ("method", "preset", "out", "settings", "heads", "requester", "purpose")


def from_run_config(config: Mapping[str, object]) -> tuple[Method, CommonSettings, Path]:
    """The method, its resolved settings and the run's folder.

    Parameters
    ----------
    config
        ``method``; ``preset``; ``out``, an absolute folder; and ``settings``, such as ``epsilon=1 rounds=3``, quoted as
        in a shell where a value holds spaces.

    Raises
    ------
    SettingsError
        As on the command line; for a key that is none of these; and if ``method`` or ``out`` is missing.
    """
    texts = {key: str(config.get(key, "")) for key in KEYS}
    if strange := [key for key in config if key not in KEYS]:
        raise SettingsError(f"{strange[0]!r} is no key of the run-config, which are {', '.join(KEYS)}: see `settings`")
    method = get_method(texts["method"])
    try:
        pairs = shlex.split(texts["settings"])
    except ValueError as error:
        raise SettingsError(f"settings={texts['settings']!r}: {error}") from error
    settings = resolve(
        method.name, settings_types(method), preset=texts["preset"] or None, values=parse_assignments(pairs)
    )
    out = Path(texts["out"])
    if not out.is_absolute():
        raise SettingsError(f"out={texts['out']!r} is not an absolute folder: set it in the run-config")
    return method, settings, out


def settings_text(settings: Settings) -> str:
    """All settings as the text of the key ``settings``."""
    pairs = settings.to_dict().items()
    return shlex.join(
        f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}" for name, value in pairs
    )


def heads_file(context: Context, out: Path) -> Path:
    """Where the server keeps the heads of its sites' ledgers: ``heads`` in the run-config, else beside the run."""
    own = context.run_config.get("heads")
    return Path(str(own)) if own else out.parent / FILE


def clients_root(context: Context, out: Path) -> Path:
    """Where this node keeps its client's state: its own ``state-dir`` from the node-config, else the run's folder."""
    own = context.node_config.get("state-dir")
    return Path(str(own)) if own else out / "clients"


def client_number(context: Context) -> int:
    """The client that this node is: its ``partition-id``."""
    return int(context.node_config["partition-id"])
