"""Under masks, whatever a server makes of the exchanges: one sum of a request, and refusals that tell of no record."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.deploy import hostile

# fifty in all: each is up to four ways through five exchanges with three sites, in two universes
EXAMPLES = int(os.environ.get("FEDBALLOT_HOSTILE", "1000")) // 20


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    folder = tmp_path_factory.mktemp("hostile")
    logging.getLogger("flwr").setLevel(logging.ERROR)
    yield folder, hostile.world(folder)
    logging.getLogger("flwr").setLevel(logging.INFO)


@pytest.mark.slow
def test_under_masks_a_hostile_server_opens_one_sum_of_a_request(
    world: tuple[Path, str], record_property: Callable[[str, object], None]
) -> None:
    """Two universes that differ in one site's records: the same words in both, and one sum at most in each."""
    seen: Counter[str] = Counter()
    opened: Counter[int] = Counter()

    @settings(max_examples=max(1, EXAMPLES), deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(hostile.attempts(), min_size=1, max_size=4))
    def trial(tried: list[hostile.Attempt]) -> None:
        universes = [hostile.Masked(*world, twin) for twin in ("alike", "far away")]
        try:
            for attempt in tried:
                left, right = (universe.go(attempt) for universe in universes)
                assert left == right, f"{attempt} is told apart: {left}, {right}"
                seen.update(refused for _, _, refused in left)
            for universe in universes:
                universe.check()
                opened[len(universe.opened)] += 1
        finally:
            for universe in universes:
                universe.close()

    trial()
    record_property("seen", f"answers and refusals: {dict(seen)}; sums opened in an example: {dict(opened)}")
    assert opened[1] + opened[2] > 0
