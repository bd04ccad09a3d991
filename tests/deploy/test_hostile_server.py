"""Whatever a server asks: what leaves was charged, once, within the budget; and refusals do not depend on records."""

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

# 1,000 in all; `make hostile` asks for a hundred times as many
EXAMPLES = int(os.environ.get("FEDBALLOT_HOSTILE", "1000"))
FAMILIES = {
    "votes": ("pate-fl", "private-knn-fl", "fedkt"),
    "logits": ("fedkd-dp", "fedmd-ldp", "fedmd-nfdp"),
    "heads": ("fedauxfdp", "fedauxfdp-sum", "fedd-p", "fedavg-p"),
    "counts": ("poll",),
    "all": (*hostile.PRIVATE, *hostile.PROMISELESS),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    folder = tmp_path_factory.mktemp("hostile")
    logging.getLogger("flwr").setLevel(logging.ERROR)
    yield folder, hostile.world(folder)
    logging.getLogger("flwr").setLevel(logging.INFO)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["client", "record"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_hostile_server_learns_what_was_charged_and_nothing_else(
    family: str, unit: str, world: tuple[Path, str], record_property: Callable[[str, object], None]
) -> None:
    seen: Counter[str | None] = Counter()

    @settings(
        max_examples=max(1, EXAMPLES // (2 * len(FAMILIES))),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(st.lists(hostile.questions(FAMILIES[family]), min_size=1, max_size=6))
    def trial(asked: list[hostile.Question]) -> None:
        twins = hostile.Trial(*world, unit)
        try:
            for question in asked:
                seen[twins.ask(question)] += 1
        finally:
            twins.close()

    trial()
    record_property("seen", f"answers and refusals: {dict(seen)}")
    assert sum(seen.values()) > 0
