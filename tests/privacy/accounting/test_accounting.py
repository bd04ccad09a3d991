"""Composition: exact where it can be, by a named accountant elsewhere, and the traps of dp-accounting 0.6.0."""

import math
import time

import dp_accounting
import pytest
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from fedballot.core.errors import SettingsError
from fedballot.privacy.accounting import (
    CohortCost,
    DeltaCost,
    GaussianCost,
    IntegerCost,
    LaplaceCost,
    PoissonCost,
    PureCost,
    crossing,
    epsilon,
    gaussian,
    largest_count,
    smallest,
    total_mass,
)
from fedballot.privacy.mechanisms.subsampled import SubsampledGaussian
from fedballot.privacy.mechanisms.vectors import NoisyVector
from fedballot.privacy.mechanisms.votes import NoisyVotes


def test_a_million_releases_compose_exactly_and_at_once() -> None:
    start = time.process_time()
    found = epsilon([GaussianCost(1e-3, 1_000_000)], 1e-5)
    integers = epsilon([NoisyVotes(1000, 1000, 1000.0, 100).cost()] * 1000, 1e-5)
    renyi = epsilon([LaplaceCost(1e-3, 1_000_000), GaussianCost(1e-3, 1_000_000)], 1e-5, "rdp")
    assert time.process_time() - start < 1
    assert found == pytest.approx(gaussian.epsilon(1.0, 1e-5))
    assert integers == pytest.approx(found, rel=1e-5) and renyi > found


@given(st.lists(st.floats(0.01, 0.6), min_size=1, max_size=6))
@settings(max_examples=8, deadline=None)
def test_gaussian_routes_agree(mus: list[float]) -> None:
    costs = [GaussianCost(mu) for mu in mus]
    exact = epsilon(costs, 1e-5)
    assert exact <= epsilon(costs, 1e-5, "rdp") * (1 + 1e-9)
    assert epsilon(costs, 1e-5, "pld") == pytest.approx(exact, abs=2e-4)


@pytest.mark.parametrize(
    "cost",
    [LaplaceCost(0.1), PureCost(0.1), PoissonCost(0.1, 2.0, 10), CohortCost(100, 10, 2.0, 10)],
)
def test_nothing_is_mixed_by_accident(cost: PureCost) -> None:
    with pytest.raises(SettingsError, match=f'no bound for {type(cost).__name__}: choose .*"rdp"'):
        epsilon([GaussianCost(0.1), cost], 1e-5)
    assert epsilon([GaussianCost(0.1), cost], 1e-5, "rdp") > epsilon([GaussianCost(0.1)], 1e-5)


def test_routes_that_do_not_exist_are_refused() -> None:
    with pytest.raises(SettingsError, match="rdp"):
        epsilon([CohortCost(100, 10, 2.0, 10)], 1e-5, "pld")
    with pytest.raises(SettingsError, match="apart"):
        epsilon([CohortCost(100, 10, 2.0, 10), PoissonCost(0.1, 2.0, 10)], 1e-5, "rdp")
    with pytest.raises(SettingsError, match="accountant"):
        epsilon([GaussianCost(1.0)], 1e-5, "moments")  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_pure_dp_composes_below_its_sum_and_above_laplace(delta: float) -> None:
    pure, laplace = [PureCost(0.1, 50)], [LaplaceCost(0.1, 50)]
    for accountant in ("pld", "rdp"):
        found = epsilon(pure, delta, accountant)  # type: ignore[arg-type]
        assert epsilon(laplace, delta, accountant) * (1 - 1e-6) <= found < 5.0  # type: ignore[arg-type]
    assert epsilon(pure, delta, "pld") <= epsilon(pure, delta, "rdp")
    assert epsilon([*pure, PoissonCost(0.01, 5.0, 1)], delta, "rdp") >= epsilon(pure, delta, "rdp") * (1 - 1e-6)


