"""Exact samplers: distribution, independence of the source, limits and speed."""

import math
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedballot.core.errors import DataError, SettingsError
from fedballot.privacy.noise import samplers as noise
from fedballot.privacy.noise.randomness import (
    NoiseSource,
    bernoulli,
    bernoulli_exp,
    os_noise,
    secret_noise,
    seeded_noise,
    uniform_below,
)


def chi_square(drawn: np.ndarray, log_weight) -> float:
    """p-value of integers against a symmetric law, cells of expectation below 20 pooled at both ends."""
    reach = int(np.abs(drawn).max()) + 200
    support = np.arange(-reach, reach + 1)
    law = np.exp(log_weight(support))
    expected = law / law.sum() * len(drawn)
    counts = np.bincount(drawn + reach, minlength=2 * reach + 1)
    kept = expected >= 20
    observed = np.append(counts[kept], counts[~kept].sum())
    wanted = np.append(expected[kept], expected[~kept].sum())
    return float(stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue)


@pytest.mark.parametrize("sigma", [0.4, 0.9, 1.0, 2.5, 31.6, 200.0])
def test_discrete_gaussian_has_its_law(sigma: float) -> None:
    variance = noise.representable_variance(sigma)
    drawn = noise.discrete_gaussian(variance, 200_000, seeded_noise(1))
    assert chi_square(drawn, lambda x: -(x**2) / (2 * float(variance))) > 1e-4


def test_a_sampler_two_percent_off_is_caught() -> None:
    drawn = noise.discrete_gaussian(noise.representable_variance(2.5), 200_000, seeded_noise(1))
    assert chi_square(drawn, lambda x: -(x**2) / (2 * (2.5 * 1.02) ** 2)) < 1e-6


def test_the_tails_of_a_discrete_gaussian_are_there() -> None:
    drawn = noise.discrete_gaussian(noise.representable_variance(200.0), 300_000, seeded_noise(3))
    beyond = int((np.abs(drawn) > 804).sum())
    assert stats.binomtest(beyond, len(drawn), 2 * stats.norm.sf(804.5 / 200)).pvalue > 1e-4


@pytest.mark.parametrize("sigma", [2000.0, 7e3, 3e5, 1e9])
def test_large_sigma_needs_long_integers_and_stays_exact(sigma: float) -> None:
    drawn = noise.discrete_gaussian(noise.representable_variance(sigma), 20_000, seeded_noise(2))
    assert stats.kstest(drawn / sigma, "norm").pvalue > 1e-4


@pytest.mark.parametrize("scale", [1, 2, 20, 3000])
def test_discrete_laplace_has_its_law(scale: int) -> None:
    drawn = noise.discrete_laplace(scale, 200_000, seeded_noise(11))
    assert chi_square(drawn, lambda x: -np.abs(x) / scale) > 1e-4


@pytest.mark.parametrize(
    ("numerator", "denominator"), [(0, 1), (1, 3), (1, 1), (7, 2), (1, 1 << 52), (10**19, 3 * 10**18)]
)
def test_bernoulli_exp(numerator: int, denominator: int) -> None:
    kind = np.int64 if max(numerator, denominator) < 2**63 else object
    size = 40_000
    hits = bernoulli_exp(np.full(size, numerator, dtype=kind), np.full(size, denominator, dtype=kind), seeded_noise(4))
    assert stats.binomtest(int(hits.sum()), size, math.exp(-numerator / denominator)).pvalue > 1e-4


def test_long_and_short_bernoulli_agree() -> None:
    size = 40_000
    hits = bernoulli(np.full(size, 3 << 70, dtype=object), np.full(size, 4 << 70, dtype=object), seeded_noise(5))
    assert stats.binomtest(int(hits.sum()), size, 0.75).pvalue > 1e-4


