"""Laplace, quantiser, NFDP, vectors, logits and subsampled sums: cost, release, limits."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedballot.core.errors import DataError, SettingsError
from fedballot.privacy.accounting import CohortCost, PoissonCost, epsilon, gaussian
from fedballot.privacy.audit.statistics import variance_p_value
from fedballot.privacy.mechanisms.laplace import NoisyValues
from fedballot.privacy.mechanisms.logits import NoisyLogits
from fedballot.privacy.mechanisms.nfdp import NfdpSample, draw_per_class, per_class_cost
from fedballot.privacy.mechanisms.quantise import Quantiser
from fedballot.privacy.mechanisms.subsampled import SubsampledGaussian
from fedballot.privacy.mechanisms.vectors import NoisyVector, clip_rows
from fedballot.privacy.noise.randomness import os_noise, seeded_noise
from fedballot.privacy.noise.samplers import grid_sensitivity


def test_laplace_costs_and_adds_what_it_says() -> None:
    mechanism = NoisyValues(sensitivity=2.0, scale=4.0, values=50_000)
    assert mechanism.cost().epsilon == pytest.approx(0.5, rel=2e-3) and mechanism.cost().epsilon > 0.5
    noise = mechanism.release(np.full(50_000, 7.3), os_noise()) - 7.3
    assert stats.kstest(noise / 4.0, "laplace").pvalue > 1e-8


def test_laplace_outputs_do_not_betray_the_input() -> None:
    mechanism = NoisyValues(1.0, 1.0, 1000)
    outputs = mechanism.release(np.full(1000, math.pi), os_noise())
    assert np.allclose(outputs / mechanism.grid, np.rint(outputs / mechanism.grid), atol=1e-6)


@given(st.floats(-50, 50), st.integers(2, 300), st.floats(0.1, 20))
@settings(deadline=None)
def test_quantiser_takes_the_nearest_level(z: float, levels: int, bound: float) -> None:
    quantiser = Quantiser(bound, levels)
    index = quantiser.encode(np.array([z]))
    assert index.dtype == (np.uint8 if levels <= 256 else np.uint16)
    level = float(quantiser.decode(index)[0])
    assert abs(level - np.clip(z, -bound, bound)) <= bound / (levels - 1) * (1 + 1e-9)


def test_quantiser_refuses() -> None:
    with pytest.raises(SettingsError):
        Quantiser(1.0, 1)
    with pytest.raises(DataError):
        Quantiser(1.0, 4).encode(np.array([math.nan]))
    with pytest.raises(DataError):
        Quantiser(1.0, 4).decode(np.array([4], dtype=np.uint8))


@pytest.mark.parametrize("replacement", [True, False])
def test_nfdp_draws_each_record_with_the_probability_it_states(replacement: bool) -> None:
    sample = NfdpSample(20, 6, replacement)
    runs, source = 20_000, seeded_noise(1)
    hits = np.zeros(20)
    for _ in range(runs // 10):
        drawn = sample.draw(source)
        assert len(drawn) == 6 and (np.diff(drawn) >= (0 if replacement else 1)).all()
        hits[np.unique(drawn)] += 1
    assert hits.mean() / (runs // 10) == pytest.approx(sample.delta, rel=0.05 if replacement else 1e-12)
    assert stats.chisquare(hits).pvalue > 1e-4


def test_nfdp_with_replacement_is_the_more_private() -> None:
    for k in (1, 16, 60, 300):
        assert NfdpSample(300, k, True).delta <= NfdpSample(300, k, False).delta
    assert NfdpSample(1, 3, True).delta == 1.0


def test_nfdp_resampled_each_round_costs_each_round() -> None:
    once = NfdpSample(300, 16).cost()
    assert epsilon([once], 0.06) == 0.0 and math.isinf(epsilon([once] * 20, 0.06))


def test_nfdp_per_class() -> None:
    labels = np.array([0] * 10 + [1] * 30)
    samples = [NfdpSample(10, 2, False), NfdpSample(30, 3, False)]
    drawn = draw_per_class(labels, samples, os_noise())
    assert np.bincount(labels[drawn]).tolist() == [2, 3]
    assert per_class_cost(samples).delta == 0.2
    with pytest.raises(DataError, match="class 1"):
        draw_per_class(labels[:-1], samples, os_noise())
    with pytest.raises(DataError, match="class 0"):
        draw_per_class(np.append(labels, 0), samples, os_noise())
    with pytest.raises(SettingsError):
        per_class_cost([])


@pytest.mark.parametrize("bad", [(10, 11, False), (0, 1, True), (10, 0, True)])
def test_nfdp_refuses(bad: tuple[int, int, bool]) -> None:
    with pytest.raises(SettingsError):
        NfdpSample(*bad)
    with pytest.raises(SettingsError, match="change"):
        NfdpSample(10, 2).profile(0.0, "swap")  # type: ignore[arg-type]


@pytest.mark.parametrize("target", [0.1, 1.0, 8.0])
def test_vector_noise_is_barely_above_the_continuous_optimum(target: float) -> None:
    found = NoisyVector.solve(target, 1e-5, sensitivity=3.0, coordinates=2000, min_clients=20, colluders=5)
    assert found.epsilon(1e-5) <= target
    best = gaussian.sigma(3.0, target, 1e-5)
    assert best <= found.sigma <= best * 1.002


def test_vector_release_has_the_declared_noise() -> None:
    mechanism = NoisyVector(1.0, 5000, 0.7, min_clients=4)
    values = np.random.default_rng(0).normal(size=(50, 100))
    released = sum(mechanism.release(values, os_noise()) for _ in range(4)) * mechanism.grid
    assert variance_p_value(released - 4 * values, 0.49) > 1e-8
    with pytest.raises(DataError):
        mechanism.release(values[:10], os_noise())


def test_clipping_bounds_rows_and_leaves_short_ones() -> None:
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    clipped = clip_rows(rows, 1.0)
    assert np.allclose(clipped, [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])
    with pytest.raises(DataError):
        clip_rows(np.array([[math.inf, 0.0]]), 1.0)


@given(st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_no_client_moves_the_logit_sum_further_than_its_sensitivity(seed: int) -> None:
    mechanism = NoisyLogits(20, 5, 2.0, 30.0, 4)
    logits = np.random.default_rng(seed).normal(0, 10, size=(20, 5))
    assert np.linalg.norm(clip_rows(logits, 2.0)) <= mechanism.sensitivity * (1 + 1e-12)


def test_logits_release_and_solve() -> None:
    mechanism = NoisyLogits.solve(8.0, 1e-5, queries=1000, classes=10, bound=1.5, min_clients=20)
    assert mechanism.sigma / 1.5 == pytest.approx(18.98, rel=2e-3)
    released = mechanism.release(np.zeros((1000, 10)), os_noise()) * mechanism.mechanism.grid
    assert variance_p_value(released, mechanism.sigma**2 / 20) > 1e-8
    with pytest.raises(DataError, match="shape"):
        mechanism.release(np.zeros((10, 1000)), os_noise())


def test_subsampled_costs() -> None:
    poisson = SubsampledGaussian(1000, 0.01, clip=0.5, multiplier=1.1, steps=1000, coordinates=10_000)
    cost = poisson.cost()
    assert isinstance(cost, PoissonCost) and cost.multiplier == pytest.approx(1.1, rel=2e-3) and cost.multiplier < 1.1
    assert epsilon([cost], 1e-5, "pld") == pytest.approx(1.515, abs=0.02)
    fixed = SubsampledGaussian(1000, 50, clip=0.5, multiplier=4.0, steps=10, coordinates=10_000).cost()
    assert isinstance(fixed, CohortCost) and fixed.multiplier == pytest.approx(2.0, rel=2e-3)
    assert epsilon([fixed], 1e-5, "rdp") == pytest.approx(0.756, rel=5e-3)


def test_subsampled_cohorts() -> None:
    poisson = SubsampledGaussian(5000, 0.1, 1.0, 1.0, 1, 10)
    assert stats.binomtest(len(poisson.cohort(os_noise())), 5000, 0.1).pvalue > 1e-6
    fixed = SubsampledGaussian(5000, 100, 1.0, 1.0, 1, 10).cohort(os_noise())
    assert len(np.unique(fixed)) == 100


def test_subsampled_release() -> None:
    mechanism = SubsampledGaussian(10, 0.5, clip=1.0, multiplier=2.0, steps=1, coordinates=4000)
    updates = np.random.default_rng(0).normal(size=(3, 4000))  # far beyond the clip
    released = mechanism.release(updates, os_noise())
    assert variance_p_value(released - clip_rows(updates, 1.0).sum(axis=0), 4.0) > 1e-8
    assert variance_p_value(mechanism.release(np.zeros((0, 4000)), os_noise()), 4.0) > 1e-8
    # each update is rounded by itself: it adds its own whole steps whatever the others are
    full, without = (mechanism.release(some, seeded_noise(3)) for some in (updates, updates[1:]))
    own = mechanism.in_steps(updates[:1])[0]
    assert np.array_equal(np.rint((full - without) / mechanism.grid), own)
    assert np.linalg.norm(own) <= grid_sensitivity(1.0, mechanism.grid, 4000)
    with pytest.raises(DataError):
        mechanism.release(updates[:, :5], os_noise())
    with pytest.raises(SettingsError):
        SubsampledGaussian(10, 1.5, 1.0, 2.0, 1, 5)
    with pytest.raises(SettingsError):
        SubsampledGaussian(10, 0.5, 1.0, 1e-9, 1, 5)


def test_the_shares_that_are_sure_and_secret_make_up_the_whole_noise_of_a_vector() -> None:
    mechanism = NoisyVector(1.0, 3000, 0.7, min_clients=6, colluders=3)
    cost = mechanism.cost()
    assert cost.shares == 3 and cost.share_sigma**2 * 3 * mechanism.grid**2 == pytest.approx(0.49, rel=1e-6)
    assert cost.share_sigma**2 * 3 * mechanism.grid**2 >= 0.49 * (1 - 1e-12)
    noise = sum(mechanism.release(np.zeros((500, 6)), os_noise()) for _ in range(3)) * mechanism.grid
    assert variance_p_value(noise, 0.49) > 1e-8
    assert variance_p_value(noise[:, ::2] - noise[:, 1::2], 0.98) > 1e-8  # each coordinate has noise of its own
    assert variance_p_value(noise[::2] - noise[1::2], 0.98) > 1e-8


def test_what_rounding_adds_to_a_vector_is_paid_for() -> None:
    """Two worlds at the sensitivity, 0.49 of a step off the grid: each coordinate is rounded away from the other's."""
    mechanism = NoisyVector(1.0, 2, 0.7)
    apart = np.array([999.02, 0.0])
    apart[1] = math.sqrt(1 / mechanism.grid**2 - apart[0] ** 2)
    one = np.full(2, 0.49) * mechanism.grid
    other = one + apart * mechanism.grid
    assert np.linalg.norm(one - other) == pytest.approx(1.0, rel=1e-12)
    moved = mechanism.release(other, seeded_noise(1)) - mechanism.release(one, seeded_noise(1))
    assert 1 / mechanism.grid * (1 + 1e-6) < np.linalg.norm(moved) <= mechanism.cost().sensitivity


