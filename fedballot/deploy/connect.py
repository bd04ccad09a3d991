"""``fedballot site check --connect``: whether the server can be reached, is who it should be, and knows this site."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedballot.core.errors import FedballotError, RunError
from fedballot.deploy.addresses import check_name
from fedballot.deploy.check import Finding
from fedballot.deploy.flower import one_port
from fedballot.deploy.renewal import WARN_DAYS
from fedballot.deploy.site_file import Site

if TYPE_CHECKING:
    import grpc

REACH_S = 10.0
NOT_LOOKED = "not looked at: see above"


def check_connection(site: Site) -> list[Finding]:
    """Look up the server's name, open its port, shake hands in TLS, and show it the site's key.

    The key is shown by connecting as the site's SuperNode does, and leaving at once.
    """
    host, _, port = site.server.rpartition(":")
    host = host.strip("[]")
    looks: list[tuple[str, Callable[[], str]]] = [
        ("server's name", lambda: check_name(site.server)),
        ("server's port", lambda: _reach(host, int(port))),
        ("server's certificate", lambda: _shake(site, host, int(port))),
        ("clock and key", lambda: _introduce(site)),
    ]
    findings: list[Finding] = []
    for what, look in looks:
        if any(finding.good is False for finding in findings):
            findings.append(Finding(what, None, NOT_LOOKED))
            continue
        try:
            findings.append(Finding(what, True, look()))
        except FedballotError as error:
            findings.append(Finding(what, False, str(error)))
    return findings


def connected_file(site: Site) -> Path:
    """There while this site's SuperNode is connected; holds the number of the process that keeps it."""
    return site.state / "connected"


def connected_process(site: Site) -> int | None:
    """The process of this site's SuperNode, if it was let in and lives."""
    try:
        process = int(connected_file(site).read_text())
    except (OSError, ValueError):
        return None
    return process if psutil.pid_exists(process) else None


def _reach(host: str, port: int) -> str:
    try:
        with socket.create_connection((host, port), REACH_S):
            return f"port {port} is open"
    except OSError as error:
        raise RunError(
            f"port {port} of {host}: {error.strerror or error}; see that the server runs (`fedballot server start`), "
            "and that no firewall between keeps this machine from connecting to it"
        ) from error


def _shake(site: Site, host: str, port: int) -> str:
    context = ssl.create_default_context(cafile=str(site.ca))
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((host, port), REACH_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as link,
        ):
            content = link.getpeercert(binary_form=True)
    except ssl.SSLCertVerificationError as error:
        raise RunError(
            f"{host}:{port} shows a certificate that is not good here: {error.verify_message}. If it is this "
            f"federation's server, get its new ca.crt for {site.ca}; if its name or date is wrong, it needs "
            "`fedballot server renew`"
        ) from error
    except (ssl.SSLError, OSError) as error:
        raise RunError(f"{host}:{port} does not speak TLS: {error}; is it the server's Fleet API?") from error
    ends = x509.load_der_x509_certificate(content or b"").not_valid_after_utc
    days = (ends - datetime.now(UTC)).days
    late = f"; ends in {days} days: the server needs `fedballot server renew`" if days < WARN_DAYS else ""
    return f"of this federation's authority, for {host}, valid to {ends:%Y-%m-%d}{late}"


def _introduce(site: Site) -> str:
    if one_port():
        return "not looked at with this version of Flower; the SuperNode's first words say it"
    import grpc
    from flwr.client.grpc_rere_client.node_auth_client_interceptor import NodeAuthClientInterceptor
    from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL
    from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest
    from flwr.proto.fleet_pb2_grpc import FleetStub
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    key = serialization.load_ssh_private_key(site.key.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise RunError(f"{site.key}: see above")
    credentials = grpc.ssl_channel_credentials(site.ca.read_bytes())
    with grpc.secure_channel(site.server, credentials) as channel:
        stub = FleetStub(grpc.intercept_channel(channel, NodeAuthClientInterceptor(key, key.public_key())))
        shown = public_key_to_bytes(key.public_key())
        try:
            answer = stub.ActivateNode(
                ActivateNodeRequest(public_key=shown, heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL), timeout=REACH_S
            )
            stub.DeactivateNode(DeactivateNodeRequest(node_id=answer.node_id), timeout=REACH_S)
        except grpc.RpcError as error:
            if (process := connected_process(site)) and "timestamp" not in str(error.details()):
                return (
                    f"this site's SuperNode is connected (process {process}), so its key is known and the clocks agree"
                )
            raise RunError(_refusal(site, error)) from error
    return "the server knows this site's key, and both clocks agree"


def _refusal(site: Site, error: grpc.RpcError) -> str:
    import grpc

    code, details = error.code(), str(error.details())
    if "timestamp" in details:
        return (
            f"the server's clock and this machine's ({datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC) differ by more than "
            "Flower bears (5 s ahead, 5 minutes behind): set both by NTP"
        )
    if code in (
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
    ):
        return (
            "the server does not let this key in: have it added there with `fedballot server add-site DIR NAME "
            f"{site.key.name}.pub`; or a SuperNode runs with it on another machine"
        )
    return f"the server answers {code.name}: {details}"
