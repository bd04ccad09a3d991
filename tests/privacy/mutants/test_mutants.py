"""Every mutant is killed by the tests that are named for it, and these pass on the true source."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.privacy.mutants import table, table_clients
from tests.privacy.mutants.runner import Mutant, Worker, check_killers

MUTANTS = (*table.MUTANTS, *table_clients.MUTANTS)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker(MUTANTS) as made:
        yield made


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_killed(worker: Worker, mutant: Mutant) -> None:
    assert not worker.run(mutant, mutant.killers).survived(mutant)


def test_all_killers_pass_on_the_true_source(worker: Worker) -> None:
    check_killers(worker, MUTANTS)


def test_no_mutant_is_there_twice() -> None:
    assert (
        len({(m.file, m.within, m.line, m.change) for m in MUTANTS}) == len({str(m) for m in MUTANTS}) == len(MUTANTS)
    )


HARMLESS = Mutant(
    "privacy/mechanisms/votes.py",
    "NoisyVotes.honest",
    "return self.min_clients - self.colluders",
    "return -self.colluders + self.min_clients",
    "nothing",
    ("privacy/mechanisms/test_votes.py::test_solve_stops_at_the_smallest_share",),
)


def test_a_mutant_that_lives_is_seen(worker: Worker) -> None:
    assert "lived" in worker.run(HARMLESS, HARMLESS.killers).survived(HARMLESS)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"change": "raise ValueError"}, "not an assertion"),
        ({"killers": ("privacy/mechanisms/test_votes.py::test_that_is_not_there",)}, "not an assertion"),
        ({"file": "cli/main.py", "within": "", "line": "import typer", "change": "import os"}, "not imported"),
    ],
)
def test_dying_of_anything_but_an_assertion_does_not_count(
    worker: Worker, change: dict[str, object], says: str
) -> None:
    mutant = replace(HARMLESS, **change)  # type: ignore[arg-type]
    assert says in worker.run(mutant, mutant.killers).survived(mutant)


@pytest.mark.parametrize(
    "change", [{"line": "return self.min_clients"}, {"within": "NoisyVotes.honesty"}, {"change": HARMLESS.line}]
)
def test_a_line_that_is_gone_is_an_error(change: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"renew the table|changes nothing"):
        replace(HARMLESS, **change).source()  # type: ignore[arg-type]