def test_no_logits_move_their_release_further_than_is_paid_for() -> None:
    mechanism = NoisyLogits(20, 5, 2.0, 30.0, 6, colluders=2)
    assert mechanism.cost().shares == 4 and mechanism.cost_alone().shares == 1
    assert mechanism.cost().share_sigma * 2 * mechanism.mechanism.grid == pytest.approx(30.0, rel=1e-6)
    huge = np.full((20, 5), 1e6)
    up, none, down = (mechanism.release(x, seeded_noise(1)) for x in (huge, 0 * huge, -huge))
    for cost, moved in ((mechanism.cost(), up - none), (mechanism.cost_alone(), up - down)):
        assert cost.sensitivity * 0.99 < np.linalg.norm(moved) <= cost.sensitivity


def test_the_statements_about_logits_count_secret_shares_only() -> None:
    mechanism = NoisyLogits(20, 5, 2.0, 30.0, 6, colluders=2)
    total, alone = mechanism.guarantees(1e-5)
    assert total.epsilon == mechanism.cost().epsilon(1e-5) and alone.epsilon == mechanism.cost_alone().epsilon(1e-5)
    assert mechanism.guarantees(1e-5, secure=True, arrived=7)[0].epsilon == pytest.approx(
        replace(mechanism.cost(), shares=5).epsilon(1e-5)
    )
    assert {g.status for g in mechanism.guarantees(1e-5, seeded=True)} == {"seeded"}


