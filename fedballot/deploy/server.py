"""The federation's server: its folder with certificates, its SuperLink, and the sites it lets in."""

from __future__ import annotations

import re
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

from fedballot.core.errors import SettingsError
from fedballot.deploy import pki, serverapp
from fedballot.deploy.addresses import check_free, is_loopback
from fedballot.deploy.app_process import warm_apps
from fedballot.deploy.flower import CONNECTION, command, one_port
from fedballot.deploy.modes import check_private
from fedballot.deploy.supervise import Log, run_supervised
from fedballot.learners.registry import modules_of
from fedballot.methods.registry import FAMILIES, all_methods
from fedballot.privacy.ledger.heads import FILE

FLEET_PORT, CONTROL_PORT = 9092, 18000
APP_MODULES = ("flwr.superlink.cli.flwr_serverapp", "fedballot.apps.server_app", "fedballot.runs.legacy_api")
OWN = re.compile(r"fedballot\.")  # what another package adds is imported where it is used


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


def open_server(folder: Path) -> ServerFolder:
    """The folder of a server, as commands are given it.

    Raises
    ------
    SettingsError
        If it was not made by `fedballot server init`; nothing is written into it then.
    """
    server = ServerFolder(folder.absolute())
    _ = server.control
    return server


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
    for name in hosts:
        pki.check_host(name)
    if own is not None:
        pki.check_pair(*own)
        check_private(own[2])
    server = ServerFolder(folder.absolute())
    existed = folder.exists()
    try:
        _fill(server, hosts, control, own, insecure=insecure)
    except BaseException:
        shutil.rmtree(server.path, ignore_errors=True)  # a half-made folder would be in the way of the next try
        if existed:
            server.path.mkdir(mode=0o700)
        raise
    return server


def _fill(
    server: ServerFolder,
    hosts: tuple[str, ...],
    control: str,
    own: tuple[Path, Path, Path] | None,
    *,
    insecure: bool,
) -> None:
    server.home.mkdir(parents=True)
    server.path.chmod(0o700)
    connection = [f"[superlink.{CONNECTION}]", f'address = "{control}"']
    if insecure:
        connection.append("insecure = true")
    else:
        connection.append(f'root-certificates = "{server.authority}"')
        if own is None:
            pki.make_authority(server.authority, server.authority_key)
            names = tuple(dict.fromkeys((*hosts, "localhost", "127.0.0.1")))
            pki.make_server_certificate(server.authority, server.authority_key, names, server.certificate, server.key)
        else:
            authority, certificate, key = own
            server.authority.write_bytes(authority.read_bytes())
            server.certificate.write_bytes(certificate.read_bytes())
            pki.write_private(server.key, key.read_bytes())
    (server.home / "config.toml").write_text("\n".join([*connection, ""]))


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


def start_server(server: ServerFolder, *, fleet: str, log: Log = "text") -> int:
    """Run the SuperLink until it is stopped; returns its exit code.

    Raises
    ------
    RunError
        If another process listens at one of its addresses, or the one that starts the server apps has died.
    """
    for option, address in (("--fleet", fleet), ("--control", server.control)):
        check_free(option, address)
    line = server_command(server, fleet=fleet)
    commands = server.path / "bin"
    commands.mkdir(mode=0o700, exist_ok=True)
    with warm_apps(commands, "flwr-serverapp", serverapp.__name__, app_modules(), server.home) as env:
        return run_supervised(line, env, log=log)


def app_modules() -> list[str]:
    """What the apps of runs import: Flower's app, ours, fedballot's own methods at the server, scikit-learn."""
    families = [f"fedballot.methods.{family}" for family in FAMILIES]
    sides = {str(method.strategy).partition(":")[0] for method in all_methods().values()}
    return [*APP_MODULES, *modules_of("logistic-regression"), *families, *sorted(filter(OWN.match, sides))]
