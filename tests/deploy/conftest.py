"""The federation that the tests of this folder share."""

from __future__ import annotations

import sys
import time
from functools import cache
from typing import Any

import pytest

from tests.deploy.harness import Federation, says, wait_until

_running: list[Federation] = []  # one, or none


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    """A running federation, shared by all tests of this folder; each test leaves it running and without faults."""
    if not _running:
        _running.append(Federation(tmp_path_factory.mktemp("federation")))
        try:
            _start(_running[0])
        except BaseException:
            _end()
            raise
    return _running[0]


def _start(federation: Federation) -> None:
    federation.start_server()
    for number in range(3):
        federation.add_site(f"site{number}")
    began = time.monotonic()
    for number in range(3):
        federation.start_site(number, wait=False)
    for number in range(3):
        wait_until("site", lambda n=number: says(federation.processes.log(f"site{n}"), "SuperNode ID"), 300)
    federation.patience = max(federation.patience, 4 * (time.monotonic() - began))


def _end() -> None:
    while _running:
        _running.pop().processes.kill_all()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """End the federation where the next test does not ask for it: its processes poll, and take memory."""
    if "federation" not in getattr(nextitem, "fixturenames", ()):
        _end()


def pytest_sessionfinish() -> None:
    """Leave no process behind when tests are interrupted."""
    _end()


_reads: list[str] = []


@cache
def _watch() -> None:
    """Note which ledgers this process opens; an audit hook cannot be taken back, so there is one for all tests."""

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and str(arguments[0]).endswith("ledger.jsonl"):
            _reads.append(str(arguments[0]))

    sys.addaudithook(note)


@pytest.fixture
def reads() -> list[str]:
    """The ledgers that this process has opened, one entry each time; a new line comes as a file of another name."""
    _watch()
    _reads.clear()
    return _reads
