"""New certificates before the old ones end: the server's own, and the authority's, with an overlap."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from fedballot.core.errors import SettingsError
from fedballot.deploy import pki
from fedballot.deploy.server import ServerFolder
from fedballot.deploy.site_file import Site, first_key

WARN_DAYS = 60


def days_left(path: Path) -> float:
    """Days until a certificate ends; negative after that.

    Raises
    ------
    SettingsError
        If the file cannot be read.
    """
    ends = max(one.not_valid_after_utc for one in pki.read_certificates(path))
    return (ends - datetime.now(UTC)).total_seconds() / 86400


def expiry_warnings(paths: Iterable[Path], cure: str) -> list[str]:
    """A sentence for each certificate that ends within :data:`WARN_DAYS`; files that are not there are passed over."""
    words = []
    for path in filter(Path.exists, paths):
        days = days_left(path)
        if days < WARN_DAYS:
            when = f"ends in {days:.0f} days" if days > 0 else f"ended {-days:.0f} days ago"
            words.append(f"{path} {when}: {cure}")
    return words


def server_warnings(server: ServerFolder) -> list[str]:
    """What is to be renewed in a server's folder."""
    return [
        *expiry_warnings([server.certificate], f"fedballot server renew {server.path}, then start the server again"),
        *expiry_warnings(
            [server.authority], f"fedballot server renew {server.path} --authority, then give the sites the new ca.crt"
        ),
    ]


def site_warnings(site: Site) -> list[str]:
    """What is to be renewed at a site."""
    return expiry_warnings([site.ca], "get the server's new ca.crt, and start this site again")


def renew_certificate(server: ServerFolder) -> datetime:
    """A new server certificate and key for the same names, signed by the newest authority; returns when it ends.

    The server uses it from its next start on.

    Raises
    ------
    SettingsError
        If the folder has no certificate, or the authority is not the folder's own.
    """
    hosts = _hosts(server)
    successor = _successor(server)
    signing = successor if successor.exists() else server.authority_key
    if not signing.exists():
        raise SettingsError(
            f"{server.path}: its authority is not its own, so it cannot sign; have {server.certificate.name} renewed "
            "by that authority, and put it and its key in place"
        )
    new = [path.with_name(path.name + ".new") for path in (server.certificate, server.key)]
    for path in new:
        path.unlink(missing_ok=True)  # of a renewal that was interrupted
    pki.make_server_certificate(server.authority, signing, hosts, new[0], new[1])
    os.replace(new[1], server.key)
    os.replace(new[0], server.certificate)
    if successor.exists():
        os.replace(successor, server.authority_key)
    return pki.check_certificate(server.certificate)


def renew_authority(server: ServerFolder) -> datetime:
    """A new authority beside the old one, in the same ``ca.crt``; returns when it ends.

    Sites that have the new ``ca.crt`` trust both. The next :func:`renew_certificate` signs with the new one: run it
    once all of them have the file. Authorities that have ended are left out.

    Raises
    ------
    SettingsError
        If a new one waits already, or the authority is not the folder's own.
    """
    successor = _successor(server)
    if successor.exists():
        raise SettingsError(
            f"{successor}: a new authority waits already; once all sites have the new {server.authority.name}, run: "
            f"fedballot server renew {server.path}"
        )
    if not server.authority_key.exists():
        raise SettingsError(f"{server.path}: the authority is not its own; ask those who run it for a new one")
    now = datetime.now(UTC)
    old = [one for one in pki.read_certificates(server.authority) if one.not_valid_after_utc > now]
    fresh, bundle = server.path / "ca.crt.new", server.path / "ca.crt.both"
    waiting = successor.with_name(successor.name + ".new")
    for path in (fresh, bundle, waiting):
        path.unlink(missing_ok=True)
    pki.make_authority(fresh, waiting)
    texts = [fresh.read_bytes(), *(one.public_bytes(serialization.Encoding.PEM) for one in old)]
    bundle.write_bytes(b"".join(texts))
    fresh.unlink()
    os.replace(bundle, server.authority)
    os.replace(waiting, successor)
    return pki.check_certificate(server.authority)


def _successor(server: ServerFolder) -> Path:
    return server.path / "ca-next.key"


def _hosts(server: ServerFolder) -> tuple[str, ...]:
    if not server.certificate.exists():
        raise SettingsError(f"{server.path}: has no certificate; make it anew with `fedballot server init --host NAME`")
    return pki.hosts_of(pki.read_certificates(server.certificate)[0])


def renew_site_key(site: Site) -> Path:
    """A new key pair in place of a site's, whose old files get the ending ``.old``; returns the public key's path.

    Raises
    ------
    SettingsError
        If there is no key, or an old one from before is still there.
    """
    public = site.key.with_name(site.key.name + ".pub")
    pki.check_site_key(site.key)
    pairs = [(path, path.with_name(path.name + ".old")) for path in (site.key, public)]
    for _, old in pairs:
        if old.exists():
            raise SettingsError(f"{old}: an earlier key; delete it once the server has the one after it")
    first = first_key(site)
    if not first.exists():  # by which the server knows this site's ledger, whatever its key is now
        pki.write_private(first, site.key.read_bytes())
    fresh = pki.make_site_key(site.key.with_name(site.key.name + ".new"))
    for path, old in pairs:
        if path.exists():
            os.replace(path, old)
    os.replace(fresh.with_suffix(""), site.key)
    os.replace(fresh, public)
    return public
