"""Starting a site's SuperNode: Flower's own process, with the site's file, and a guard before the app bundle."""

from __future__ import annotations

import ipaddress
import os
import shlex
import socket
import sys
from pathlib import Path

from fedballot.deploy.flower import command, environment
from fedballot.deploy.site_file import Site
from fedballot.errors import SettingsError


def free_port() -> int:
    """A port on loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_loopback(address: str) -> bool:
    """Whether HOST:PORT is this machine itself."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
        raise SettingsError(f"{path}: a quotation mark in the path; Flower cannot be told of it, so rename the folder")
    return f'"{path}"'


def start_node(site: Site, *, insecure: bool, port: int | None) -> None:
    """Become the site's SuperNode; does not return.

    Raises
    ------
    SettingsError
        If plain text would leave the machine.
    """
    line = node_command(site, insecure=insecure, port=port or free_port())
    os.umask(0o077)  # models and ledger are for the owner alone
    site.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    guard = site.state / "bin"
    guard.mkdir(exist_ok=True)
    wrapper = guard / "flwr-clientapp"
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m fedballot.deploy.clientapp "$@"\n')
    wrapper.chmod(0o700)
    home = site.state / "flwr"
    home.mkdir(exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(line[0], line, environment(home, guard))
