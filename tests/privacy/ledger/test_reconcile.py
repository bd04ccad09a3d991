"""A guarantee is worth what the ledgers hold: every answer charged, as the Strategy says, and no more than promised."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedballot.core.errors import RunError
from fedballot.privacy import accounting
from fedballot.privacy.accounting import Cost, GaussianCost, gaussian
from fedballot.privacy.guarantee import TRUSTED_AGGREGATOR, Guarantee
from fedballot.privacy.ledger import Account, Ledger
from fedballot.privacy.ledger.reconcile import charges, reconcile

DELTA = 1e-5
COST = GaussianCost(0.1)
COSTS: dict[str, Cost] = {"votes": COST}
PROMISE = Guarantee(
    mechanism="noise",
    unit="client",
    adjacency="zero-out",
    epsilon=gaussian.epsilon(0.1, DELTA),
    delta=DELTA,
    view="output only",
    trust=TRUSTED_AGGREGATOR,
    status="proved",
    accountant="exact",
)
NAME = "run/1"


def ledger(folder: Path, number: int, costs: dict[str, Cost] = COSTS, requests: tuple[str, ...] = (NAME,)) -> Path:
    """The folder of a client's ledger that was charged so for each request."""
    made = Ledger(folder / str(number), Account("a", "b", "client", "zero-out", 9.0, DELTA))
    for request in requests:
        made.release(request, costs, lambda: {part: np.ones(1) for part in costs}, digest="asked")
    return folder / str(number)


def test_ledgers_that_hold_what_is_promised_pass(tmp_path: Path) -> None:
    ledgers = {number: ledger(tmp_path, number) for number in range(3)}
    assert charges(Ledger(ledgers[0])) == {NAME: COSTS}
    reconcile(ledgers, lambda _: COSTS, {NAME: 3}, [PROMISE])
    reconcile(ledgers, lambda _: COSTS, {NAME: 2}, [PROMISE])  # a charged answer that was lost on its way


@pytest.mark.parametrize("status", ["proved", "seeded"])
def test_an_answer_that_nobody_was_charged_for_is_not_private(status: str, tmp_path: Path) -> None:
    promise = replace(PROMISE, status=status)  # type: ignore[arg-type]
    for count in (0, 2):
        ledgers = {number: ledger(tmp_path, number) for number in range(count)}
        with pytest.raises(RunError, match=f"3 clients answered request 'run/1' and {count} ledgers were charged"):
            reconcile(ledgers, lambda _: COSTS, {NAME: 3}, [promise])


def test_an_answer_that_is_charged_under_another_name_is_not_charged(tmp_path: Path) -> None:
    ledgers = {0: ledger(tmp_path, 0, requests=("run/2",))}
    with pytest.raises(RunError, match="0 ledgers were charged"):
        reconcile(ledgers, lambda _: COSTS, {NAME: 1}, [PROMISE])
    both = replace(PROMISE, epsilon=accounting.epsilon([COST, COST], DELTA))
    with pytest.raises(RunError, match="'run/3' and 0 ledgers"):  # each round by itself
        reconcile({1: ledger(tmp_path, 1)}, lambda _: COSTS, {NAME: 1, "run/3": 1}, [both])


@pytest.mark.parametrize(
    "held", [{"votes": GaussianCost(0.05)}, {"votes": GaussianCost(0.2)}, {"logits": COST}, {**COSTS, "scores": COST}]
)
def test_a_charge_that_is_not_the_mechanisms_is_an_error(held: dict[str, Cost], tmp_path: Path) -> None:
    ledgers = {0: ledger(tmp_path, 0), 1: ledger(tmp_path, 1, held)}
    with pytest.raises(RunError, match="speak of two mechanisms"):
        reconcile(ledgers, lambda _: COSTS, {NAME: 2}, [PROMISE])


def test_a_strategy_that_says_no_charge_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="two mechanisms"):
        reconcile({0: ledger(tmp_path, 0)}, lambda _: None, {NAME: 1}, [PROMISE])