def test_equal_integer_noise_composes_exactly_and_unequal_conservatively() -> None:
    votes = NoisyVotes(200, 200, 30.0, 9)
    twice = epsilon([votes.cost(), votes.cost()], 1e-5)
    assert twice == pytest.approx(NoisyVotes(400, 400, 30.0, 9).epsilon(1e-5))
    other = NoisyVotes(200, 200, 31.0, 9)
    mixed = epsilon([votes.cost(), other.cost()], 1e-5)
    continuous = gaussian.epsilon(math.sqrt(200 / 900 + 200 / 961), 1e-5)
    assert continuous < mixed < continuous * 1.003


def test_delta_mass_is_composed_apart() -> None:
    costs = [DeltaCost(1e-6), DeltaCost(2e-6), GaussianCost(0.5)]
    assert total_mass(costs) == pytest.approx(1 - (1 - 1e-6) * (1 - 2e-6))
    left = (1e-5 - total_mass(costs)) / (1 - total_mass(costs))
    assert epsilon(costs, 1e-5) == pytest.approx(gaussian.epsilon(0.5, left))
    assert math.isinf(epsilon(costs, 3e-6 - 1e-11))
    assert epsilon([DeltaCost(0.1)], 0.2) == 0.0
    assert total_mass([DeltaCost(1.0), DeltaCost(0.5)]) == 1.0


def test_solvers() -> None:
    sigma = smallest(lambda s: epsilon([GaussianCost(1 / s)], 1e-5) <= 1, 1e-3, 1e6)
    assert sigma == pytest.approx(gaussian.sigma(1.0, 1.0, 1e-5), rel=1e-8)
    queries = largest_count(lambda q: epsilon([GaussianCost(1 / 25, q)], 1e-5) <= 4)
    assert epsilon([GaussianCost(1 / 25, queries)], 1e-5) <= 4 < epsilon([GaussianCost(1 / 25, queries + 1)], 1e-5)
    assert largest_count(lambda q: False) == 0
    assert largest_count(lambda q: True, limit=1000) == 1000
    with pytest.raises(SettingsError, match="no value"):
        smallest(lambda s: False, 1.0, 2.0)


def test_trap_replace_one_doubles_in_one_accountant_only() -> None:
    """Pre-normalised Gaussians under REPLACE_ONE: PLDAccountant rescales them, ours never does."""
    relation = dp_accounting.NeighboringRelation
    theirs = PLDAccountant(relation.REPLACE_ONE).compose(dp_accounting.GaussianDpEvent(2.0), 10).get_epsilon(1e-5)
    right = epsilon([GaussianCost(0.5, 10)], 1e-5)
    assert theirs > 2 * right
    assert epsilon([GaussianCost(0.5, 10)], 1e-5, "pld") == pytest.approx(right, abs=1e-3)


def test_trap_orders_near_one_are_not_needed_for_large_epsilon() -> None:
    """Subsampled bounds drop fractional orders that fail to converge; the others still bound."""
    assert epsilon([PoissonCost(1.0, 5.0, 20)], 1e-5, "rdp") >= epsilon([GaussianCost(0.2, 20)], 1e-5)


@pytest.mark.parametrize(
    "build",
    [
        lambda: GaussianCost(0.0),
        lambda: GaussianCost(1.0, 0),
        lambda: LaplaceCost(-1.0),
        lambda: PureCost(math.nan),
        lambda: PoissonCost(1.5, 1.0, 1),
        lambda: CohortCost(10, 11, 1.0, 1),
        lambda: DeltaCost(1.1),
        lambda: IntegerCost(1.0, 1, 1.0, 2),
        lambda: IntegerCost(1.0, 0, 5.0, 2),
    ],
)
def test_refuses_impossible_costs(build) -> None:
    with pytest.raises(SettingsError):
        build()


def test_nothing_released_costs_nothing() -> None:
    assert epsilon([], 1e-5) == 0.0


