"""Every mutant is killed by the tests that are named for it, and these pass on the true source."""

from dataclasses import replace

import pytest

from tests.privacy.mutants import table_clients
from tests.privacy.mutants.runner import Mutant, Workers, check_killers
from tests.privacy.mutants.table import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_killed(workers: Workers, mutant: Mutant) -> None:
    assert not workers[mutant.torch].run(mutant, mutant.killers).survived(mutant)


def test_all_killers_pass_on_the_true_source(workers: Workers) -> None:
    check_killers(workers, MUTANTS)


def test_no_mutant_is_there_twice() -> None:
    found = (*MUTANTS, *table_clients.MUTANTS)
    assert len({(m.file, m.within, m.line, m.change) for m in found}) == len({str(m) for m in found}) == len(found)


HARMLESS = Mutant(
    "privacy/mechanisms/votes.py",
    "NoisyVotes.honest",
    "return self.min_clients - self.colluders",
    "return -self.colluders + self.min_clients",
    "nothing",
    ("privacy/mechanisms/test_votes.py::test_solve_stops_at_the_smallest_share",),
)


def test_a_mutant_that_lives_is_seen(workers: Workers) -> None:
    assert "lived" in workers[False].run(HARMLESS, HARMLESS.killers).survived(HARMLESS)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"change": "raise ValueError"}, "not an assertion"),
        ({"killers": ("privacy/mechanisms/test_votes.py::test_that_is_not_there",)}, "not an assertion"),
        ({"file": "cli/main.py", "within": "", "line": "import typer", "change": "import os"}, "not imported"),
    ],
)
def test_dying_of_anything_but_an_assertion_does_not_count(
    workers: Workers, change: dict[str, object], says: str
) -> None:
    mutant = replace(HARMLESS, **change)  # type: ignore[arg-type]
    assert says in workers[False].run(mutant, mutant.killers).survived(mutant)


@pytest.mark.parametrize(
    "change", [{"line": "return self.min_clients"}, {"within": "NoisyVotes.honesty"}, {"change": HARMLESS.line}]
)
def test_a_line_that_is_gone_is_an_error(change: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"renew the table|changes nothing"):
        replace(HARMLESS, **change).source()  # type: ignore[arg-type]
