"""The federation's server: its folder with certificates, its SuperLink, and the sites it lets in."""

from __future__ import annotations

import os
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from fedballot.core.errors import SettingsError
from fedballot.deploy import pki
from fedballot.deploy.flower import CONNECTION, ask, command, environment, one_port
from fedballot.deploy.node import is_loopback
from fedballot.deploy.site_file import check_private
from fedballot.privacy.ledger.heads import FILE

FLEET_PORT, CONTROL_PORT = 9092, 18000


@dataclass(frozen=True)
class ServerFolder:
    """The server's folder.

    ``ca.crt`` (for the sites), ``ca.key``, ``server.crt``, ``server.key``, ``state.db`` (Flower's database),
    ``ledger-heads.json`` (by which sites notice that their ledger is an older one), and ``flwr/config.toml`` (where the
    Control API is).
    """

    path: Path

    @property
    def authority(self) -> Path:
        return self.path / "ca.crt"

    @property
    def authority_key(self) -> Path:
        return self.path / "ca.key"

    @property
    def certificate(self) -> Path:
        return self.path / "server.crt"

    @property
    def key(self) -> Path:
        return self.path / "server.key"

    @property
    def database(self) -> Path:
        return self.path / "state.db"

    @property
    def heads(self) -> Path:
        return self.path / FILE

    @property
    def home(self) -> Path:
        """Flower's home on the server."""
        return self.path / "flwr"

    @property
    def control(self) -> str:
        """HOST:PORT of the Control API.

        Raises
        ------
        SettingsError
            If the folder was not made by `fedballot server init`.
        """
        record = self.home / "config.toml"
        try:
            return str(tomllib.loads(record.read_text())["superlink"][CONNECTION]["address"])
        except (OSError, KeyError, TypeError, tomllib.TOMLDecodeError) as error:
            raise SettingsError(f"{self.path}: no server's folder; run: fedballot server init {self.path}") from error


def init_server(
    folder: Path,
    hosts: tuple[str, ...],
    *,
    control: str,
    own: tuple[Path, Path, Path] | None = None,
    insecure: bool = False,
) -> ServerFolder:
    """Make a server's folder.

    Parameters
    ----------
    folder
        Must be new or empty.
    hosts
        Names and addresses by which sites reach the server; loopback is always added.
    control
        HOST:PORT of the Control API, through which runs are submitted and sites let in; it should be on loopback, since
        whoever reaches it may do both.
    own
        Certificate authority, server certificate and server key to use (PEM) in place of new ones.
    insecure
        No certificates at all, for plain text on loopback.

    Raises
    ------
    SettingsError
        If the folder is not empty, or the given files cannot be used.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SettingsError(f"{folder}: exists and is not empty; name a new folder")
    server = ServerFolder(folder.absolute())
    server.home.mkdir(parents=True)
    server.path.chmod(0o700)
    connection = [f"[superlink.{CONNECTION}]", f'address = "{control}"']
    if insecure:
        connection.append("insecure = true")
    elif own is None:
        pki.make_authority(server.authority, server.authority_key)
        names = tuple(dict.fromkeys((*hosts, "localhost", "127.0.0.1")))
        pki.make_server_certificate(server.authority, server.authority_key, names, server.certificate, server.key)
    else:
        authority, certificate, key = own
        for path in (authority, certificate):
            pki.check_certificate(path)
        check_private(key)
        server.authority.write_bytes(authority.read_bytes())
        server.certificate.write_bytes(certificate.read_bytes())
        pki.write_private(server.key, key.read_bytes())
    if not insecure:
        connection.append(f'root-certificates = "{server.authority}"')
    (server.home / "config.toml").write_text("\n".join([*connection, ""]))
    return server


def server_command(server: ServerFolder, *, fleet: str) -> list[str]:
    """The command line of the SuperLink; sites connect to ``fleet`` (HOST:PORT).

    Raises
    ------
    SettingsError
        If the folder is no server's, its key is open to others, or plain text would leave the machine.
    """
    host, _, port = server.control.rpartition(":")
    line = [command("flower-superlink"), "--host", host, "--port", port, "--database", str(server.database)]
    line.append("--disable-runtime-dependency-installation")
    if one_port():
        if fleet != server.control:
            raise SettingsError(
                f"--fleet {fleet}: this version of Flower has one port for sites and control, which this folder has at "
                f"{server.control}; with Flower 1.39 they are apart, so that the network reaches the first only"
            )
    else:
        line += ["--fleet-api-type", "grpc-rere", "--fleet-api-address", fleet]
    if server.certificate.exists():
        check_private(server.key)
        line += ["--ssl-ca-certfile", str(server.authority), "--ssl-certfile", str(server.certificate)]
        return [*line, "--ssl-keyfile", str(server.key), "--enable-supernode-auth"]
    if not (is_loopback(fleet) and is_loopback(server.control)):
        raise SettingsError(
            f"{server.path} has no certificates, so the server may listen on 127.0.0.1 only, not on {fleet}; "
            "`fedballot server init` without --insecure makes them"
        )
    return [*line, "--insecure"]


def start_server(server: ServerFolder, *, fleet: str) -> None:
    """Become the SuperLink; does not return."""
    line = server_command(server, fleet=fleet)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(line[0], line, environment(server.home))


def add_site(server: ServerFolder, public_key: Path) -> int:
    """Let the site with this public key in; the server must be running. Returns Flower's number of the node.

    Raises
    ------
    SettingsError
        If there is no such file.
    RunError
        If the server does not answer or refuses.
    """
    if not public_key.exists():
        raise SettingsError(f"{public_key}: no such file; expected the public key that `fedballot site init` wrote")
    _ = server.control
    return int(ask(server.home, "supernode", "register", str(public_key.absolute()))["node-id"])
