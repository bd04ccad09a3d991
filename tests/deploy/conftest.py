"""The federation that the tests of this folder share."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from tests.deploy.harness import Federation, says, wait_until


@pytest.fixture(scope="session")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """A running federation, shared by all tests of this folder; each test leaves it running and without faults."""
    running = Federation(tmp_path_factory.mktemp("federation"))
    try:
        running.start_server()
        for number in range(3):
            running.add_site(f"site{number}")
        began = time.monotonic()
        for number in range(3):
            running.start_site(number, wait=False)
        for number in range(3):
            wait_until("site", lambda n=number: says(running.processes.log(f"site{n}"), "SuperNode ID"), 300)
        running.patience = max(running.patience, 4 * (time.monotonic() - began))
        yield running
    finally:
        running.processes.kill_all()


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
