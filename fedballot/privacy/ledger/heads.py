"""What a server remembers of its sites' ledgers: the head that each has shown last, so that an older ledger is noticed.

A head is a salted hash: it tells only whether a chain holds it. A site shows it with each answer, under a *tag* that it
makes of its private key and its population's name, so that another population at the same site is another ledger. The
server sends back all heads that it knows, by a hash of the tag: so a site finds its own, and no site can show one in
another's name. A server that sends a wrong head can make a site refuse, no more.

Two requests that are under way at once may both be answered; the heads of both are kept until a later answer, to a
request that named both, takes their place.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedballot.core.errors import DataError, RunError
from fedballot.core.files import read_json, write_json

HEADS_KEY = "heads"  # in a request's config: JSON, see `Heads.read`
HEAD_KEY, TAG_KEY = "head", "ledger"  # in an answer's metrics
FILE = "ledger-heads.json"

_HEAD = re.compile("[0-9a-f]{64}")

HeadsByPlace = dict[str, list[str]]


def ledger_tag(key: bytes, population: str) -> str:
    """By which a site's answers name its ledger: nobody without the key can make it, or tell the population from it."""
    return hmac.new(key, f"ledger of {population}".encode(), hashlib.sha256).hexdigest()


def place_of(tag: str) -> str:
    """Under which the heads of a tag are kept and sent: from this, nobody gets the tag."""
    return hashlib.sha256(tag.encode()).hexdigest()[:32]


def heads_for(tag: str, sent: Any) -> list[str]:
    """The heads that a request names for this tag; `sent` is what came in its config, None for nothing.

    Raises
    ------
    DataError
        If it is not what :class:`Heads` writes.
    """
    if sent is None:
        return []
    try:
        heads = json.loads(sent).get(place_of(tag), [])
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{HEADS_KEY}: not the heads of ledgers by site") from error
    if not isinstance(heads, list) or not all(isinstance(head, str) and _HEAD.fullmatch(head) for head in heads):
        raise DataError(f"{HEADS_KEY}: not the heads of a ledger")
    return heads


class Heads:
    """The heads that a server knows, in a file that outlives its runs; several runs may share it.

    Parameters
    ----------
    path
        Made with the first head. Whoever deletes it makes the server forget.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> HeadsByPlace:
        """All heads, by :func:`place_of` their tag.

        Raises
        ------
        DataError
            If the file is damaged.
        RunError
            If heads could not be kept there: better no run than one after which older ledgers go unnoticed.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(self.path.parent, os.W_OK):
            raise RunError(f"{self.path}: cannot be written, but the heads of the sites' ledgers are kept there")
        if not self.path.exists():
            return {}
        by_place = read_json(self.path)
        if not isinstance(by_place, dict) or not all(isinstance(heads, list) for heads in by_place.values()):
            raise DataError(f"{self.path}: not a file of ledgers' heads; restore it from a backup, or rename it")
        return by_place

    def show(self, metrics: Mapping[str, Any], sent: HeadsByPlace) -> None:
        """Keep the head in the metrics of an answer, in place of those that the request had named.

        Parameters
        ----------
        metrics
            Of an answer; one without a head (a simulated client's) changes nothing.
        sent
            What the server knew when it asked.
        """
        head, tag = metrics.get(HEAD_KEY), metrics.get(TAG_KEY)
        if not isinstance(head, str) or not isinstance(tag, str) or not _HEAD.fullmatch(head):
            return
        place = place_of(tag)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            by_place = self.read()
            others = [one for one in by_place.get(place, []) if one not in sent.get(place, []) and one != head]
            write_json(self.path, {**by_place, place: [*others, head]})
        finally:
            os.close(folder)
