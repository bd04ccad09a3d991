"""Certificates and keys before they end: the server's, the authority's, a site's."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fedballot.core.errors import SettingsError
from fedballot.deploy import pki
from fedballot.deploy.renewal import (
    expiry_warnings,
    renew_authority,
    renew_certificate,
    renew_site_key,
    server_warnings,
)
from fedballot.deploy.server import ServerFolder, init_server
from fedballot.deploy.site_file import read_site
from fedballot.deploy.template import init_site
from tests.deploy.test_pki import shake


@pytest.fixture
def server(tmp_path: Path) -> ServerFolder:
    return init_server(tmp_path / "server", ("flower.example.org", "10.1.2.3"), control="127.0.0.1:18000")


def test_a_renewed_certificate_is_for_the_same_names_and_another_key(server: ServerFolder) -> None:
    before = server.key.read_bytes()
    assert renew_certificate(server) > datetime.now(UTC) + timedelta(days=390)
    assert server.key.read_bytes() != before and server.key.stat().st_mode & 0o077 == 0
    for host in ("flower.example.org", "10.1.2.3", "localhost"):
        shake(server, server.authority, host)


def test_an_authority_is_replaced_with_an_overlap(server: ServerFolder, tmp_path: Path) -> None:
    old = tmp_path / "old.crt"
    old.write_bytes(server.authority.read_bytes())
    renew_authority(server)
    shake(server, old, "localhost")  # a site that has not got the new file
    shake(server, server.authority, "localhost")
    with pytest.raises(SettingsError, match="waits already"):
        renew_authority(server)
    renew_certificate(server)
    shake(server, server.authority, "localhost")
    new = tmp_path / "new.crt"
    new.write_bytes(server.authority.read_bytes()[: server.authority.read_bytes().index(b"END CERTIFICATE-----") + 20])
    shake(server, new, "localhost")
    with pytest.raises(Exception, match=r"(?i)certificate.verify.failed"):
        shake(server, old, "localhost")
    assert {path.name for path in server.path.iterdir()} == {"ca.crt", "ca.key", "server.crt", "server.key", "flwr"}
    renew_certificate(server)  # and once more, by the new authority's key
    shake(server, new, "localhost")


def test_an_interrupted_renewal_can_be_repeated(server: ServerFolder) -> None:
    for name in ("server.key.new", "server.crt.new", "ca.crt.new", "ca-next.key.new"):
        (server.path / name).write_text("half")
    renew_certificate(server)
    renew_authority(server)
    shake(server, server.authority, "localhost")


def test_a_foreign_authority_cannot_sign(server: ServerFolder, tmp_path: Path) -> None:
    own = (server.authority, server.certificate, server.key)
    second = init_server(tmp_path / "second", (), control="127.0.0.1:18001", own=own)
    for renew in (renew_certificate, renew_authority):
        with pytest.raises(SettingsError, match="authority is not its own"):
            renew(second)


@pytest.mark.parametrize(("days", "words"), [(59, "ends in 59 days"), (-0.02, "ended 0 days ago"), (61, None)])
def test_warnings_come_sixty_days_before(
    server: ServerFolder, monkeypatch: pytest.MonkeyPatch, days: float, words: str | None
) -> None:
    monkeypatch.setattr(pki, "SERVER_DAYS", days)
    server.key.unlink()
    pki.make_server_certificate(server.authority, server.authority_key, ("localhost",), server.certificate, server.key)
    found = server_warnings(server)
    assert (len(found) == 1 and words in found[0] and "server renew" in found[0]) if words else not found
    assert expiry_warnings([server.path / "none.crt"], "") == []


def test_a_site_gets_a_new_key_and_keeps_the_old_one_beside_it(tmp_path: Path) -> None:
    init_site(tmp_path / "site", number=0, sites=2, server="localhost:1")
    site = read_site(tmp_path / "site" / "site.toml")
    private, public = site.key.read_bytes(), (tmp_path / "site" / "site.key.pub").read_bytes()
    assert renew_site_key(site) == tmp_path / "site" / "site.key.pub"
    pki.check_site_key(site.key)
    assert site.key.read_bytes() != private and site.key.stat().st_mode & 0o077 == 0
    assert (tmp_path / "site" / "site.key.old").read_bytes() == private
    assert (tmp_path / "site" / "site.key.pub.old").read_bytes() == public
    with pytest.raises(SettingsError, match=r"site\.key\.old: an earlier key|delete it"):
        renew_site_key(site)


def test_what_does_not_belong_together_is_refused_and_leaves_no_folder(server: ServerFolder, tmp_path: Path) -> None:
    other = init_server(tmp_path / "other", ("localhost",), control="127.0.0.1:1")
    wrong = {
        "is not the key of": (server.authority, server.certificate, other.key),
        "was not signed by": (other.authority, server.certificate, server.key),
        "not a PEM certificate": (server.key, server.certificate, server.key),
        "not a PEM private key": (server.authority, server.certificate, server.certificate),
    }
    for words, own in wrong.items():
        with pytest.raises(SettingsError, match=words):
            init_server(tmp_path / "new", (), control="127.0.0.1:18000", own=own)
        assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("host", ["münchen.example", "a b", "http://x", "x:9092", "", "-x", "a..b"])
def test_a_host_that_is_none_leaves_no_folder(tmp_path: Path, host: str) -> None:
    with pytest.raises(SettingsError, match="not a host name"):
        init_server(tmp_path / "new", (host,), control="127.0.0.1:18000")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("host", ["example.org", "xn--mnchen-3ya.example", "10.0.0.1", "::1", "*.a.org", "my_host"])
def test_hosts_that_are_some(host: str) -> None:
    pki.check_host(host)
