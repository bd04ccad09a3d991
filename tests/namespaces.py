"""Hosts with addresses of their own on this machine: network namespaces, joined by a bridge in one more."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


def why_not() -> str:
    """Why there can be none here; empty: there can."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "network namespaces need root and iproute2"
    try:
        clear("fbtry", {})
        ip("netns", "add", "fbtry")
    except subprocess.CalledProcessError as error:
        return f"no network namespaces here: {error.stderr.decode().strip()}"
    clear("fbtry", {})
    return ""


def join(hub: str, addresses: Mapping[str, str]) -> None:
    """Make a namespace of each name with its address, and the bridge; what an earlier run left goes.

    Raises
    ------
    subprocess.CalledProcessError
        If it cannot be done; nothing is left behind.
    """
    clear(hub, addresses)
    try:
        ip("netns", "add", hub)
        ip("-n", hub, "link", "add", "bridge", "type", "bridge")
        ip("-n", hub, "link", "set", "bridge", "up")
        for host, address in addresses.items():
            ip("netns", "add", host)
            ip("-n", hub, "link", "add", host, "type", "veth", "peer", "name", "eth0", "netns", host)
            ip("-n", hub, "link", "set", host, "master", "bridge", "up")
            ip("-n", host, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", host, "link", "set", "eth0", "up")
            ip("-n", host, "link", "set", "lo", "up")
    except subprocess.CalledProcessError:
        clear(hub, addresses)
        raise


def clear(hub: str, addresses: Mapping[str, str]) -> None:
    for name in (hub, *addresses):
        with contextlib.suppress(subprocess.CalledProcessError):
            ip("netns", "del", name)
