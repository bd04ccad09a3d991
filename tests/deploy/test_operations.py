"""Running a federation for long, on real processes: what dies, who is let in, which runs there are."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest
from sklearn.datasets import load_digits

from fedballot.deploy.addresses import free_port
from fedballot.deploy.connect import check_connection
from fedballot.deploy.renewal import renew_authority, renew_certificate, renew_site_key
from fedballot.deploy.site_file import read_site
from fedballot.model import load
from tests.deploy.harness import Federation, edit, fedballot, listens, says, wait_until

pytestmark = pytest.mark.slow


def starter(process: subprocess.Popen[bytes]) -> psutil.Process | None:
    """The `flower-superexec` under a command of ours."""
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any("superexec" in word for word in child.cmdline()[:3]):
                return child
    return None


def command_lines(processes: Iterable[psutil.Process]) -> list[list[str]]:
    """Of those that live."""
    lines = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            lines.append(process.cmdline())
    return lines


def kill_starter(federation: Federation, name: str) -> int:
    """Kill it as the kernel does when memory is short; returns the exit code of the command above it."""
    process = federation.processes.running[name]
    wait_until("flower-superexec", lambda: starter(process) is not None, 60)
    time.sleep(2)  # so that the one that looks after it has seen it
    found = starter(process)
    assert found is not None
    found.kill()
    return process.wait(timeout=60)


def test_a_site_whose_starter_dies_ends_with_an_error(federation: Federation) -> None:
    assert kill_starter(federation, "site0") == 1
    assert says(federation.processes.log("site0"), "flower-superexec, which starts the apps, has died")
    federation.processes.kill("site0")
    federation.start_site(0)


def test_a_server_whose_starter_dies_ends_with_an_error(federation: Federation) -> None:
    assert kill_starter(federation, "server") == 1
    assert says(federation.processes.log("server"), "flower-superexec, which starts the apps, has died")
    federation.processes.kill("server")
    federation.start_server()
    wait_until("sites", lambda: set(federation.statuses().values()) == {"online"}, 120, pause=3)


def test_a_second_server_on_the_same_port_is_told_so(federation: Federation) -> None:
    done = fedballot("server", "start", federation.server.path, "--fleet", f"127.0.0.1:{federation.fleet}")
    assert done.returncode == 1 and "cannot listen there" in done.stderr and "Traceback" not in done.stderr


def test_sites_have_names(federation: Federation) -> None:
    def told() -> dict[str, str]:
        done = fedballot("server", "sites", federation.server.path, "--json")
        return {site["name"]: site["status"] for site in json.loads(done.stdout)} if done.returncode == 0 else {}

    # "online" lasts as long as a site last said it would: that of a killed one ends before the new one has called
    wait_until("sites", lambda: told() == {f"site{number}": "online" for number in range(3)}, 120, pause=3)
    again = fedballot("server", "add-site", federation.server.path, "site9", federation.site(0) / "site.key.pub")
    assert again.returncode == 2 and "is the key of site0" in again.stderr
    unknown = fedballot("server", "remove-site", federation.server.path, "site8")
    assert unknown.returncode == 2 and "no site 'site8'" in unknown.stderr


def renew_key(federation: Federation, number: int) -> None:
    for name in ("site.key.old", "site.key.pub.old"):
        (federation.site(number) / name).unlink(missing_ok=True)
    renew_site_key(read_site(federation.site(number) / "site.toml"))


def test_a_new_key_takes_the_place_of_the_old_one_and_a_site_that_was_removed_can_come_back(
    federation: Federation,
) -> None:
    site = read_site(federation.site(2) / "site.toml")
    federation.processes.kill("site2", signal.SIGTERM)
    renew_key(federation, 2)
    federation.add_site("site2")
    assert all(finding.good for finding in check_connection(site)), check_connection(site)
    done = fedballot("server", "remove-site", federation.server.path, "site2")
    assert done.returncode == 0, done.stderr
    finding = check_connection(site)[-1]
    assert finding.good is False and "does not let this key in" in finding.words
    renew_key(federation, 2)
    federation.add_site("site2")
    assert all(finding.good for finding in check_connection(site)), check_connection(site)
    federation.start_site(2)
    wait_until("sites", lambda: set(federation.statuses().values()) == {"online"}, 60, pause=3)


def test_site_check_with_the_network(federation: Federation, tmp_path: Path) -> None:
    done = fedballot("site", "check", federation.site(0) / "site.toml", "--connect", "--json")
    found = {one["what"]: one for one in json.loads(done.stdout)}
    assert "valid to" in found["server's certificate"]["words"]
    assert done.returncode == 0 and "SuperNode is connected" in found["clock and key"]["words"]
    elsewhere = tmp_path / "site.toml"
    text = (federation.site(0) / "site.toml").read_text()
    elsewhere.write_text(text)
    for name in ("site.key", "ca.crt"):
        (tmp_path / name).write_bytes((federation.site(0) / name).read_bytes())
    for server, what, words in (
        ("no-such-host.invalid:9092", "server's name", "cannot be looked up in DNS"),
        ("localhost:1", "server's port", "Connection refused"),
        (f"localhost:{federation.control}", "server's certificate", "valid to"),
    ):
        edit(elsewhere, server=server)
        finding = next(one for one in check_connection(read_site(elsewhere)) if one.what == what)
        assert words in finding.words and finding.good is ("valid" in words)


def test_a_name_that_cannot_be_looked_up_ends_the_site(federation: Federation, tmp_path: Path) -> None:
    place = federation.new_site("lost", 0, "logistic-regression")
    edit(place / "site.toml", server="no-such-host.invalid:9092")
    done = fedballot("site", "start", place / "site.toml")
    assert done.returncode == 1 and "cannot be looked up in DNS" in done.stderr


def test_no_token_stands_on_a_command_line(federation: Federation) -> None:
    began = federation.fault(0, "hold")
    run = federation.begin("tokens")
    wait_until("training", began.exists, 120)
    lines = []
    for name in ("server", "site0"):
        lines += command_lines(psutil.Process(federation.processes.running[name].pid).children(recursive=True))
    federation.fault(0, None)
    assert federation.end(run)["clients"]["answered"] == 3
    apps = [line for line in lines if any("handover" in word for word in line)]
    assert len(apps) == 2, lines
    assert not any("--token" in line for line in lines)


def test_runs_are_listed_stopped_and_joined(federation: Federation) -> None:
    began = federation.fault(0, "hold")
    line = [sys.executable, "-m", "fedballot.cli", *map(str, federation.arguments(federation.folder / "watched"))]
    first = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_until("training", began.exists, 120)
    first.kill()  # whoever submitted it is gone; the run goes on
    first.wait()
    done = fedballot("server", "runs", federation.server.path, "--json")
    run = json.loads(done.stdout)[0]
    assert (run["method"], run["status"], run["epsilon"]) == ("pate-fl", "running", 40)
    assert run["out"] == str(federation.folder / "watched")
    second = subprocess.Popen([*line, "--resume"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert second.stderr
    words = second.stderr.readline()
    assert f"run {run['run_id']}, which the server has already, {run['request']} at the sites" in words
    (asked, *_) = json.loads(fedballot("site", "requests", federation.site(0) / "site.toml", "--json").stdout)
    assert asked["run"] == run["request"]
    stopped = fedballot("server", "stop", federation.server.path, run["run_id"])
    assert stopped.returncode == 0, stopped.stderr
    assert second.wait(timeout=90) == 1
    again = fedballot("server", "stop", federation.server.path, run["run_id"])
    assert again.returncode == 2 and "has ended" in again.stderr
    federation.fault(0, None)
    done = federation.submit("watched", "--resume")
    assert done.returncode == 0, done.stderr


def test_two_that_take_up_a_run_at_once_share_one_and_hear_why_it_fails_again(federation: Federation) -> None:
    unread = dict.fromkeys(("epsilon", "vote_fraction", "secure_aggregation", "server_model"))
    arguments = federation.arguments(federation.folder / "refused", "standalone", **unread)
    line = [sys.executable, "-m", "fedballot.cli", *map(str, arguments)]
    first = subprocess.run(line, capture_output=True, text=True, timeout=240, check=False)
    assert first.returncode == 1 and "is not allowed here" in first.stderr
    both = [subprocess.Popen([*line, "--resume"], stderr=subprocess.PIPE, text=True) for _ in range(2)]
    words = [process.communicate(timeout=240)[1] for process in both]
    assert all("is not allowed here" in one for one in words), words
    assert sum("which the server has already" in one for one in words) == 1, words


def test_a_renewed_authority_and_certificate_reach_sites_one_by_one(federation: Federation) -> None:
    renew_authority(federation.server)
    (federation.site(0) / "ca.crt").write_bytes(federation.server.authority.read_bytes())
    (federation.site(1) / "ca.crt").write_bytes(federation.server.authority.read_bytes())
    renew_certificate(federation.server)
    for name in ("site0", "site1", "site2", "server"):
        federation.processes.kill(name, signal.SIGTERM)
    federation.start_server()
    federation.start_site(0)
    finding = check_connection(read_site(federation.site(2) / "site.toml"))[2]
    assert finding.good is False and "get its new ca.crt" in finding.words
    (federation.site(2) / "ca.crt").write_bytes(federation.server.authority.read_bytes())
    for number in (1, 2):
        federation.start_site(number)


def test_what_a_run_keeps_of_its_clients_is_the_owner_s_alone(federation: Federation) -> None:
    checkpoint = federation.folder / "watched" / "checkpoint.npz"
    assert checkpoint.stat().st_mode & 0o077 == 0


def test_try_federation_ends_with_a_result_and_leaves_nothing_running(tmp_path: Path) -> None:
    """A server and two sites start, answer under masks, and are ended."""
    done = fedballot("try-federation", tmp_path / "fed", "--sites", "2", "--no-stay", timeout=400)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "fed" / "runs" / "first" / "result.json").read_text())
    assert result["status"] == "done" and result["metrics"]["server_accuracy"] > 0.8
    first = result["guarantees"][0]
    assert (first["unit"], first["status"]) == ("record", "proved") and first["epsilon"] <= 1
    asked = json.loads(fedballot("site", "requests", tmp_path / "fed" / "site0" / "site.toml", "--json").stdout)
    assert asked[0]["purpose"] == "a first try" and asked[0]["decision"] == "by rule"
    assert [line for line in command_lines(psutil.process_iter()) if str(tmp_path / "fed") in " ".join(line)] == []
    digits = load_digits()
    said = load(tmp_path / "fed" / "runs" / "first").predict(digits.images.astype(np.uint8))
    assert (said == digits.target.astype(str)).mean() > 0.8  # the model learned from frozen features
    again = fedballot("try-federation", tmp_path / "fed")
    assert again.returncode == 2 and "is not empty" in again.stderr


def test_a_server_s_dashboard_shows_what_is_there(federation: Federation) -> None:
    port = free_port()
    federation.processes.start("page", "server", "dashboard", federation.server.path, "--listen", f"127.0.0.1:{port}")
    wait_until("page", lambda: listens(port), 60)
    page = httpx.get(f"http://127.0.0.1:{port}/", timeout=60).text
    for number in range(3):
        assert f">site{number}</th>" in page
    assert "3 of 3" in page and "watched" in page
    assert httpx.get(f"http://127.0.0.1:{port}/health", timeout=60).text == "ok"
    lines = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text
    assert 'fedballot_site_online{site="site1"} 1.0' in lines
    federation.processes.kill("page", signal.SIGTERM)
    done = fedballot("server", "status", federation.server.path)
    assert done.returncode == 0 and "3 of 3 connected" in done.stdout
