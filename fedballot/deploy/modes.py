"""Who else on the machine can open or change a site's files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from fedballot.core.errors import SettingsError
from fedballot.deploy.site_file import Site

OPEN_BITS = stat.S_IRWXG | stat.S_IRWXO
WRITE_BITS = stat.S_IWGRP | stat.S_IWOTH
READ_BITS = stat.S_IRGRP | stat.S_IROTH
SEARCH_BITS = stat.S_IXGRP | stat.S_IXOTH


def check_modes(site: Site) -> None:
    """Refuse a site whose secrets others on the machine can open, or whose rules they can change.

    Key, ledger and state must be the owner's alone. The site's file, its folder, the authority's certificate and the
    public data must not be writable to others. The records must not be readable to others: by their own mode, or
    because a folder above is closed.

    Raises
    ------
    SettingsError
        Naming the file, its mode and the command that mends it.
    """
    check_private(site.key)
    for path in filter(Path.exists, (site.budget.ledger, site.state)):
        check_private(path)
    steering = (
        site.path,
        site.path.parent,
        site.ca,
        site.data.public,
        *([site.data.schema] if site.data.schema else []),
    )
    for path in filter(Path.exists, steering):
        check_unchangeable(path)
    if site.data.private.exists():
        check_unreadable(site.data.private)


def check_private(path: Path) -> None:
    """Refuse a file or folder that is not the owner's alone.

    Raises
    ------
    SettingsError
        If it is missing, or group or others may open it.
    """
    mode = _mode(path)
    if mode & OPEN_BITS:
        raise SettingsError(f"{path}: mode {mode:o} lets others open it; run: chmod go= {path}")


def check_unchangeable(path: Path) -> None:
    """Refuse a file or folder that group or others may write, where no folder above it is closed to them.

    Raises
    ------
    SettingsError
        If they may; a folder with the sticky bit, such as /tmp, lets nobody replace another's files.
    """
    mode = _mode(path)
    sticky = path.is_dir() and mode & stat.S_ISVTX
    if not sticky and _reached(path, mode & WRITE_BITS, shift=1):
        raise SettingsError(f"{path}: mode {mode:o} lets others change it; run: chmod go-w {path}")


def check_unreadable(path: Path) -> None:
    """Refuse a file or folder that group or others may read, where no folder above it is closed to them.

    Raises
    ------
    SettingsError
        If they may.
    """
    mode = _mode(path)
    if _reached(path, mode & READ_BITS, shift=2):
        raise SettingsError(f"{path}: mode {mode:o} lets others read the records; run: chmod -R go= {path}")


def _reached(path: Path, bits: int, *, shift: int) -> bool:
    """Whether a class of users with one of these bits, ``shift`` above its search bit, may pass all folders above."""
    for folder in path.resolve().parents:
        bits &= (folder.stat().st_mode & SEARCH_BITS) << shift
    return bool(bits)


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
