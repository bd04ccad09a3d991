"""The demo's roles, `server`, `site NUMBER` and `run`: what people do by hand with `fedballot`, on real digits.

Volumes: /server (the server's own), /site (a site's own), /public (public data, ca.crt, public keys), /out (results).
With DEMO_INSECURE set, plain text on a loopback that all containers share; else TLS and node authentication.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

from fedballot.datasets.fingerprint import fingerprint
from fedballot.deploy.members import add_site
from fedballot.deploy.node import start_node
from fedballot.deploy.server import ServerFolder, init_server, start_server
from fedballot.deploy.site_file import read_site
from fedballot.deploy.template import fill_in, init_site
from fedballot.deploy.trial import METHOD, MODEL, PUBLIC, RUN, TEST, digits, site_values

INSECURE = bool(os.environ.get("DEMO_INSECURE"))
SITES, HOST, CONTROL = 3, "127.0.0.1" if INSECURE else "superlink", "127.0.0.1:18000"
SERVER, SITE, SHARED, OUT = Path("/server"), Path("/site/folder"), Path("/public"), Path("/out")
PUBLIC_DATA = SHARED / "public.npz"
OWN = 332  # records of each site; what is left of the 1,797 digits
LIMIT_S = 180.0


def wait_for(path: Path) -> None:
    """Wait until another container has put a file there."""
    deadline = time.monotonic() + LIMIT_S
    while not path.exists():
        if time.monotonic() > deadline:
            sys.exit(f"{path}: not there after {LIMIT_S:g} s; look at the other containers' logs")
        time.sleep(0.2)


def server() -> None:
    """Public data, certificates, SuperLink."""
    np.savez(PUBLIC_DATA, **digits(slice(PUBLIC + TEST)))
    folder = ServerFolder(SERVER)
    if not folder.home.exists():
        folder = init_server(SERVER, (HOST,), control=CONTROL, insecure=INSECURE)
    if not INSECURE:
        (SHARED / "ca.crt").write_bytes(folder.authority.read_bytes())
    code = start_server(folder, fleet=f"{'127.0.0.1' if INSECURE else '0.0.0.0'}:9092")
    sys.exit(code)


def site(number: int) -> None:
    """Own records, key and site.toml; ask to be let in; SuperNode."""
    key = SHARED / f"site{number}.pub"
    if not (SITE / "site.toml").exists():
        init_site(SITE, number=number, sites=SITES, server=f"{HOST}:9092")
        first = PUBLIC + TEST + OWN * number
        np.savez(SITE / "own.npz", **digits(slice(first, first + OWN)))
        print_ = fingerprint(digits(slice(PUBLIC + TEST))["x"])
        values = site_values(f"digits of site{number}", "own.npz", str(PUBLIC_DATA), print_)
        fill_in(SITE / "site.toml", {**values, "ca": str(SHARED / "ca.crt")})
    if not INSECURE:
        key.write_bytes((SITE / "site.key.pub").read_bytes())
        wait_for(key.with_suffix(".admitted"))
    sys.exit(start_node(read_site(SITE / "site.toml"), insecure=INSECURE, port=9500 + number))


def run() -> None:
    """Let the sites in, and submit one run."""
    folder = ServerFolder(SERVER)
    for number in range(0 if INSECURE else SITES):
        key = SHARED / f"site{number}.pub"
        wait_for(key)
        if not key.with_suffix(".admitted").exists():
            add_site(folder, f"site{number}", key)
            key.with_suffix(".admitted").touch()
    settings = {**RUN, "public_dataset": PUBLIC_DATA, "clients": SITES, "server_model": MODEL}
    pairs = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    out = OUT / time.strftime("%Y%m%d-%H%M%S")
    line = ["fedballot", "submit", METHOD, "--server", str(SERVER), "--out", str(out), *pairs]
    os.execvp(line[0], line)


if __name__ == "__main__":
    role, *rest = sys.argv[1:]
    if role == "site":
        site(int(rest[0]))
    else:
        {"server": server, "run": run}[role]()
