"""Settings out of Flower's run-config: the same keys as on the command line; an empty text means "not set"."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from flwr.common import Context

from fedballot.core.errors import SettingsError
from fedballot.methods.api import Method
from fedballot.methods.registry import get_method
from fedballot.privacy.ledger.heads import FILE
from fedballot.settings.parts import CommonSettings, build, load_preset

OWN_KEYS = ("method", "preset", "out", "heads")


def from_run_config(config: Mapping[str, object]) -> tuple[Method, CommonSettings, Path]:
    """The method, its resolved settings and the run's folder.

    Parameters
    ----------
    config
        ``method``, ``preset``, ``out`` (an absolute folder), and any setting by name. Settings of other methods must be
        left empty.

    Raises
    ------
    SettingsError
        As on the command line, and if ``method`` or ``out`` is missing.
    """
    given = {key: value for key, value in config.items() if value != ""}
    method = get_method(str(given.get("method", "")))
    layers = list(load_preset(str(given["preset"])).layers(method.name)) if "preset" in given else []
    layers.append({key: value for key, value in given.items() if key not in OWN_KEYS})
    out = Path(str(given.get("out", "")))
    if not out.is_absolute():
        raise SettingsError(f"out={given.get('out', '')!r} is not an absolute folder: set it in the run-config")
    return method, build(method.settings, *layers), out


def heads_file(context: Context, out: Path) -> Path:
    """Where the server keeps the heads of its sites' ledgers: ``heads`` in the run-config, else beside the run."""
    own = context.run_config.get("heads")
    return Path(str(own)) if own else out.parent / FILE


def clients_root(context: Context, out: Path) -> Path:
    """Where this node keeps its client's state: its own ``state-dir`` from the node-config, else the run's folder."""
    own = context.node_config.get("state-dir")
    return Path(str(own)) if own else out / "clients"
