"""Every mutant is killed by the tests that are named for it, and these pass on the true source."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.privacy.mutants.runner import Mutant, Worker
from tests.privacy.mutants.table import MUTANTS


@pytest.fixture(scope="module")
def workers() -> Iterator[dict[bool, Worker]]:
    found = {torch: Worker(torch=torch) for torch in {mutant.torch for mutant in MUTANTS}}
    yield found
    for worker in found.values():
        worker.close()


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_killed(workers: dict[bool, Worker], mutant: Mutant) -> None:
    assert not workers[mutant.torch].run(mutant, mutant.killers).survived(mutant)


def test_all_killers_pass_on_the_true_source(workers: dict[bool, Worker]) -> None:
    for torch, worker in workers.items():
        killers = sorted({killer for mutant in MUTANTS if mutant.torch == torch for killer in mutant.killers})
        outcome = worker.run(None, killers, patience=300)
        assert (outcome.asserted, outcome.other) == ({}, {}) and len(outcome.passed) >= len(killers)


def test_no_mutant_is_there_twice() -> None:
    assert (
        len({(m.file, m.within, m.line, m.change) for m in MUTANTS}) == len({str(m) for m in MUTANTS}) == len(MUTANTS)
    )


HARMLESS = Mutant(
    "privacy/votes.py",
    "NoisyVotes.honest",
    "return self.contributors - self.colluders",
    "return -self.colluders + self.contributors",
    "nothing",
    ("privacy/test_votes.py::test_solve_stops_at_the_smallest_share",),
)


def test_a_mutant_that_lives_is_seen(workers: dict[bool, Worker]) -> None:
    assert "lived" in workers[False].run(HARMLESS, HARMLESS.killers).survived(HARMLESS)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"change": "raise ValueError"}, "not an assertion"),
        ({"killers": ("privacy/test_votes.py::test_that_is_not_there",)}, "not an assertion"),
        ({"file": "cli.py", "within": "", "line": "import sys", "change": "import os, sys"}, "not imported"),
    ],
)
def test_dying_of_anything_but_an_assertion_does_not_count(
    workers: dict[bool, Worker], change: dict[str, object], says: str
) -> None:
    mutant = replace(HARMLESS, **change)  # type: ignore[arg-type]
    assert says in workers[False].run(mutant, mutant.killers).survived(mutant)


@pytest.mark.parametrize(
    "change", [{"line": "return self.contributors"}, {"within": "NoisyVotes.honesty"}, {"change": HARMLESS.line}]
)
def test_a_line_that_is_gone_is_an_error(change: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"renew the table|changes nothing"):
        replace(HARMLESS, **change).source()  # type: ignore[arg-type]
