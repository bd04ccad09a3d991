"""A server and three sites over gRPC with TLS and node authentication, on real digits; and who is not let in."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import time

import grpc
import pytest

from fedballot.core.errors import RunError
from fedballot.deploy.addresses import free_port
from fedballot.deploy.flower import command, environment, one_port
from fedballot.deploy.server import init_server
from tests.deploy.harness import edit, fedballot, says, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def before(federation):
    """How often each site's ledger had been charged before the run."""
    return federation.all_charges()


@pytest.fixture(scope="module")
def finished(federation, before):
    done = federation.submit("first", "--json")
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.smoke
def test_three_kinds_of_models_teach_the_server(federation, finished):
    result = federation.result("first")
    assert json.loads(finished.stdout) == result
    assert result["status"] == "done" and result["clients"]["answered"] == 3
    assert result["metrics"]["server_accuracy"] > 0.3
    assert result["guarantees"][0]["epsilon"] <= 40 and result["guarantees"][0]["status"] == "proved"
    assert (federation.folder / "first" / "report.html").exists()
    assert "round 1: clients: 3 of 3" in finished.stderr
    print("FIGURES", result["metrics"]["server_accuracy"], result["timing"])


@pytest.mark.smoke
def test_every_site_has_charged_its_own_ledger(federation, before, finished):
    assert federation.all_charges() == [count + 1 for count in before]
    for number in range(3):
        assert says(federation.processes.log(f"site{number}"), "epsilon spent so far")


def test_a_refusal_is_told_on_both_sides(federation, finished):
    with pytest.raises(RunError, match=r"policy: 3.*method 'standalone' is not allowed here"):
        unread = dict.fromkeys(("epsilon", "vote_fraction", "secure_aggregation", "server_model"))
        federation.run("alone", method="standalone", **unread)
    for number in range(3):
        assert says(federation.processes.log(f"site{number}"), "refused")
    assert federation.result("alone")["status"] == "failed"


@pytest.mark.smoke
def test_logs_hold_no_keys(federation, finished):
    logs = "".join(federation.processes.log(name).read_text() for name in ("server", "site0", "site1", "site2"))
    for path in (federation.server.key, *(federation.site(number) / "site.key" for number in range(3))):
        assert not any(line in logs for line in path.read_text().splitlines()[1:-1])


@pytest.mark.skipif(one_port(), reason="from Flower 1.40 on, sites speak HTTP")
def test_the_link_is_grpc_over_tls(federation):
    context = ssl.create_default_context(cafile=str(federation.server.authority))
    context.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection(("localhost", federation.fleet), 10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as link,
    ):
        assert (link.version(), link.selected_alpn_protocol()) == ("TLSv1.3", "h2")
    credentials = grpc.ssl_channel_credentials(federation.server.authority.read_bytes())
    with grpc.secure_channel(f"localhost:{federation.fleet}", credentials) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/flwr.proto.Fleet/PullMessages")(b"", timeout=10)
        assert caught.value.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNKNOWN)
        kinds = dict(caught.value.initial_metadata() or ())
        print("FIGURES gRPC", caught.value.code(), caught.value.details(), kinds)
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/flwr.proto.Fleet/NoSuchThing")(b"", timeout=10)
        assert caught.value.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNAUTHENTICATED)


def test_plain_http_gets_nothing(federation):
    with socket.create_connection(("localhost", federation.fleet), 10) as plain:
        plain.settimeout(10)
        plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            answer = plain.recv(1000)
        except ConnectionError:
            answer = b""
    assert not answer.startswith(b"HTTP/")


def refused(federation, name: str, *options: str, port: int) -> None:
    """Run a SuperNode without our command; it must not get in."""
    line = [command("flower-supernode"), "--superlink", f"localhost:{federation.fleet}", "--port", str(port), *options]
    log, began = federation.processes.log(name), time.monotonic()
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*line, "--max-retries", "1"],
            env=environment(federation.folder / name),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    federation.processes.running[name] = process
    try:
        assert process.wait(90) != 0
    finally:
        federation.processes.kill(name)
    reason = [line for line in log.read_text().splitlines() if "failed" in line or "code" in line]
    print(f"FAULT {name}: {time.monotonic() - began:.0f} s: {reason[:4]}")
    assert says(log, "Exit Code: 305") and not says(log, "SuperNode ID")


@pytest.mark.smoke
def test_a_key_that_was_not_added_is_refused(federation):
    place = federation.new_site("stranger", 0, "mlp")
    log = federation.processes.log("stranger")
    federation.processes.start("stranger", "site", "start", place / "site.toml")
    try:
        waited = wait_until("refusal", lambda: says(log, "the server refuses this site: its key was not added"), 90)
        print(f"FAULT stranger: {waited:.0f} s")
    finally:
        federation.processes.kill("stranger")
    assert not says(log, "SuperNode ID")


def test_no_key_is_refused(federation):
    place = federation.new_site("keyless", 0, "mlp")
    (place / "site.key").unlink()
    done = fedballot("site", "start", place / "site.toml")
    assert done.returncode == 2 and "site.key" in done.stderr
    refused(federation, "keyless", "--root-certificates", str(federation.server.authority), port=free_port())


def test_another_authority_is_refused_by_the_site(federation):
    place = federation.new_site("fooled", 0, "mlp")
    other = init_server(federation.folder / "other", ("localhost",), control="127.0.0.1:1")
    edit(place / "site.toml", ca=str(other.authority))
    federation.processes.start("fooled", "site", "start", place / "site.toml")
    try:
        wait_until("refusal", lambda: says(federation.processes.log("fooled"), "CERTIFICATE_VERIFY_FAILED"), 40)
    finally:
        federation.processes.kill("fooled")
    assert not says(federation.processes.log("fooled"), "SuperNode ID")


def test_plain_text_is_refused_by_both(federation):
    place = federation.new_site("plain", 0, "mlp")
    edit(place / "site.toml", server=f"192.0.2.1:{federation.fleet}")
    done = fedballot("site", "start", place / "site.toml", "--insecure")
    assert done.returncode == 2 and "plain text is for 127.0.0.1 only" in done.stderr
    refused(federation, "plain", "--insecure", port=free_port())


def test_the_control_api_is_on_loopback_only(federation):
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1"}:
        with socket.socket() as probe:
            probe.settimeout(2)
            assert probe.connect_ex((str(address), federation.control)) != 0 or str(address).startswith("127.")
    assert os.stat(federation.server.path).st_mode & 0o077 == 0
