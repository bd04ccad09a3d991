"""Copies of a ledger: whole, verified, and on disk before they have their name."""

import os
import secrets
import shutil
from pathlib import Path

from fedballot.core.errors import SettingsError
from fedballot.core.files import sync_folder
from fedballot.privacy.ledger.ledger import Ledger
from fedballot.privacy.ledger.reader import FILE, FOLDER
from fedballot.privacy.ledger.releases import Releases, write_whole


def back_up(ledger: Ledger, folder: Path) -> int:
    """Copy a whole ledger to a new folder, also while it is in use; return the number of lines.

    The last line says so, in both: a copy that ends with it has not been used since.

    Raises
    ------
    SettingsError
        If there is something at `folder`, or it lies in the ledger's own.
    DataError
        If the ledger is not whole.
    """
    if folder.exists() or folder.is_symlink():
        raise SettingsError(f"{folder}: already there; name a new folder.")
    if ledger.folder.resolve() in folder.resolve().parents:
        raise SettingsError(f"{folder}: lies in the ledger's own folder, and is lost with it; name another place.")
    with ledger.locked():
        ledger.verify()
        ledger.append(ledger.read(), {"kind": "backup"})
        return write_copy(ledger, folder)


def write_copy(ledger: Ledger, folder: Path) -> int:
    """Copy a ledger as it is, verified; return the number of lines."""
    chain = ledger.read()
    folder.parent.mkdir(parents=True, exist_ok=True)
    staged = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    copies = Releases(staged / FOLDER)
    try:
        copies.folder.mkdir(parents=True)
        for private in (staged, copies.folder):
            private.chmod(0o700)
        for request in chain.requests:
            path = ledger.releases.path(request)
            if path.exists():
                write_whole(copies.path(request), path.read_bytes())
        write_whole(staged / FILE, chain.content)
        count = Ledger(staged).verify()
        os.rename(staged, folder)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    sync_folder(folder.parent)
    return count
