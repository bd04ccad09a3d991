"""The sites that a server lets in, by name: ``sites.json`` in its folder, beside what Flower knows of their nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from fedballot.core.errors import DataError, SettingsError, did_you_mean
from fedballot.core.files import read_json, write_json
from fedballot.deploy.flower import ask
from fedballot.deploy.server import ServerFolder

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True)
class Member:
    """A site that was let in.

    Attributes
    ----------
    name : by which people call it.
    node : Flower's number of its node.
    key : its public key, as in its file.
    added : when, in UTC.
    """

    name: str
    node: str
    key: str
    added: str


@dataclass(frozen=True)
class MemberStatus:
    """A site as the server sees it now.

    Attributes
    ----------
    status : ``online``, ``offline``, or ``registered`` for one that never came.
    since : of the status, in UTC; empty if it never came.
    """

    name: str
    node: str
    added: str
    status: str
    since: str


def members(server: ServerFolder) -> dict[str, Member]:
    """The sites that were let in, by name.

    Raises
    ------
    DataError
        If the list is damaged.
    """
    path = _list(server)
    if not path.exists():
        return {}
    try:
        return {name: Member(**values) for name, values in read_json(path)["sites"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: is no list of sites; restore it, or let the sites in again") from error


def add_site(server: ServerFolder, name: str, public_key: Path) -> Member:
    """Let the site with this public key in; the server must be running.

    A name that is there already gets the new key, and its old one is let in no more.

    Raises
    ------
    SettingsError
        If the name or the file cannot be used, or another site has this key.
    RunError
        If the server does not answer or refuses.
    """
    if not NAME.fullmatch(name):
        raise SettingsError(f"{name!r} is no site's name; expected letters, digits, '.', '_' and '-', 63 at most")
    key = _read_key(public_key)
    _ = server.control
    there = members(server)
    for other in there.values():
        if other.key == key:
            if other.name == name:
                return other
            raise SettingsError(f"{public_key}: is the key of {other.name}; every site has a key of its own")
    node = str(ask(server.home, "supernode", "register", str(public_key.absolute()))["node-id"])
    member = Member(name, node, key, datetime.now(UTC).isoformat(timespec="seconds"))
    _write(server, {**there, name: member})
    if name in there:
        ask(server.home, "supernode", "unregister", there[name].node)
    return member


def remove_site(server: ServerFolder, name: str) -> Member:
    """Let a site in no more; it is disconnected, and may be added again.

    Raises
    ------
    SettingsError
        If there is no such site.
    RunError
        If the server does not answer or refuses.
    """
    there = members(server)
    if name not in there:
        raise SettingsError(f"no site {name!r}{did_you_mean(name, there)}. Sites: {', '.join(there) or 'none'}")
    ask(server.home, "supernode", "unregister", there[name].node)
    _write(server, {other: member for other, member in there.items() if other != name})
    return there[name]


def site_list(server: ServerFolder) -> list[MemberStatus]:
    """All sites that are let in, in order of their names; one that was added by Flower's own command is ``?``.

    Raises
    ------
    RunError
        If the server does not answer.
    """
    return statuses(members(server), ask(server.home, "supernode", "list")["nodes"])


def statuses(there: Mapping[str, Member], nodes: list[dict[str, Any]]) -> list[MemberStatus]:
    """Names and what Flower's ``supernode list`` says of their nodes."""
    names = {member.node: member for member in there.values()}
    found = []
    for node in nodes:
        number, status = str(node["node-id"]), str(node["status"])
        if status in ("unregistered", "deleted"):
            continue
        member = names.pop(number, None)
        since = node["online-at"] if status == "online" else node["offline-at"]
        added = member.added if member else ""
        name = member.name if member else "?"
        found.append(MemberStatus(name, number, added, status, "" if since == "N/A" else since))
    lost = (MemberStatus(one.name, one.node, one.added, "unknown to the server", "") for one in names.values())
    return sorted([*found, *lost], key=lambda site: site.name)


def _list(server: ServerFolder) -> Path:
    return server.path / "sites.json"


def _write(server: ServerFolder, there: Mapping[str, Member]) -> None:
    write_json(_list(server), {"sites": {name: asdict(member) for name, member in there.items()}})


def _read_key(path: Path) -> str:
    try:
        content = path.read_bytes()
        serialization.load_ssh_public_key(content)
        return content.decode("ascii").strip()
    except OSError as error:
        raise SettingsError(
            f"{path}: cannot be read ({error.strerror}); expected the public key that `fedballot site init` wrote"
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SettingsError(f"{path}: no OpenSSH public key; expected the .pub of `fedballot site init`") from error
