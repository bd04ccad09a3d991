import ssl
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from fedballot.core.errors import SettingsError
from fedballot.deploy import pki
from fedballot.deploy.server import ServerFolder, init_server, server_command


@pytest.fixture
def server(tmp_path: Path) -> ServerFolder:
    return init_server(tmp_path / "server", ("flower.example.org", "10.1.2.3"), control="127.0.0.1:18000")


def shake(server: ServerFolder, authority: Path, host: str) -> None:
    """A TLS handshake in memory between a client that trusts ``authority`` and the server's certificate."""
    client_in, server_in = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(server.certificate, server.key)
    end = ours.wrap_bio(server_in, client_in, server_side=True)
    start = ssl.create_default_context(cafile=str(authority)).wrap_bio(client_in, server_in, server_hostname=host)
    for _ in range(6):
        for side in (start, end):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert start.version() == "TLSv1.3" and start.getpeercert()


@pytest.mark.parametrize("host", ["flower.example.org", "10.1.2.3", "localhost", "127.0.0.1"])
def test_the_certificate_is_good_for_every_name(server: ServerFolder, host: str) -> None:
    shake(server, server.authority, host)


def test_another_name_and_another_authority_are_refused(server: ServerFolder, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="match"):
        shake(server, server.authority, "elsewhere.example.org")
    other = init_server(tmp_path / "other", ("localhost",), control="127.0.0.1:1")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server, other.authority, "localhost")


def test_secrets_are_the_owners_alone(server: ServerFolder) -> None:
    assert stat.S_IMODE(server.path.stat().st_mode) == 0o700
    for path in (server.authority_key, server.key):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    server.key.chmod(0o640)
    with pytest.raises(SettingsError, match="mode 640"):
        server_command(server, fleet="0.0.0.0:9092")


def test_a_servers_own_certificates_are_taken(server: ServerFolder, tmp_path: Path) -> None:
    own = (server.authority, server.certificate, server.key)
    second = init_server(tmp_path / "second", (), control="127.0.0.1:18001", own=own)
    shake(second, second.authority, "localhost")
    assert second.control == "127.0.0.1:18001" and not second.authority_key.exists()


def test_plain_text_stays_on_loopback(tmp_path: Path) -> None:
    server = init_server(tmp_path / "server", (), control="127.0.0.1:18000", insecure=True)
    assert "--insecure" in server_command(server, fleet="127.0.0.1:9092")
    with pytest.raises(SettingsError, match=r"127\.0\.0\.1 only"):
        server_command(server, fleet="0.0.0.0:9092")


def test_a_folder_in_use_is_refused(server: ServerFolder, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="not empty"):
        init_server(server.path, ("localhost",), control="127.0.0.1:1")
    with pytest.raises(SettingsError, match="fedballot server init"):
        server_command(ServerFolder(tmp_path / "nothing"), fleet="127.0.0.1:1")


def test_ssh_keygen_reads_our_key(tmp_path: Path) -> None:
    public = pki.make_site_key(tmp_path / "site.key")
    pki.check_site_key(tmp_path / "site.key")
    done = subprocess.run(["ssh-keygen", "-y", "-f", tmp_path / "site.key"], capture_output=True, text=True, timeout=20)
    assert done.stdout.split()[:2] == public.read_text().split()[:2]


def test_other_keys_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    path.write_bytes(ed25519.Ed25519PrivateKey.generate().private_bytes(*form))
    with pytest.raises(SettingsError, match="elliptic-curve"):
        pki.check_site_key(path)
    path.write_text("nonsense")
    with pytest.raises(SettingsError, match="ssh-keygen -t ecdsa"):
        pki.check_site_key(path)
    with pytest.raises(SettingsError, match="not a PEM certificate"):
        pki.check_certificate(path)
