"""Faults on real processes: nothing lost, nothing spent twice, clear words on both sides, and no hang."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from fedballot.privacy.ledger import Ledger
from tests.deploy.harness import edit, says, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("FEDBALLOT_FAULTS"), reason="takes minutes: set FEDBALLOT_FAULTS=1"),
]


@pytest.fixture(autouse=True)
def healthy(federation):
    yield
    for number in range(3):
        federation.fault(number, None)


def kill_server_app(federation) -> None:
    """Kill -9 the server app, which Flower starts in a session of its own."""
    home, found = f"FLWR_HOME={federation.server.home}".encode(), 0
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line, env = ((entry / name).read_bytes().split(b"\0") for name in ("cmdline", "environ"))
            if home in env and any(part.endswith(b"flwr-serverapp") for part in line):
                os.kill(int(entry.name), signal.SIGKILL)
                found += 1
    assert found


def test_a_site_whose_training_raises_is_counted_and_tells_no_data(federation):
    federation.fault(1, "raise")
    before = federation.charges(1)
    done = federation.submit("raises", min_agents=2)
    assert done.returncode == 0, done.stderr
    result = federation.result("raises")
    assert result["clients"]["rejected"] == {"raised": 1}
    assert result["clients"]["first_details"]["raised"].startswith("ValueError;")
    assert federation.charges(1) == before
    told = (federation.folder / "raises" / "result.json").read_text() + done.stdout + done.stderr
    logs = federation.processes.log("server").read_text() + federation.processes.log("site1").read_text()
    assert "Smith" not in told + logs
    assert any("Smith" in path.read_text() for path in federation.site(1).glob("state/runs/*/errors.txt"))


def test_an_answer_of_200_mb_is_refused_and_the_run_goes_on(federation):
    federation.fault(1, "huge 200000000")
    began = time.monotonic()
    done = federation.submit("huge", min_agents=2)
    print(f"FAULT huge: {time.monotonic() - began:.0f} s")
    assert done.returncode == 0, done.stderr
    result = federation.result("huge")
    assert result["clients"]["rejected"] == {"shape": 1} and result["communication"]["bytes_up"] > 2e8


def test_a_late_answer_is_ignored_and_charged_once(federation):
    federation.fault(1, "hold")
    before = federation.charges(1)
    done = federation.submit("late", min_agents=2, round_timeout_s=30)
    assert done.returncode == 0, done.stderr
    result = federation.result("late")
    assert result["clients"]["answered"] == 2 and result["clients"]["rejected"] == {"no answer": 1}
    print("FAULT late:", result["clients"]["first_details"], result["timing"])
    federation.fault(1, None)
    print(wait_until("the late charge", lambda: federation.charges(1) == before + 1, 90))
    again = federation.submit("late", "--resume", min_agents=2, round_timeout_s=60)
    assert again.returncode == 0, again.stderr
    assert federation.result("late")["clients"]["answered"] == 3
    assert federation.charges(1) == before + 1


def test_a_site_killed_while_training(federation):
    """The last of ``min_agents`` dies: an error in words; with its key it comes back, and the run goes on."""
    training, charged = federation.fault(1, "hold"), [federation.charges(number) for number in range(3)]
    run = federation.begin("killed", min_agents=3)
    wait_until("training", training.exists, 120)
    began = time.monotonic()
    federation.processes.kill("site1")
    back = federation.start_site(1)
    assert run.wait(200) == 1
    print(f"FAULT killed: connected again after {back:.0f} s, error after {time.monotonic() - began:.0f} s")
    for words in ("only 2 of 3 parties gave a good answer", "no answer: 1", "Node Unavailable"):
        assert words in federation.words("killed")
    assert federation.charges(1) == charged[1]
    federation.fault(1, None)
    resumed = federation.submit("killed", "--resume", min_agents=3)
    assert resumed.returncode == 0, resumed.stderr
    assert [federation.charges(number) for number in range(3)] == [count + 1 for count in charged]


def test_the_server_app_killed(federation):
    training, charged = federation.fault(1, "hold"), [federation.charges(number) for number in range(3)]
    run = federation.begin("app", min_agents=3)
    wait_until("training", training.exists, 120)
    began = time.monotonic()
    kill_server_app(federation)
    assert run.wait(200) == 1
    print(f"FAULT app: error after {time.monotonic() - began:.0f} s")
    assert "without a result (finished:failed)" in federation.words("app")
    federation.fault(1, None)
    done = federation.submit("app", "--resume", min_agents=3)
    assert done.returncode == 0, done.stderr
    assert [federation.charges(number) for number in range(3)] == [count + 1 for count in charged]


def test_the_server_killed(federation):
    training, charged = federation.fault(1, "hold"), [federation.charges(number) for number in range(3)]
    run = federation.begin("link", min_agents=3)
    wait_until("training", training.exists, 120)
    began = time.monotonic()
    federation.processes.kill("server")
    time.sleep(2)
    federation.start_server()
    federation.fault(1, None)
    # Flower may take the run up or end it; either way it says so, and nothing is charged twice
    code = run.wait(240)
    print(f"FAULT link: exit code {code} after {time.monotonic() - began:.0f} s")
    if code:
        words = federation.words("link")
        assert "the server app was stopped" in words or "without a result" in words
        done = federation.submit("link", "--resume", min_agents=3)
        assert done.returncode == 0, done.stderr
    assert federation.result("link")["clients"]["answered"] == 3
    assert [federation.charges(number) for number in range(3)] == [count + 1 for count in charged]


def test_a_site_that_is_down_at_the_start(federation):
    federation.processes.kill("site1", signal.SIGTERM)
    began = time.monotonic()
    try:
        done = federation.submit("down", min_agents=2, round_timeout_s=45)
        print(f"FAULT down: {time.monotonic() - began:.0f} s")
        assert done.returncode == 0, done.stderr
        assert federation.result("down")["clients"] | {"first_details": 0} == {
            "asked": 2,
            "answered": 2,
            "rejected": {},
            "first_details": 0,
        }
    finally:
        federation.start_site(1)


def test_a_full_disk_and_a_ledger_at_its_limit(federation, small_disk):
    full, spent = federation.site(1) / "site.toml", federation.site(2) / "site.toml"
    before = [federation.charges(number) for number in range(3)]
    budget = Ledger(federation.site(2) / "ledger").spent() + 1
    small_disk(federation.site(1) / "disk")
    edit(full, ledger="disk/ledger")
    edit(spent, epsilon=budget)
    try:
        done = federation.submit("full", min_agents=1)
        assert done.returncode == 0, done.stderr
        rejected = federation.result("full")["clients"]["rejected"]
        assert rejected.pop("budget") == 1 and sum(rejected.values()) == 1 and set(rejected) <= {"raised", "site"}
        assert says(federation.processes.log("site2"), "refused")
        assert [federation.charges(number) for number in range(3)] == [before[0] + 1, before[1], before[2]]
    finally:
        edit(full, ledger="ledger")
        edit(spent, epsilon=1000.0)
    again = federation.submit("full", "--resume", min_agents=1)
    assert again.returncode == 0, again.stderr
    assert federation.result("full")["clients"]["answered"] == 3
    assert [federation.charges(number) for number in range(3)] == [count + 1 for count in before]


@pytest.fixture
def small_disk():
    """Mounts a disk without room at a folder."""
    mounted = []

    def mount(folder: Path) -> None:
        folder.mkdir(mode=0o700)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=16k,mode=700", "none", folder], capture_output=True, timeout=20
        )
        if done.returncode:
            pytest.skip(f"mounting needs root: {done.stderr.decode().strip()}")
        mounted.append(folder)
        (folder / "ledger").mkdir(mode=0o700)
        with contextlib.suppress(OSError), (folder / "filler").open("wb") as stream:
            stream.write(bytes(1 << 20))

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", folder], check=True, timeout=20)