@given(st.integers(1, 2**62), st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_uniform_below_stays_below(bound: int, seed: int) -> None:
    drawn = uniform_below(np.full(20, bound, dtype=np.int64), seeded_noise(seed))
    assert drawn.min() >= 0 and drawn.max() < bound


def test_uniform_below_rejects_the_incomplete_block() -> None:
    words = [np.array([2**64 - 1], dtype=np.uint64), np.array([7], dtype=np.uint64)]
    source = NoiseSource(False, lambda count: words.pop(0))
    assert uniform_below(np.array([10], dtype=np.int64), source).tolist() == [7]  # 2^64 - 1 = 5 (mod 10) is refused


def test_uniform_below_is_uniform() -> None:
    drawn = uniform_below(np.full(100_000, 7, dtype=np.int64), os_noise())
    assert stats.chisquare(np.bincount(drawn, minlength=7)).pvalue > 1e-6


@given(st.floats(1e-3, 1e9))
@settings(max_examples=200, deadline=None)
def test_representable_variance_is_barely_larger(sigma: float) -> None:
    variance = noise.representable_variance(sigma)
    assert Fraction(sigma) ** 2 <= variance
    assert float(variance) <= sigma**2 * (1 + 3e-7) + 1e-6
    assert noise.discrete_gaussian(variance, 3, seeded_noise(0)).shape == (3,)


def test_sources() -> None:
    variance = noise.representable_variance(5)
    first, again = (noise.discrete_gaussian(variance, 1000, seeded_noise(9)) for _ in range(2))
    assert np.array_equal(first, again) and not seeded_noise(9).private
    secret = [noise.discrete_gaussian(variance, 1000, os_noise()) for _ in range(2)]
    assert not np.array_equal(*secret) and os_noise().private


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, 2.0**31])
def test_refuses_impossible_sigma(bad: float) -> None:
    with pytest.raises(SettingsError, match="sigma"):
        noise.representable_variance(bad)


def test_refuses_impossible_parameters() -> None:
    with pytest.raises(SettingsError, match="variance"):
        noise.discrete_gaussian(Fraction(0), 1, seeded_noise(0))
    with pytest.raises(SettingsError, match="scale"):
        noise.discrete_laplace(0, 1, seeded_noise(0))


def test_no_noise_to_draw() -> None:
    assert noise.discrete_gaussian(Fraction(4), 0, os_noise()).shape == (0,)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=20), st.floats(1e-6, 10))
@settings(deadline=None)
def test_rounding_to_a_grid_moves_at_most_half_a_step(values: list[float], grid: float) -> None:
    x = np.array(values)
    steps = noise.round_to_grid(x, grid)
    assert steps.dtype == np.int64
    assert np.all(np.abs(steps * grid - x) <= grid / 2 * (1 + 1e-9) + 1e-12)


@given(st.integers(0, 2**32), st.floats(1e-3, 1))
@settings(max_examples=50, deadline=None)
def test_grid_sensitivity_covers_the_rounding(seed: int, grid: float) -> None:
    one, other = np.random.default_rng(seed).normal(size=(2, 30))
    moved = np.linalg.norm(noise.round_to_grid(one, grid) - noise.round_to_grid(other, grid))
    assert moved <= noise.grid_sensitivity(float(np.linalg.norm(one - other)), grid, 30)


def test_grid_refuses_what_cannot_be_rounded() -> None:
    with pytest.raises(DataError):
        noise.round_to_grid(np.array([math.nan]), 0.1)
    with pytest.raises(SettingsError):
        noise.round_to_grid(np.array([1.0]), 0.0)


@pytest.mark.slow
def test_a_million_draws_take_seconds() -> None:
    start = time.process_time()
    noise.discrete_gaussian(noise.representable_variance(30), 1_000_000, os_noise())
    assert time.process_time() - start < 15


def test_long_bernoulli_reads_on_where_the_digits_are_equal() -> None:
    """3/4 is 0.11000... in binary: a word that equals its first 62 digits is no hit: no digits are left to be below."""
    words = [np.array([3 << 62], dtype=np.uint64), np.array([4], dtype=np.uint64)]
    source = NoiseSource(False, lambda count: words.pop(0))
    drawn = bernoulli(np.array([3 << 70], dtype=object), np.array([4 << 70], dtype=object), source)
    assert drawn.tolist() == [False] and not words


def test_secret_noise_is_the_operating_systems_and_a_seeded_one_is_the_clients_own() -> None:
    secret = [secret_noise(None, 3) for _ in range(2)]
    assert all(source.private for source in secret)
    assert not np.array_equal(*(source.words(8) for source in secret))
    seeded = [secret_noise(5, client_id, stream) for client_id, stream in ((3, 0), (4, 0), (3, 1))]
    assert not any(source.private for source in seeded)
    assert len({source.words(8).tobytes() for source in seeded}) == 3
