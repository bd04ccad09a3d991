"""Putting a backup of a ledger back, at the worst that the ledger which is gone can have let out.

What was released after the backup was made is in no file any more, but it was charged, so it kept to the limit: all of
the lost ledger together is (limit, delta)-private. That is charged as a whole (:class:`Lost`), on top of whatever is
charged afterwards.
"""

import json
import os
import secrets
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from fedballot.core.errors import DataError, SettingsError
from fedballot.core.files import sync_folder
from fedballot.privacy.ledger.copies import write_copy
from fedballot.privacy.ledger.ledger import Ledger
from fedballot.privacy.ledger.reader import FILE
from fedballot.privacy.ledger.spending import Lost


@dataclass(frozen=True)
class Restoration:
    """What a restoration does.

    Parameters
    ----------
    backup, folder : Path
    in_place : bool
        Whether both are the same folder, in which an older state was put back by other means.
    covers : bool
        Whether the backup was never used since `back_up` made it, so that the lost ledger held all of its
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
        A whole ledger: what `back_up` made, any other copy, or `folder` itself.
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
    hashes = [] if in_place else _hashes(folder)
    try:
        present = None if in_place else Ledger(folder).read()
    except (DataError, SettingsError):
        present = None
    chain = source.read()
    if present and chain.head in hashes:
        raise SettingsError(
            f"{folder}: holds a whole ledger with all that {backup} holds: nothing was lost, so go on with it."
        )
    chains = [chain, *([present] if present else [])]
    lost = Lost(
        max(limit, *(one.highest_limit for one in chains), 0.0),
        max(delta, *(one.spending.delta for one in chains), 0.0),
    )
    missing = tuple(dict.fromkeys([*source.unknown(heads), *source.unknown(hashes)]))
    again = in_place and chain.just_restored and lost.epsilon <= chain.highest_limit
    covers = chain.lines[-1]["kind"] == "backup" and not in_place
    return Restoration(backup, folder, in_place, covers, None if again else lost, missing)


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
    write_copy(Ledger(plan.backup), staged)
    _note(Ledger(staged), plan)
    aside = None
    if plan.folder.exists():
        aside = plan.folder.with_name(f"{plan.folder.name}.lost-{secrets.token_hex(4)}")
        os.rename(plan.folder, aside)
    os.rename(staged, plan.folder)
    sync_folder(plan.folder.parent)
    return aside


def give_up(ledger: Ledger, lost: Lost, heads: Collection[str], *, covers: bool) -> None:
    """Note that releases which are in no ledger any more are charged as `lost`.

    Parameters
    ----------
    ledger : Ledger
    lost : Lost
        No less than the limit of the ledger that is gone.
    heads : collection of str
        Of the ledger that is gone, as far as they are known.
    covers : bool
        Whether that ledger held all lines that are here, so that its limit covers their charges, too.
    """
    with ledger.locked():
        ledger.append(ledger.read(), {"kind": "restored", **asdict(lost), "heads": [*heads], "covers": covers})


def give_up_heads(ledger: Ledger, heads: Collection[str]) -> None:
    """Note further heads of the ledger that is gone, as long as nothing was charged since it was given up.

    Raises
    ------
    SettingsError
        If something was: then they may be of another loss.
    """
    with ledger.locked():
        chain = ledger.read()
        if not chain.just_restored:
            raise SettingsError(f"{ledger.path}: was not restored, or was charged since.")
        ledger.append(chain, {"kind": "heads", "heads": [*heads]})


def _note(ledger: Ledger, plan: Restoration) -> None:
    if plan.lost is None:
        give_up_heads(ledger, plan.heads)
    else:
        give_up(ledger, plan.lost, plan.heads, covers=plan.covers)


def _hashes(folder: Path) -> list[str]:
    """Hashes of all lines that can still be read, of a ledger that need not be whole."""
    try:
        lines = (folder / FILE).read_bytes().splitlines()
    except OSError:
        return []
    hashes = []
    for line in lines:
        try:
            hashes.append(str(json.loads(line)["hash"]))
        except (ValueError, KeyError, TypeError):
            continue
    return hashes