def test_laplace_pays_for_every_value_and_never_uses_less_than_its_scale() -> None:
    mechanism = NoisyValues(1.0, 2.0006, 3)
    assert mechanism.cost().count == 3 and epsilon([mechanism.cost()], 1e-9, "pld") == pytest.approx(1.5, rel=2e-3)
    assert mechanism.scale_steps * mechanism.grid >= 2.0006
    steps = NoisyValues(1.0, 2.0, 4000).release(np.zeros((2000, 2)), os_noise())
    # Laplace noise has the variance 2 b^2 and the fourth moment 24 b^4: six standard deviations of a mean of squares
    for off, values in ((steps, 4000), ((steps[:, 0] - steps[:, 1]) / math.sqrt(2), 2000)):
        assert np.mean(off**2) == pytest.approx(8.0, abs=6 * math.sqrt(20 * 16 / values))


def test_a_poisson_cohort_draws_each_unit_by_itself() -> None:
    mechanism = SubsampledGaussian(400, 0.5, 1.0, 1.0, 1, 10)
    cohorts = np.zeros((400, 400), dtype=bool)
    for row in cohorts:
        row[mechanism.cohort(os_noise())] = True
    sizes = cohorts.sum(axis=1) - 200  # nearly normal, of variance n q (1 - q)
    assert variance_p_value(sizes, 100.0) > 1e-8
    assert variance_p_value(cohorts.sum(axis=0) - 200, 100.0) > 1e-8
    both = int((cohorts[:, ::2] & cohorts[:, 1::2]).sum())
    assert stats.binomtest(both, 400 * 200, 0.25).pvalue > 1e-8


def test_a_fixed_cohort_draws_every_pair_alike() -> None:
    mechanism = SubsampledGaussian(8, 3, 1.0, 1.0, 1, 10)
    together = np.zeros((8, 8))
    for _ in range(2000):
        drawn = mechanism.cohort(os_noise())
        together[np.ix_(drawn, drawn)] += 1
    pairs = together[np.triu_indices(8, 1)]
    assert pairs.sum() == 2000 * 3 and stats.chisquare(pairs).pvalue > 1e-8
    assert stats.chisquare(np.diag(together)).pvalue > 1e-8


def test_subsampled_noise_is_drawn_for_each_coordinate_and_pays_for_rounding() -> None:
    mechanism = SubsampledGaussian(10, 0.5, clip=1.0, multiplier=2.0, steps=3, coordinates=4000)
    noise = mechanism.release(np.zeros((1, 4000)), os_noise())
    assert variance_p_value(noise[::2] - noise[1::2], 8.0) > 1e-8
    everybody = replace(mechanism, rate=1.0).cost()
    assert everybody.count == 3 and 0.5 * 1.0009 < everybody.mu <= 0.5 * 1.002
    assert replace(mechanism, rate=10).cost().mu == pytest.approx(2 * everybody.mu, rel=2e-3)
