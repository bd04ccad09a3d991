"""Starting a site's SuperNode: Flower's own process, with the site's file, and a guard before the app bundle."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from fedballot.core.errors import RunError, SettingsError
from fedballot.datasets.readers.tables import is_table
from fedballot.deploy import clientapp
from fedballot.deploy.addresses import check_name, free_port, is_loopback
from fedballot.deploy.app_process import warm_apps
from fedballot.deploy.connect import connected_file
from fedballot.deploy.flower import command
from fedballot.deploy.site_file import Site
from fedballot.deploy.supervise import Log, run_supervised
from fedballot.learners.registry import modules_of
from fedballot.methods.registry import all_methods

REFUSED_S = 150.0  # a server notices a killed SuperNode after about a minute
AGAIN_S = 5.0
APP_MODULES = ("flwr.supernode.cli.flwr_clientapp", "fedballot.apps.client_app", "fedballot.deploy.client")
TABLE_MODULES = ("pandas", "sklearn.compose", "sklearn.impute", "sklearn.preprocessing")
CONNECTED = b"SuperNode ID"  # and to one that is let in
THERE_ALREADY = b"Failed to activate SuperNode"  # Flower's words to a second SuperNode with the same key


def node_command(site: Site, *, insecure: bool, port: int) -> list[str]:
    """The command line of the site's SuperNode.

    Parameters
    ----------
    site
        As read from its file.
    insecure
        Plain text and no authentication; on loopback only.
    port
        Of the node's own interface to its app processes, on 127.0.0.1.

    Raises
    ------
    SettingsError
        If plain text would leave the machine.
    """
    line = [command("flower-supernode"), "--superlink", site.server, "--port", str(port)]
    line += ["--node-config", f"site={_quoted(site.path)} partition-id={site.number}"]
    if not insecure:
        return [*line, "--root-certificates", str(site.ca), "--auth-supernode-private-key", str(site.key)]
    if not is_loopback(site.server):
        raise SettingsError(
            f"--insecure: {site.server} is another machine; plain text is for 127.0.0.1 only, so leave the option out"
        )
    return [*line, "--insecure"]


def _quoted(path: Path) -> str:
    if '"' in str(path):
        raise SettingsError(f"{path}: a quotation mark in the path; Flower cannot take it, so rename the folder")
    return f'"{path}"'


def start_node(site: Site, *, insecure: bool, port: int | None, log: Log = "text") -> int:
    """Run the site's SuperNode until it is stopped; returns its exit code.

    A server that has not yet noticed that this site's last SuperNode was killed refuses the new one, for about a
    minute, in the same words as one that does not know its key. So it is started again until :data:`REFUSED_S` have
    passed.

    Raises
    ------
    SettingsError
        If plain text would leave the machine.
    RunError
        If the server's name cannot be looked up, the server refuses the site for longer, or the process that starts
        the apps has died.
    """
    line = node_command(site, insecure=insecure, port=port or free_port())
    check_name(site.server)  # Flower tries for ever, without a word on DNS
    os.umask(0o077)  # models and ledger are for the owner alone
    site.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    guard = site.state / "bin"
    guard.mkdir(exist_ok=True)
    home = site.state / "flwr"
    home.mkdir(exist_ok=True)
    with warm_apps(guard, "flwr-clientapp", clientapp.__name__, app_modules(site), home) as env:
        return _run_until_let_in(site, line, env, log)


def _run_until_let_in(site: Site, line: list[str], env: dict[str, str], log: Log) -> int:
    deadline = time.monotonic() + REFUSED_S
    while True:
        refused = threading.Event()

        def hear(output: bytes, refused: threading.Event = refused) -> None:
            if THERE_ALREADY in output:
                refused.set()
            if CONNECTED in output:
                connected_file(site).write_text(str(os.getpid()))

        try:
            code = run_supervised(line, env, hear=hear, log=log)
        finally:
            connected_file(site).unlink(missing_ok=True)
        if code == 0 or not refused.is_set():
            return code
        if time.monotonic() > deadline:
            raise RunError(
                f"{site.server} has refused this site for {REFUSED_S:g} s: let its key in with `fedballot server "
                f"add-site DIR NAME {site.key.name}.pub`, and see that no other SuperNode runs with it"
            )
        print(
            "the server refuses this site: its key was not added there, or its last SuperNode was killed and still "
            f"counts as connected; trying again in {AGAIN_S:g} s",
            flush=True,
        )
        time.sleep(AGAIN_S)


def app_modules(site: Site) -> list[str]:
    """What the site's apps import: Flower's app, the site's side, its model's library, what it may be asked for."""
    allowed = [method for name, method in all_methods().items() if name in site.allowed.methods]
    clients = {method.client.partition(":")[0] for method in allowed if isinstance(method.client, str)}
    tables = TABLE_MODULES if any(is_table(path) for path in (site.data.private, site.data.public)) else ()
    return [*APP_MODULES, *modules_of(site.model), *tables, *sorted(clients)]
