"""The app bundle of a run: what the server sends to the sites, and a site's check that it carries no code of its own.

A bundle of Flower may hold any Python code, and a site would run it. Ours holds only the two entry points of the
installed package; a site refuses every bundle that differs from what is installed there.
"""

from __future__ import annotations

import io
import json
import tomllib
import zipfile
from importlib import resources
from pathlib import Path

from fedballot import __version__
from fedballot.core.errors import SettingsError
from fedballot.runs.run_config import KEYS

SERVER_APP, CLIENT_APP = "fedballot.apps.server_app:app", "fedballot.apps.client_app:app"
_RECORD = "pyproject.toml"


def entry_points() -> dict[str, bytes]:
    """The files of ``fedballot/apps`` as installed: path in the bundle -> content."""
    folder = resources.files("fedballot") / "apps"
    return {
        f"fedballot/apps/{entry.name}": entry.read_bytes() for entry in folder.iterdir() if entry.name.endswith(".py")
    }


def write_app(folder: Path) -> None:
    """Write the app that `flwr run` bundles: the entry points, and a record of them."""
    for name, content in entry_points().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    lines = [
        "[project]",
        'name = "fedballot"',
        f"version = {json.dumps(__version__)}",
        'description = "The entry points of the installed fedballot"',
        'license = "Apache-2.0"',
        "dependencies = []",
        "[tool.flwr.app]",
        'publisher = "fedballot"',
        'fab-include = ["/fedballot/apps/*.py"]',
        "[tool.flwr.app.components]",
        f"serverapp = {json.dumps(SERVER_APP)}",
        f"clientapp = {json.dumps(CLIENT_APP)}",
        "[tool.flwr.app.config]",
        *(f'{key} = ""' for key in KEYS),
    ]
    (folder / _RECORD).write_text("\n".join(lines) + "\n")


def compatible(one: str, other: str) -> bool:
    """Whether a server and a site of these versions of fedballot work together: MAJOR is the same, before 1 MINOR too.

    Their requests, answers and records are the same then; a ledger, a state folder and a run folder are read by every
    later version.
    """
    parts = [text.split(".") for text in (one, other)]
    depth = 2 if parts[0][0] == "0" else 1
    return parts[0][:depth] == parts[1][:depth]


def check_bundle(content: bytes) -> None:
    """Refuse a bundle with any code that is not this site's own.

    Parameters
    ----------
    content
        The bundle, a zip archive.

    Raises
    ------
    SettingsError
        If it is of a version that does not work together with this one, holds another file than the entry points, an
        entry point that differs from the installed one, or names another client app.
    """
    ours = entry_points()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [info.filename for info in archive.infolist() if not info.is_dir()]
            strange = sorted({*names} - {*ours, _RECORD, ".info/CONTENT"})
            if strange or len(names) != len({*names}):
                raise SettingsError(
                    f"the server's bundle holds {(strange or names)[0]!r}; this site runs its own code only"
                )
            record = tomllib.loads(archive.read(_RECORD).decode())
            version = str(record["project"]["version"])
            if not compatible(version, __version__):
                raise SettingsError(
                    f"the server runs fedballot {version}, this site {__version__}, which do not work together: "
                    "install the same MAJOR.MINOR on both sides; ledger and state are kept"
                )
            for name in {*names} & {*ours}:
                if archive.read(name) != ours[name]:
                    raise SettingsError(
                        f"{name} in the server's bundle differs from this site's (fedballot {__version__}): "
                        "install the same version on both sides"
                    )
            if record["tool"]["flwr"]["app"]["components"]["clientapp"] != CLIENT_APP:
                raise SettingsError(f"the server's bundle names another client app than {CLIENT_APP}")
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError) as error:
        raise SettingsError(f"the server's bundle cannot be read: {type(error).__name__}") from error