def test_each_clients_own_mechanism_is_asked_for(tmp_path: Path) -> None:
    costs: dict[int, dict[str, Cost]] = {0: COSTS, 1: {"votes": GaussianCost(0.09999)}}
    ledgers = {number: ledger(tmp_path, number, costs[number]) for number in costs}
    promise = replace(PROMISE, epsilon=gaussian.epsilon(0.09999, DELTA))
    reconcile(ledgers, costs.__getitem__, {NAME: 2}, [promise])
    with pytest.raises(RunError, match="two mechanisms"):
        reconcile(ledgers, lambda number: costs[1 - number], {NAME: 2}, [promise])


def test_those_who_are_promised_more_are_charged_less(tmp_path: Path) -> None:
    """Clients 0 and 1 are promised half of what all are."""
    costs: dict[int, dict[str, Cost]] = {0: {"votes": GaussianCost(0.05)}, 1: {"votes": GaussianCost(0.05)}, 2: COSTS}
    ledgers = {number: ledger(tmp_path, number, costs[number]) for number in costs}
    half = replace(PROMISE, epsilon=gaussian.epsilon(0.05, DELTA), among="some")
    own = lambda number: [PROMISE if number == 2 else half]  # noqa: E731
    reconcile(ledgers, costs.__getitem__, {NAME: 3}, [PROMISE, half], own=own)
    for wrong in (replace(half, epsilon=0.9 * half.epsilon), replace(half, epsilon=1.1 * half.epsilon)):
        with pytest.raises(RunError, match="a run is charged epsilon"):
            reconcile(ledgers, costs.__getitem__, {NAME: 3}, [PROMISE, wrong], own=lambda _, one=wrong: [one])


def test_a_guarantee_of_other_worlds_than_the_ledger_is_about_is_none(tmp_path: Path) -> None:
    ledgers = {0: ledger(tmp_path, 0)}
    for change in ({"unit": "record"}, {"adjacency": "replace-one"}):
        with pytest.raises(RunError, match="states no guarantee"):
            reconcile(ledgers, lambda _: COSTS, {NAME: 1}, [replace(PROMISE, **change)])  # type: ignore[arg-type]
    reconcile(ledgers, lambda _: COSTS, {NAME: 1}, [replace(PROMISE, unit="record"), PROMISE])


def test_what_a_run_is_charged_reaches_what_is_stated(tmp_path: Path) -> None:
    """What is stated is what is charged: with less the result would promise too much, with more the ledgers."""
    ledgers = {0: ledger(tmp_path, 0, requests=("run/1", "run/2"))}
    answered = {"run/1": 1, "run/2": 1}
    both = accounting.epsilon([COST, COST], DELTA)
    reconcile(ledgers, lambda _: COSTS, answered, [replace(PROMISE, epsilon=both)])
    with pytest.raises(RunError, match=r"charged epsilon .*, but the result states"):
        reconcile(ledgers, lambda _: COSTS, answered, [replace(PROMISE, epsilon=1.01 * both)])
    for epsilon, delta in ((0.99 * both, DELTA), (PROMISE.epsilon, DELTA), (both, DELTA / 10), (0.1, 1e-4)):
        less = replace(PROMISE, epsilon=epsilon, delta=delta)
        with pytest.raises(RunError, match="its noise does not give that"):
            reconcile(ledgers, lambda _: COSTS, answered, [less])
        reconcile(ledgers, lambda _: COSTS, answered, [less], better=True)


@pytest.mark.parametrize("change", [{"status": "none"}, {"status": "paper's claim"}, {"epsilon": float("inf")}])
def test_a_result_that_promises_nothing_needs_no_ledger(change: dict[str, object], tmp_path: Path) -> None:
    reconcile({}, lambda _: None, {NAME: 3}, [replace(PROMISE, **change)])  # type: ignore[arg-type]


def test_a_client_that_is_charged_otherwise_than_those_before_is_looked_at(tmp_path: Path) -> None:
    cheaper: dict[str, Cost] = {"votes": GaussianCost(0.05)}
    held = [COSTS, COSTS, cheaper]
    ledgers = {number: ledger(tmp_path, number, costs) for number, costs in enumerate(held)}
    reconcile({number: ledgers[number] for number in (0, 1)}, held.__getitem__, {NAME: 2}, [PROMISE])
    with pytest.raises(RunError, match=r"2/ledger\.jsonl: a run is charged epsilon 0"):
        reconcile(ledgers, held.__getitem__, {NAME: 3}, [PROMISE])
