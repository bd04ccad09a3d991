"""Faults on real processes: nothing lost, nothing spent twice, clear words on both sides, and no hang."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from fedballot.core.errors import RunError
from fedballot.deploy import serverapp, submit
from fedballot.deploy.submit import Submitted
from fedballot.privacy.ledger import Ledger
from tests.deploy.harness import Federation, edit, says, wait_until

pytestmark = pytest.mark.slow
long = pytest.mark.skipif(not os.environ.get("FEDBALLOT_FAULTS"), reason="takes a minute: make test-faults")
LIMIT_S = 900  # of a test: a run that hangs is a failure


@pytest.fixture(autouse=True)
def healthy(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test hangs, and none leaves a fault behind."""

    def too_long(*_: Any) -> None:
        raise TimeoutError(f"the test hangs: not done after {LIMIT_S} s")

    monkeypatch.setattr(submit, "ASK_S", 3.0)
    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LIMIT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    for number in range(3):
        federation.fault(number, None)


@pytest.fixture
def seen(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Notes what was seen, and after how many seconds since the last note."""
    clock = [time.monotonic()]

    def note(what: str) -> None:
        now = time.monotonic()
        if what:
            record_property("seen", f"{what} after {now - clock[0]:.0f} s")
        clock[0] = now

    return note


@contextlib.contextmanager
def training(federation: Federation, name: str) -> Iterator[Submitted]:
    """A run while site 1 trains; what then happens must not lose or spend anything: ``--resume`` finishes it.

    The two other sites get the same request twice, and give the same bytes for one charge.
    """
    began, charged = federation.fault(1, "hold"), federation.all_charges()
    run = federation.begin(name, min_clients=3)
    wait_until("training", began.exists, 300)
    for number in (0, 2):
        wait_until("a ballot", lambda n=number: federation.charges(n) == charged[n] + 1, 200)
    yield run
    released = federation.releases()
    federation.fault(1, None)
    result = federation.run(name, resume=True, min_clients=3)
    assert result["clients"]["answered"] == 3
    assert federation.all_charges() == [count + 1 for count in charged]
    now = federation.releases()
    assert all(now[path] == content for path, content in released.items())


def kill_server_app(federation: Federation) -> None:
    """Kill -9 the server app, which the server's warm process has forked."""
    under = psutil.Process(federation.processes.running["server"].pid).children()
    (app,) = next(one for one in under if serverapp.__name__ in one.cmdline()).children()
    app.kill()


def test_a_site_whose_training_raises_and_one_that_sends_200_mb(federation, seen):
    """The first answers blank, which is charged and looks like any other; the second is counted."""
    federation.fault(1, "raise")
    federation.fault(2, "huge 200000000")
    before = federation.charges(1)
    seen("")
    result = federation.run("bad", min_clients=1)
    seen("result")
    assert result["clients"]["rejected"] == {"shape": 1} and result["clients"]["answered"] == 2
    assert result["communication"]["bytes_up"] > 2e8
    assert federation.charges(1) == before + 1
    assert says(federation.processes.log("site1"), "failed, so its answer is blank, and charged")
    told = (federation.folder / "bad" / "result.json").read_text()
    logs = federation.processes.log("server").read_text() + federation.processes.log("site1").read_text()
    assert "Smith" not in told + logs
    assert any("Smith" in path.read_text() for path in federation.site(1).glob("state/runs/*/errors.txt"))


@long
def test_a_late_answer_and_the_same_request_twice(federation, seen):
    """The late answer is ignored; asked again, each site gives the bytes that it gave before, for one charge."""
    federation.fault(1, "hold")
    before, known = federation.all_charges(), len(federation.releases())
    result = federation.run("late", min_clients=2, round_timeout_s=federation.patience)
    seen("result without the late site")
    assert result["clients"]["answered"] == 2 and result["clients"]["rejected"] == {"no answer": 1}
    federation.fault(1, None)
    wait_until("the late release", lambda: len(federation.releases()) == known + 3, 200)
    assert federation.charges(1) == before[1] + 1
    released = federation.releases()
    again = federation.run("late", resume=True, min_clients=2, round_timeout_s=2 * federation.patience)
    assert again["clients"]["answered"] == 3
    assert federation.all_charges() == [count + 1 for count in before]
    assert federation.releases() == released


@long
def test_a_site_killed_while_training(federation, seen):
    """The last of ``min_clients`` dies: an error in words; with its key it comes back, and the run goes on."""
    with training(federation, "killed") as run:
        seen("")
        federation.processes.kill("site1")
        federation.start_site(1)
        seen("connected again")
        with pytest.raises(RunError) as told:
            federation.end(run)
        seen("and the error")
        for words in ("only 2 of 3 clients gave a good answer", "no answer: 1", "Node Unavailable"):
            assert words in str(told.value)


@long
def test_the_server_app_killed(federation, seen):
    with training(federation, "app") as run:
        seen("")
        kill_server_app(federation)
        with pytest.raises(RunError, match=r"without a result \(failed: .*--resume"):
            federation.end(run)
        seen("error")


@long
def test_the_server_killed(federation, seen):
    with training(federation, "link") as run:
        seen("")
        federation.processes.kill("server")
        federation.start_server()
        seen("SuperLink again")
        federation.fault(1, None)
        try:  # Flower has been seen to end such a run; whether it does or goes on with it, it must do one of them
            federation.end(run)
            seen("the run went on")
        except RunError as told:
            assert "without a result" in str(told) or "stopped before the run was done" in str(told)
            seen("and the run ended as failed")


@long
def test_a_site_that_is_down_at_the_start(federation, seen):
    federation.processes.kill("site1", signal.SIGTERM)
    try:
        seen("")
        result = federation.run("down", min_clients=2, round_timeout_s=federation.patience)
        seen("result")
        assert result["clients"] == {"asked": 2, "answered": 2, "rejected": {}, "first_details": {}}
        with pytest.raises(RunError, match="2 clients are connected, but clients=3 and at least 3 must answer"):
            federation.run("alone", min_clients=3, round_timeout_s=5)
    finally:
        federation.start_site(1)


@long
def test_a_full_disk(federation, small_disk, seen):
    full, before = federation.site(1) / "site.toml", federation.all_charges()
    small_disk(federation.site(1) / "disk")
    edit(full, ledger="disk/ledger", population="others")
    try:
        result = federation.run("full", min_clients=2)
        rejected = result["clients"]["rejected"]
        seen(f"{rejected} {result['clients']['first_details']}")
        assert sum(rejected.values()) == 1 and set(rejected) <= {"raised", "site"}
        assert federation.all_charges() == [before[0] + 1, before[1], before[2] + 1]
    finally:
        edit(full, ledger="ledger", population="site 1")
    again = federation.run("full", resume=True, min_clients=2)
    assert again["clients"]["answered"] == 3
    assert federation.all_charges() == [count + 1 for count in before]


@long
def test_a_ledger_at_its_limit_in_the_middle_of_a_run(federation, seen):
    """FedMD-LDP asks twice; site 2 can pay once: it answers the first round, refuses the second, the run goes on."""
    spent = federation.site(2) / "site.toml"
    for number in range(3):
        edit(federation.site(number) / "site.toml", methods=["fedmd-ldp"], ledger="second", population="others")
    edit(spent, epsilon=50.0)
    try:
        result = federation.run(
            "limit",
            method="fedmd-ldp",
            min_clients=2,
            epsilon=60,
            rounds=1,
            pretrain_epochs=0,
            queries=50,
            vote_fraction=None,
            secure_aggregation=None,
        )
        seen("result")
        assert [record["answered"] for record in result["rounds"]] == [3, 2]
        assert result["clients"]["rejected"] == {"budget": 1}
        ledgers = [Ledger(federation.site(number) / "second") for number in range(3)]
        assert 0 < ledgers[2].spent() <= 50 < ledgers[0].spent() <= 60
        assert says(federation.processes.log("site2"), "budget: the site's privacy budget does not allow this release")
    finally:
        edit(spent, epsilon=1000.0)
        for number in range(3):
            site = federation.site(number) / "site.toml"
            edit(site, methods=["pate-fl"], ledger="ledger", population=f"site {number}")


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