@pytest.mark.parametrize(
    ("value", "exact", "calls"),
    [
        (lambda x: 7 / x, 3.5, 5),
        (lambda x: 7 / x + 40 / x**3, 4.49143, 9),
        (lambda x: 7 / x if x > 4 else math.inf, 4.0, 30),  # jumps over the target
        (lambda x: 1 / x, 1.0, 30),  # fits everywhere
    ],
)
def test_the_crossing_of_a_costly_value(value, exact, calls):
    asked = []

    def counted(x):
        asked.append(x)
        return value(x)

    x = crossing(counted, 2.0, 1.0, 1000.0)
    assert value(x) <= 2.0 and exact * (1 - 1e-4) <= x <= exact * 1.0011
    assert len(asked) <= calls
    with pytest.raises(SettingsError, match="no value up to 3"):
        crossing(lambda _: 2.1, 2.0, 1.0, 3.0)


@pytest.mark.parametrize(
    ("rough", "calls"),
    [
        (lambda x: 7 / x, 1),
        (lambda x: 7.005 / x, 2),
        (lambda x: 6 / x, 2),  # far too small
        (lambda x: 4 / x**2, 14),  # leads nowhere, and is left
        (lambda x: math.inf, 10),
    ],
)
def test_a_rough_value_says_where_to_look_and_is_not_believed(rough, calls):
    asked = []

    def counted(x):
        asked.append(x)
        return 7 / x

    x = crossing(counted, 2.0, 1.0, 1000.0, rough=rough)
    assert 2 * (1 - 1e-3) <= 7 / x <= 2 and len(asked) <= calls


def test_a_rough_value_that_jumps_or_fits_everywhere() -> None:
    jump = crossing(lambda x: 7 / x if x > 4 else math.inf, 2.0, 1.0, 1000.0, rough=lambda x: 7 / x if x > 4 else 9.0)
    assert 4 < jump <= 4 * 1.0011
    assert 1 <= crossing(lambda x: 1 / x, 2.0, 1.0, 1000.0, rough=lambda x: 1.001 / x) <= 1.001


@pytest.mark.parametrize(
    "cost", [PoissonCost(0.1, 0.7, 10), PoissonCost(0.05, 2.0, 2000), PoissonCost(0.3, 5.0, 100)], ids=str
)
def test_losses_on_a_grid_of_their_own_cost_next_to_nothing_and_are_not_optimistic(cost: PoissonCost) -> None:
    fine, alone = (losses.get_epsilon_for_delta(1e-5) for losses in (cost.pld(), cost.pld_alone()) if losses)
    assert fine * (1 - 1e-6) <= alone <= fine * (1 + 2e-5)
    assert cost.rough_epsilon(1e-5) == pytest.approx(alone, rel=2e-3)


def test_noise_is_solved_by_few_loss_distributions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start waits for it, and one takes a second where epsilon is large."""
    made = []
    monkeypatch.setattr(PoissonCost, "pld_alone", lambda cost: made.append(cost) or cost._losses(1e-3))
    noisy = SubsampledGaussian.solve(8.0, 1e-5, population=100, rate=0.1, clip=1.0, steps=100, coordinates=50)
    assert 7.99 <= noisy.epsilon(1e-5) <= 8 and len(made) <= 2


def test_integer_noise_on_any_shifts_adds_up_to_one_release_that_moves_further() -> None:
    vector = NoisyVector(1.0, 50, 3.0, min_clients=4)
    twice = epsilon([vector.cost()] * 2, 1e-5)
    assert twice == pytest.approx(gaussian.epsilon(math.sqrt(2) / 3, 1e-5), rel=3e-3) and twice > vector.epsilon(1e-5)


def test_steps_of_one_sampling_add_up() -> None:
    once = PoissonCost(0.1, 2.0, 10)
    assert epsilon([once] * 3, 1e-5, "rdp") == epsilon([PoissonCost(0.1, 2.0, 30)], 1e-5, "rdp")
    fixed = CohortCost(100, 10, 2.0, 10)
    assert epsilon([fixed] * 3, 1e-5, "rdp") == epsilon([CohortCost(100, 10, 2.0, 30)], 1e-5, "rdp")
