"""Host names and ports: what they are, whether they are free, whether they can be looked up."""

from __future__ import annotations

import ipaddress
import socket

from fedballot.core.errors import RunError, SettingsError


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


def check_name(server: str) -> str:
    """The addresses of a server, in words.

    Raises
    ------
    RunError
        If its name cannot be looked up.
    """
    host, _, port = server.rpartition(":")
    try:
        places = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        raise RunError(
            f"{host} cannot be looked up in DNS ({error.strerror or error}); see that `server` in the site's file is "
            "spelled as the certificate says, or ask those who run the network"
        ) from error
    return f"{host} is {', '.join(dict.fromkeys(str(place[4][0]) for place in places))}"


def check_free(option: str, address: str) -> None:
    """Refuse an address at which this machine cannot listen.

    Raises
    ------
    SettingsError
        If it is no HOST:PORT.
    RunError
        If the port is taken, or the host is not this machine.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise SettingsError(f"{option} {address}: expected HOST:PORT, such as 0.0.0.0:9092")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        raise RunError(
            f"{option} {address}: cannot listen there ({error.strerror or error}); end what uses it, or name another"
        ) from error
