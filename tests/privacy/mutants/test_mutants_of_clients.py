"""As test_mutants.py, for what clients, sites and servers do; a file of its own, so that two workers share it all."""

import pytest

from tests.privacy.mutants.runner import Mutant, Workers, check_killers
from tests.privacy.mutants.table_clients import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_killed(workers: Workers, mutant: Mutant) -> None:
    assert not workers[mutant.torch].run(mutant, mutant.killers).survived(mutant)


def test_all_killers_pass_on_the_true_source(workers: Workers) -> None:
    check_killers(workers, MUTANTS)
