"""What a ledger may still release when requests depend on answers: one rule, fixed beforehand, whatever is asked."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from fedballot.core.errors import SettingsError
from fedballot.privacy import accounting
from fedballot.privacy.accounting import (
    ALLOWANCE,
    CohortCost,
    Cost,
    DeltaCost,
    Filter,
    GaussianCost,
    IntegerCost,
    LaplaceCost,
    PoissonCost,
    PureCost,
    epsilon,
    gaussian,
    late_sampling,
    least_budget,
    rdp,
    sampling,
)
from fedballot.privacy.accounting.filter import best_order
from fedballot.privacy.mechanisms.votes import NoisyVotes

DELTA = 1e-5


def signed_delta(mu: float, level: float) -> float:
    """E under P of (1 - exp(level - loss))+ of a Gaussian mechanism, for levels of either sign."""
    if mu == 0:
        return max(0.0, -math.expm1(min(level, 0.0)))
    if level >= 0:
        return gaussian.delta(mu, level)
    return -math.expm1(level) + math.exp(level) * gaussian.delta(mu, -level)


def adaptive_delta(first: float, second: Callable[[float], Cost | None], target: float) -> float:
    """delta(target) of a Gaussian release of mu = first, then of one that is chosen by the loss so far."""

    def here(loss: float) -> float:
        match second(loss):
            case None:
                after = signed_delta(0.0, target - loss)
            case GaussianCost(mu=mu):
                after = signed_delta(mu, target - loss)
            case DeltaCost(delta=all_of_it):
                after = all_of_it + (1 - all_of_it) * signed_delta(0.0, target - loss)
        return after * float(stats.norm.pdf(loss, first**2 / 2, first))

    middle, width = first**2 / 2, 12 * first
    points = sorted(x for x in (target, 0.0, middle, 0.5 * target, 0.7 * target) if abs(x - middle) < width)
    return float(integrate.quad(here, middle - width, middle + width, points=points, limit=2000, epsrel=1e-9)[0])


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("turn", [-1.0, 0.5, 0.7, 1.0])
def test_an_exact_filter_holds_against_one_who_goes_on_only_where_it_pays(share: float, turn: float) -> None:
    budget, total = 2.0, gaussian.mu(2.0, DELTA)
    first, second = total * math.sqrt(share), total * math.sqrt((1 - share) * (1 - 1e-5))
    assert Filter(budget, DELTA, "exact").fits([GaussianCost(first), GaussianCost(second)])
    went_on = adaptive_delta(first, lambda loss: GaussianCost(second) if loss > turn * budget else None, budget)
    assert 0 < went_on <= DELTA * (1 + 1e-7)


def test_sampling_after_noise_would_break_the_budget_and_is_refused() -> None:
    """Where the noise tells the asker little it takes the rest of delta as a sample, else the rest of the noise."""
    budget, total = 2.0, gaussian.mu(2.0, DELTA)
    first = total * 0.9
    rest = total * math.sqrt(1 - 0.9**2) * (1 - 1e-9)
    mass = (DELTA - gaussian.delta(first, budget)) * (1 - 1e-6)
    for costs in ([GaussianCost(first), DeltaCost(mass)], [GaussianCost(first), GaussianCost(rest)]):
        assert epsilon(costs, DELTA) <= budget  # either is within the budget, had it been fixed beforehand
    reached = adaptive_delta(first, lambda x: GaussianCost(rest) if x > 0.8 else DeltaCost(mass), budget)
    assert reached > 1.3 * DELTA
    for accountant in accounting.FILTERS:
        rule = Filter(budget, DELTA, accountant)  # type: ignore[arg-type]
        assert late_sampling([GaussianCost(first), DeltaCost(mass)])
        assert not rule.fits([GaussianCost(0.01), DeltaCost(1e-9)])
        assert rule.fits([DeltaCost(1e-9), DeltaCost(1e-9), GaussianCost(0.01), GaussianCost(0.01)])


def test_sampling_before_noise_leaves_the_rest_of_delta() -> None:
    rule = Filter(1.0, 0.02, "exact")
    assert rule.spent([]) == rule.spent([DeltaCost(0.02)]) == 0.0
    assert math.isinf(rule.spent([DeltaCost(0.0201)])) and math.isinf(rule.spent([DeltaCost(0.02), GaussianCost(0.1)]))
    costs = [DeltaCost(0.01), DeltaCost(0.005), GaussianCost(0.3), GaussianCost(0.2)]
    assert rule.spent(costs) == pytest.approx(epsilon(costs, 0.02), abs=1e-6) and rule.spent(costs) >= epsilon(
        costs, 0.02
    )


@given(st.floats(1e-9, 1 - 1e-9))
def test_one_sample_costs_what_it_says_to_the_last_digit(mass: float) -> None:
    assert accounting.total_mass([DeltaCost(mass)]) == mass
    assert epsilon([DeltaCost(mass)], mass) == 0.0


def test_a_first_release_may_use_the_whole_budget_by_its_own_formula_and_nothing_after_it() -> None:
    votes = NoisyVotes.solve(2.0, DELTA, queries=50, max_votes=50, min_clients=5)
    rule = Filter(2.0, DELTA, "exact")
    assert rule.fits([votes.cost()]) and rule.spent([votes.cost()]) == votes.epsilon(DELTA)
    tiny = GaussianCost(1e-9)
    assert not rule.fits([votes.cost(), tiny]) and not rule.fits([tiny, votes.cost()])
    half = NoisyVotes.solve(1.0, DELTA, queries=50, max_votes=50, min_clients=5).cost()
    assert rule.fits([half, tiny]) and rule.spent([half, tiny]) >= rule.spent([half])


def test_equal_integer_noise_is_counted_by_the_rule_of_all_noise() -> None:
    """Unit shifts alone have a tighter formula; it is not a filter together with other noise."""
    cost = NoisyVotes(20, 20, 4.0, 2).cost()
    both = Filter(9.0, DELTA, "exact").spent([cost, cost])
    mu = math.sqrt(2) * cost.dominating()[0]
    assert both == pytest.approx(gaussian.epsilon(mu, DELTA * math.exp(-ALLOWANCE)) + 2 * ALLOWANCE, rel=1e-12)
    assert both > epsilon([cost, cost], DELTA)


def test_integers_beyond_the_allowance_do_not_fit() -> None:
    many = IntegerCost(1.0, 10**9, 100.0)
    assert many.dominating()[1] < ALLOWANCE
    assert Filter(4.0, DELTA, "exact").fits([many, GaussianCost(0.1)])
    assert math.isinf(Filter(4.0, DELTA, "exact").spent([many, many]))


def test_integer_noise_under_renyi_loses_nothing_to_rounding() -> None:
    cost = IntegerCost(1.0, 4, 1.2)  # too coarse for a comparison with continuous noise
    with pytest.raises(SettingsError, match="coarse"):
        Filter(4.0, DELTA, "exact").spent([cost, cost])
    plain = Filter(4.0, DELTA, "rdp").spent([GaussianCost(1 / 1.2)] * 2)
    assert Filter(4.0, DELTA, "rdp").spent([cost, cost]) == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize(
    "one",
    [GaussianCost(0.1), LaplaceCost(0.1), PureCost(0.05, 3), PoissonCost(0.01, 1.1, 100), CohortCost(1000, 50, 2.0, 5)],
)
@pytest.mark.parametrize("delta", [1e-3, 1e-5])
def test_a_fixed_order_loses_little_on_releases_alike(one: Cost, delta: float) -> None:
    costs = [one] * 6
    planned = epsilon(costs, delta, "rdp")
    assert planned <= least_budget(costs, delta, "rdp") <= planned * 1.001 + 3 * ALLOWANCE
    rule = Filter(planned * 1.001, delta, "rdp")
    assert rule.fits(costs) and not rule.fits([*costs, one, one])


def test_one_order_for_all_that_follows() -> None:
    """The order is that of the first budget and charge; the best order of the end would be a choice in hindsight."""
    costs = [GaussianCost(0.2), *[PoissonCost(0.01, 1.1, 100)] * 3]
    rule = Filter(3.0, DELTA, "rdp")
    order = np.array([best_order(costs[0], 3.0, DELTA)])
    divergence = rdp.divergences([GaussianCost(0.2), PoissonCost(0.01, 1.1, 300)], order)
    by_hand = divergence[0] + math.log1p(-1 / order[0]) - math.log(DELTA * order[0]) / (order[0] - 1)
    assert rule.spent(costs) == pytest.approx(by_hand, abs=1e-6)
    assert rule.spent(costs) > epsilon(costs, DELTA, "rdp")
    raised = rule.fits([GaussianCost(0.2)] * 40, 20.0)
    assert raised and not rule.fits([GaussianCost(0.2)] * 40)


KINDS: list[Cost] = [
    GaussianCost(0.2),
    GaussianCost(0.05, 4),
    IntegerCost(3.0, 9, 10.0, 2),
    IntegerCost(3.0, 9, 10.0, 2, unit_shifts=True),
]
OTHERS: list[Cost] = [LaplaceCost(0.1), PureCost(0.05, 2), PoissonCost(0.02, 2.0, 20)]


@given(st.lists(st.sampled_from(KINDS), max_size=6), st.sampled_from(KINDS))
@settings(deadline=None, max_examples=60)
def test_every_charge_is_counted(costs: list[Cost], more: Cost) -> None:
    rule = Filter(3.0, DELTA, "exact")
    before, after = rule.spent(costs), rule.spent([*costs, more])
    assert 0 <= before < after
    assert epsilon(costs, DELTA) <= before * (1 + 1e-12)
    if len(costs) > 1:
        assert rule.spent(costs[::-1]) == pytest.approx(before, rel=1e-12)


@given(st.lists(st.sampled_from([*KINDS, *OTHERS]), min_size=2, max_size=5), st.floats(0.01, 30))
@settings(deadline=None, max_examples=40)
def test_a_renyi_filter_is_never_below_what_was_planned(costs: list[Cost], budget: float) -> None:
    rule = Filter(budget, DELTA, "rdp")
    assert rule.spent(costs) >= epsilon(costs, DELTA, "rdp") * (1 - 1e-9)
    assert rule.spent(costs) >= rule.spent(costs[:-1]) * (1 - 1e-12)


@given(st.lists(st.sampled_from([*KINDS, *OTHERS]), max_size=5), st.sampled_from(accounting.FILTERS))
@settings(deadline=None, max_examples=30)
def test_the_least_budget_takes_its_costs(costs: list[Cost], accountant: str) -> None:
    if accountant == "exact":
        costs = [cost for cost in costs if cost in KINDS]
    budget = least_budget(costs, DELTA, accountant)  # type: ignore[arg-type]
    assert Filter(budget, DELTA, accountant).fits(costs)  # type: ignore[arg-type]
    assert not costs or not Filter(budget * 0.999, DELTA, accountant).fits(costs)  # type: ignore[arg-type]


def test_a_ledger_does_not_add_up_privacy_loss_distributions() -> None:
    with pytest.raises(SettingsError, match=r'"pld" is proved for costs that were fixed.*use "rdp"'):
        Filter(1.0, DELTA, "pld")
    with pytest.raises(SettingsError, match='choose "pld" or "rdp"'):
        Filter(1.0, DELTA, "exact").spent([PureCost(0.1), GaussianCost(0.1)])
    with pytest.raises(SettingsError, match="apart"):
        Filter(1.0, DELTA, "rdp").spent([CohortCost(100, 10, 2.0, 10), PoissonCost(0.1, 2.0, 10)])


TINY_AND_HUGE: Sequence[Cost] = [
    GaussianCost(1e-12),
    GaussianCost(1e4),
    LaplaceCost(1e-9, 10**9),
    LaplaceCost(700.0),
    PureCost(1e-6, 10**9),
    PureCost(700.0),
    PoissonCost(1e-12, 1.0, 10**9),
    PoissonCost(0.999, 5.0, 3),
    PoissonCost(0.01, 0.1, 3),
    IntegerCost(1e-3, 1, 1e5),
]


@pytest.mark.parametrize("cost", TINY_AND_HUGE, ids=str)
@pytest.mark.parametrize("delta", [1e-300, 1e-18, 1e-5, 0.999999])
def test_every_accountant_is_finite_and_none_below_the_exact(cost: Cost, delta: float) -> None:
    renyi, distributions = epsilon([cost], delta, "rdp"), epsilon([cost], delta, "pld")
    assert 0 <= distributions <= renyi < math.inf
    if isinstance(cost, GaussianCost | IntegerCost):
        assert epsilon([cost], delta) <= distributions * (1 + 1e-9) + 1e-12


def test_loss_distributions_end_where_their_tails_are_cut_and_renyi_goes_on() -> None:
    cost = PoissonCost(0.01, 1.1, 200)
    values = [epsilon([cost], delta, "pld") for delta in (1e-14, 1e-15, 1e-16, 1e-18, 1e-100)]
    assert values == sorted(values) and all(map(math.isfinite, values))
    assert epsilon([cost], 1e-18, "pld") == epsilon([cost], 1e-18, "rdp")


@pytest.mark.parametrize("steps", [1, 10**6])
def test_rare_sampling_costs_something(steps: int) -> None:
    """A divergence below 1e-16 is no zero: as many steps as there are add up."""
    q = 1e-9
    moment = sampling.poisson_moment(q, 1.0, 2)
    assert moment == pytest.approx(q * q * math.expm1(1.0), rel=1e-9)  # E of the squared ratio, less 1
    found = [epsilon([PoissonCost(q, 1.0, steps)], delta, "rdp") for delta in (1e-200, 1e-100, 1e-30)]
    assert found == sorted(found, reverse=True) and found[0] > 0


@given(
    st.floats(1e-4, 0.9),
    st.floats(0.4, 5.0),
    st.sampled_from([1.1, 1.5, 2.5, 7.3, 3.0, 20.0, 64.0]),
)
@settings(deadline=None, max_examples=15)
def test_the_sampled_gaussian_against_its_integral(q: float, multiplier: float, order: float) -> None:
    def integrand(x: float) -> float:
        ratio = np.logaddexp(math.log1p(-q), math.log(q) + (2 * x - 1) / (2 * multiplier**2))
        return math.exp(order * ratio - x * x / (2 * multiplier**2)) / (multiplier * math.sqrt(2 * math.pi))

    if order * (order - 1) / (2 * multiplier**2) > 300:
        return
    top = order + 12 * multiplier
    exact = integrate.quad(integrand, -12 * multiplier, top, limit=1000, points=np.linspace(0, order, 9))[0]
    divergence = math.log(exact) / (order - 1)
    found = sampling.poisson(q, multiplier, order)
    assert found >= divergence * (1 - 1e-6) - 1e-9
    if order.is_integer():  # between them the series may not converge, and a bound from both is taken
        assert found == pytest.approx(divergence, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("delta", [5e-324, 1e-300, 1e-5, 0.5, 1 - 1e-9, 1 - 1e-16])
@pytest.mark.parametrize("accountant", ["exact", "pld", "rdp"])
def test_epsilon_rises_with_the_noise_that_is_missing(delta: float, accountant: str) -> None:
    mus = [1e-12, 1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e6]
    found = [epsilon([GaussianCost(mu)], delta, accountant) for mu in mus]  # type: ignore[arg-type]
    assert found == sorted(found) and all(map(math.isfinite, found))
