"""Putting a backup of a ledger back, at the worst that the ledger which is gone can have let out.

What was released after the backup was made is in no file any more, but it was charged, so it kept to the limit: all of
the lost ledger together is (limit, delta)-private. That is charged as a whole (:class:`Lost`), on top of whatever is
charged afterwards.
"""

import json
import os
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from fedballot.core.errors import DataError, SettingsError
from fedballot.core.files import sync_folder
from fedballot.privacy.ledger.ledger import Ledger, Lost


@dataclass(frozen=True)
class Restoration:
    """What a restoration does.

    Parameters
    ----------
    backup, folder : Path
    in_place : bool
        Whether both are the same folder, in which an older state was put back by other means.
    covers : bool
        Whether the backup was never used since `Ledger.copy_to` made it, so that the lost ledger held all of its
        charges and its limit covers them; else they count beside it.
    lost : Lost or None
        What is charged; None: only heads are added to a loss that was noted before.
    heads : tuple of str
        Of the lost ledger, which are expected to be missing from now on.
    """

    backup: Path
    folder: Path
    in_place: bool
    covers: bool
    lost: Lost | None
    heads: tuple[str, ...]


def plan_restoration(
    backup: Path, folder: Path, *, heads: Collection[str] = (), limit: float = 0.0, delta: float = 0.0
) -> Restoration:
    """Look what a restoration would do; changes nothing.

    Parameters
    ----------
    backup : Path
        A whole ledger: what `Ledger.copy_to` made, any other copy, or `folder` itself.
    folder : Path
        Where the ledger is to be; what is there is moved aside.
    heads : collection of str
        Heads of the lost ledger that somebody else was shown.
    limit, delta : float
        What the lost ledger's limit and delta rose to, where that is above what the backup knows.

    Raises
    ------
    SettingsError
        If a head is none, or `folder` is a file or holds a whole ledger that goes on from the backup: then nothing was
        lost.
    DataError
        If the backup is not whole.
    """
    for head in heads:
        if len(head) != 64 or not set(head) <= set("0123456789abcdef"):
            raise SettingsError(f"--lost-head {head!r}: expected the 64 digits 0-9a-f that the site's log names.")
    if folder.exists() and not folder.is_dir():
        raise SettingsError(f"{folder}: is a file; name the ledger's folder.")
    source = Ledger(backup)
    source.verify()
    in_place = folder.exists() and backup.resolve() == folder.resolve()
    found = [] if in_place else _hashes(folder)
    try:
        current = None if in_place else Ledger(folder)
    except (DataError, SettingsError):
        current = None
    if current and source.head in found:
        raise SettingsError(
            f"{folder}: holds a whole ledger with all that {backup} holds: nothing was lost, so go on with it."
        )
    last = source.lines()[-1]["kind"]
    known = [source, *([current] if current else [])]
    lost = Lost(
        max(limit, *(ledger.highest_limit for ledger in known), 0.0),
        max(delta, *(ledger.spending().delta for ledger in known), 0.0),
    )
    missing = tuple(dict.fromkeys([*source.unknown(heads), *source.unknown(found)]))
    again = in_place and source.just_restored and lost.epsilon <= source.highest_limit
    return Restoration(backup, folder, in_place, last == "backup" and not in_place, None if again else lost, missing)


def restore(plan: Restoration) -> Path | None:
    """Do it; return where what was in the folder is now, or None: there was nothing.

    A process that is killed on the way leaves what was there, or nothing at all, never half a ledger.

    Raises
    ------
    SettingsError, DataError
        As :func:`plan_restoration`, if something changed since.
    """
    if plan.in_place:
        _note(Ledger(plan.folder), plan)
        return None
    staged = plan.folder.with_name(f".{plan.folder.name}.{secrets.token_hex(8)}")
    Ledger(plan.backup).write_copy(staged)
    _note(Ledger(staged), plan)
    aside = None
    if plan.folder.exists():
        aside = plan.folder.with_name(f"{plan.folder.name}.lost-{secrets.token_hex(4)}")
        os.rename(plan.folder, aside)
    os.rename(staged, plan.folder)
    sync_folder(plan.folder.parent)
    return aside


def _note(ledger: Ledger, plan: Restoration) -> None:
    if plan.lost is None:
        ledger.give_up_heads(plan.heads)
    else:
        ledger.give_up(plan.lost, plan.heads, covers=plan.covers)


def _hashes(folder: Path) -> list[str]:
    """Hashes of all lines that can still be read, of a ledger that need not be whole."""
    try:
        lines = (folder / "ledger.jsonl").read_bytes().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(str(json.loads(line)["hash"]))
        except (ValueError, KeyError, TypeError):
            continue
    return found
