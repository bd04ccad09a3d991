"""Three hosts with addresses of their own, and a link that is cut for a while: it works beyond loopback."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedballot.deploy.server import init_server
from fedballot.deploy.template import init_site
from tests import namespaces
from tests.deploy.harness import FAULTY, RUN, Processes, edit, says, wait_until, write_data

HUB, SERVER, SITES = "fbhub", "fbserver", ("fbsite0", "fbsite1")
ADDRESS = {SERVER: "10.77.0.1", "fbsite0": "10.77.0.2", "fbsite1": "10.77.0.3"}


@pytest.fixture
def hosts() -> Iterator[None]:
    """A server and two sites, each in a network namespace, joined by a bridge in a fourth."""
    if reason := namespaces.why_not():
        pytest.skip(reason)
    namespaces.join(HUB, ADDRESS)
    try:
        yield
    finally:
        namespaces.clear(HUB, ADDRESS)


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("FEDBALLOT_FAULTS"), reason="takes a minute: make test-faults")
def test_three_hosts_and_a_link_that_is_cut(hosts: None, tmp_path: Path, record_property: Any) -> None:
    def within(host: str) -> tuple[str, ...]:
        return ("ip", "netns", "exec", host)

    processes = Processes(tmp_path)
    fingerprint = write_data(tmp_path)
    server = init_server(tmp_path / "server", (ADDRESS[SERVER],), control="127.0.0.1:18000")
    try:
        processes.start("server", "server", "start", server.path, within=within(SERVER))
        wait_until("SuperLink", lambda: _listens(SERVER), 200)
        for number, host in enumerate(SITES):
            place = tmp_path / host
            init_site(place, number=number, sites=2, server=f"{ADDRESS[SERVER]}:9092")
            edit(
                place / "site.toml",
                model="logistic-regression",
                private=str(tmp_path / f"own{number}.npz"),
                public=str(tmp_path / "public.npz"),
                public_fingerprint=fingerprint,
                ca=str(server.authority),
                epsilon=100.0,
                largest_epsilon=50.0,
                secure_aggregation=False,
            )
            joined = processes.start(
                f"add{number}", "server", "add-site", server.path, place / "site.key.pub", within=within(SERVER)
            )
            assert joined.wait(200) == 0, processes.log(f"add{number}").read_text()
            processes.start(
                host,
                *("site", "start", place / "site.toml"),
                env={**FAULTY, "FEDBALLOT_FAULT": str(tmp_path / host / "fault")},
                within=within(host),
            )
        for host in SITES:
            wait_until(host, lambda host=host: says(processes.log(host), "SuperNode ID"), 300)
        (tmp_path / SITES[1] / "fault").write_text("hold")
        chosen = {**RUN, "clients": 2, "public_dataset": tmp_path / "public.npz"}
        pairs = [word for key, value in chosen.items() for word in ("--set", f"{key}={value}")]
        arguments = ["submit", "pate-fl", "--server", server.path, "--out", tmp_path / "out", *pairs]
        run = processes.start("submit", *arguments, within=within(SERVER))
        wait_until("training", (tmp_path / SITES[1] / "fault.began").exists, 300)
        namespaces.ip("-n", HUB, "link", "set", SITES[1], "down")
        (tmp_path / SITES[1] / "fault").unlink()
        releases = tmp_path / SITES[1] / "ledger" / "releases"
        wait_until("the answer", lambda: any(releases.glob("*.npz")), 200)  # ready while the link is cut
        time.sleep(5)
        namespaces.ip("-n", HUB, "link", "set", SITES[1], "up")
        healed = time.monotonic()
        assert run.wait(300) == 0, processes.log("submit").read_text()
        record_property("seen", f"result {time.monotonic() - healed:.0f} s after the link was healed")
        assert '"answered": 2' in (tmp_path / "out" / "result.json").read_text()
    finally:
        processes.kill_all()


def _listens(host: str) -> bool:
    done = subprocess.run(["ip", "netns", "exec", host, "ss", "-ltn"], capture_output=True, text=True, timeout=10)
    return ":9092" in done.stdout and ":18000" in done.stdout
