"""Units of systemd for a server and a site: started again after a failure, with no more rights than they need."""

from __future__ import annotations

import sys
from pathlib import Path

from fedballot.core.errors import SettingsError
from fedballot.deploy.server import ServerFolder
from fedballot.deploy.site_file import Site

UNIT = """\
# fedballot {who}; put it into /etc/systemd/system/{name}.service, then:
#   systemctl daemon-reload && systemctl enable --now {name}
[Unit]
Description=fedballot {who}
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=exec
User={user}
ExecStart={command}
Restart=on-failure
RestartSec=15
KillMode=mixed
TimeoutStopSec=30
UMask=0077
NoNewPrivileges=yes
PrivateTmp=yes
PrivateDevices={private_devices}
ProtectSystem=strict
ProtectHome=read-only
ProtectProc=invisible
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
ReadWritePaths={paths}

[Install]
WantedBy=multi-user.target
"""


def server_unit(server: ServerFolder, *, fleet: str, user: str, runs: Path) -> str:
    """The unit of a server, which writes its own folder and that of the runs.

    Raises
    ------
    SettingsError
        If the folder is no server's, or a path holds what systemd reads otherwise.
    """
    _ = server.control
    command = [sys.executable, "-m", "fedballot", "server", "start", str(server.path), "--fleet", fleet]
    return _unit("server", "fedballot-server", user, command, [server.path, runs.absolute()], private_devices=True)


def site_unit(site: Site, *, user: str) -> str:
    """The unit of a site, which writes its ledger and its state; it may use a GPU.

    Raises
    ------
    SettingsError
        If a path holds what systemd reads otherwise.
    """
    command = [sys.executable, "-m", "fedballot", "site", "start", str(site.path)]
    paths = [site.path.parent, site.budget.ledger, site.state]
    return _unit(f"site {site.number}", f"fedballot-site{site.number}", user, command, paths, private_devices=False)


def _unit(who: str, name: str, user: str, command: list[str], paths: list[Path], *, private_devices: bool) -> str:
    words = [*command, *map(str, paths), user]
    for word in words:
        if any(sign in word for sign in " \t\n\"'\\%$;"):
            raise SettingsError(f"{word!r}: systemd reads a blank, quote, %, $, ; or \\ otherwise; use another path")
    written = dict.fromkeys(map(str, paths))  # in order, each once
    return UNIT.format(
        who=who,
        name=name,
        user=user,
        command=" ".join(command),
        paths=" ".join(written),
        private_devices="yes" if private_devices else "no",
    )
