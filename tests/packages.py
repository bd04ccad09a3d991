"""A package of somebody else's, installed for one test: files and a dist-info with entry points on the path."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def install(
    folder: Path,
    files: Mapping[str, str],
    entry_points: str = "",
    *,
    name: str = "their-package",
    version: str = "1.2",
    patch: pytest.MonkeyPatch | None = None,
) -> Path:
    """Write what ``pip install`` would leave in a folder; with ``patch``, put that on this process's path."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(entry_points)
    if patch is not None:
        patch.syspath_prepend(folder)
        for path in files:
            patch.delitem(sys.modules, path.partition("/")[0].removesuffix(".py"), raising=False)
    return folder
