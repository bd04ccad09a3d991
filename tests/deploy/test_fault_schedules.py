"""Random schedules of kills and lost messages: never a second charge, never a wrong sum, always resumable."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from fedballot.core.errors import DataError
from fedballot.privacy.ledger import Ledger
from fedballot.privacy.ledger.ledger import _charge
from fedballot.strategies.summed import SummedStrategy
from tests.deploy import kills
from tests.deploy.schedules import Schedule
from tests.deploy.small_sites import write_world

FIXED = range(60)
MANY = int(os.environ.get("FEDBALLOT_SCHEDULES", "0"))
AGAIN = os.environ.get("FEDBALLOT_SCHEDULE")  # the seed of one that failed


def seeds() -> Sequence[int]:
    if AGAIN:
        return [int(AGAIN)]
    first = secrets.randbelow(10**9)
    return range(first, first + MANY) if MANY else FIXED


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("schedules")
    write_world(folder)
    kills.watch()
    level = logging.getLogger("flwr").level
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    yield folder
    logging.getLogger("flwr").setLevel(level)


def carry_out(world: Path, seed: int) -> Schedule:
    schedule = Schedule(world, seed)
    try:
        schedule.go()
    except Exception as error:
        error.add_note(f"FEDBALLOT_SCHEDULE={seed} pytest {__file__} repeats this schedule")
        raise
    finally:
        shutil.rmtree(schedule.place, ignore_errors=True)
    return schedule


@pytest.mark.slow
def test_whatever_dies_or_gets_lost_charges_and_sums_are_right_and_a_run_can_be_resumed(
    world: Path, record_property: Callable[[str, object], None]
) -> None:
    seen: Counter[str] = Counter()
    places: Counter[str] = Counter()
    began, tried = time.monotonic(), seeds()
    for seed in tried:
        schedule = carry_out(world, seed)
        seen.update(schedule.seen)
        places.update(schedule.reaper.places)
    count = sum(places.values())
    record_property(
        "seen",
        f"{len(tried)} schedules from seed {tried[0]} in {time.monotonic() - began:.0f} s, {count} kills: "
        f"{dict(sorted(seen.items()))}; kills by place: {dict(sorted(places.items()))}",
    )
    if not AGAIN:
        assert seen["sums and means compared"] > len(tried)
        assert seen["server killed"] and seen["site killed"] and seen["ended with an error"]


# the same schedules see faults that are put in on purpose


def charged_last(self: Ledger, admission: Any, draw: Callable[[], Any]) -> Any:
    """As :meth:`Ledger.answer` must not be: the charge comes when the release is there."""
    if self.read().sha256(admission.request) is None:
        self.releases.store(admission.request, draw())
        self.append(self.read(), _charge(admission))
        sha256 = self.releases.sha256(admission.request)
        self.append(self.read(), {"kind": "release", "request": admission.request, "sha256": sha256})
    return self.stored(admission.request)


def charged_again(self: Ledger, admission: Any, draw: Callable[[], Any]) -> Any:
    """A charge for each attempt, until one leaves a release."""
    if self.read().sha256(admission.request) is None:
        self.append(self.read(), _charge(admission))
    return right_answer(self, admission, draw)


def drawn_again(self: Ledger, admission: Any, draw: Callable[[], Any]) -> Any:
    """What a process that died has stored, but not noted yet, is drawn anew."""
    if self.read().sha256(admission.request) is None and self.releases.path(admission.request).exists():
        self.releases.store(admission.request, draw())
    return right_answer(self, admission, draw)


def told_otherwise(self: Ledger, admission: Any, draw: Callable[[], Any]) -> Any:
    """What leaves is another draw than what is stored."""
    right_answer(self, admission, draw)
    return draw()


def forget(self: Any, exchange: Any) -> None:
    """The last exchanges are not kept, so that a server that dies in them cannot go on."""


right_answer = Ledger.answer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "name", "fault", "words"),
    [
        (Ledger, "answer", charged_last, "lines after it are missing|drawn anew"),
        (Ledger, "answer", charged_again, "charged twice"),
        (Ledger, "answer", drawn_again, "drawn anew"),
        (Ledger, "answer", told_otherwise, "wrong sum|wrong mean|answered differently"),
        (SummedStrategy, "_keep_exchange", forget, "with all sites up"),
    ],
)
def test_a_fault_that_is_put_in_is_seen(
    world: Path, monkeypatch: pytest.MonkeyPatch, place: type, name: str, fault: Callable[..., Any], words: str
) -> None:
    monkeypatch.setattr(place, name, fault)
    with pytest.raises((AssertionError, DataError), match=words):
        for seed in range(10 * len(FIXED)):
            carry_out(world, seed)
