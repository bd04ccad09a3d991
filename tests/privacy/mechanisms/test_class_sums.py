"""One noisy release of class sums: sensitivity on the worst neighbours, noise, projection, shapes."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedballot.core.errors import DataError, SettingsError
from fedballot.privacy.accounting import gaussian
from fedballot.privacy.audit.statistics import variance_p_value
from fedballot.privacy.mechanisms.class_sums import SENSITIVITY, ClassSums, class_sums
from fedballot.privacy.noise.randomness import os_noise, seeded_noise


def unit(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    rows = rng.normal(size=(n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def scale(d: int, signed: bool) -> np.ndarray:
    """What the mechanism multiplies counts and sums by before it adds noise of sigma."""
    share = ClassSums(2, d, 1.0, signed).share
    return np.sqrt(np.r_[share, np.full(d, 1 - share)])


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 6), st.integers(2, 5), st.booleans())
def test_replacing_a_record_moves_the_release_by_at_most_sqrt_2(seed, n, d, classes, signed):
    rng = np.random.default_rng(seed)
    z, y = unit(rng, n, d), rng.integers(classes, size=n)
    other_z, other_y = z.copy(), y.copy()
    other_z[0], other_y[0] = unit(rng, 1, d)[0] * rng.uniform(), rng.integers(classes)
    if not signed:
        z, other_z = np.abs(z), np.abs(other_z)
    moved = (class_sums(z, y, classes) - class_sums(other_z, other_y, classes)) * scale(d, signed)
    assert np.linalg.norm(moved) <= SENSITIVITY + 1e-12


@pytest.mark.parametrize("signed", [True, False])
def test_each_record_is_rounded_by_itself_so_that_the_sum_is_exact(signed):
    """A record adds its own whole number of steps whatever the others are, and no more than is paid for."""
    rng = np.random.default_rng(7)
    z, y = np.abs(unit(rng, 3000, 8)), rng.integers(3, size=3000)
    noisy = ClassSums(3, 8, 1.0, signed)
    without, full = (noisy.steps(z[n:], y[n:], seeded_noise(1)) for n in (1, 0))
    own = np.rint(np.r_[1.0, z[0]] * scale(8, signed) / noisy.mechanism.grid)
    assert np.array_equal((full - without)[y[0]], own) and np.count_nonzero(full - without) <= 9
    other = noisy.steps(np.r_[np.eye(8)[:1], z[1:]], np.r_[(y[0] + 1) % 3, y[1:]], seeded_noise(1))
    assert np.linalg.norm(full - other) <= noisy.cost().sensitivity


@pytest.mark.parametrize("label", [0, 1])
def test_the_bound_is_reached_without_negative_coordinates_too(label):
    z = np.array([[1.0, 0.0]])
    moved = class_sums(z, np.array([0]), 2) - class_sums(z if label else z[:, ::-1], np.array([label]), 2)
    share = ClassSums(2, 2, 1.0, False).share
    across = np.linalg.norm(moved * scale(2, False))
    assert across == pytest.approx(SENSITIVITY if label else SENSITIVITY * math.sqrt(1 - share))


def test_a_negative_coordinate_needs_the_noise_for_signed_ones():
    z = np.array([[0.6, -0.8]])
    ClassSums(2, 2, 1.0).release(z, np.array([0]), seeded_noise(0))
    with pytest.raises(DataError, match="negative"):
        ClassSums(2, 2, 1.0, signed=False).release(z, np.array([0]), seeded_noise(0))


@pytest.mark.parametrize("label", [0, 1])
def test_the_bound_is_reached_within_a_class_and_across_classes(label):
    z = np.array([[1.0, 0.0]])
    moved = class_sums(z, np.array([0]), 2) - class_sums(-z if label == 0 else z, np.array([label]), 2)
    assert np.linalg.norm(moved * scale(2, True)) == pytest.approx(SENSITIVITY)


@pytest.mark.parametrize(("epsilon", "multiplier"), [(0.1, 30.74956613197745), (0.5, 7.031826675582491)])
def test_sigma_is_the_analytic_gaussians(epsilon, multiplier):  # multipliers: golden fedaux.compose.analytic
    found = ClassSums.solve(epsilon, 1e-5, classes=10, features=32)
    assert found.sigma == pytest.approx(multiplier * SENSITIVITY, rel=3e-3) and found.sigma >= multiplier * SENSITIVITY
    assert found.mechanism.epsilon(1e-5) <= epsilon
    assert found.sigma == pytest.approx(gaussian.sigma(SENSITIVITY, epsilon, 1e-5), rel=3e-3)
    assert found.variance == pytest.approx(4 * multiplier**2, rel=6e-3)


@pytest.mark.parametrize("signed", [True, False])
def test_the_release_is_the_truth_plus_the_declared_noise_and_the_total_is_exact(signed):
    rng = np.random.default_rng(0)
    z, y = unit(rng, 300, 40), rng.integers(10, size=300)
    z = z if signed else np.abs(z)
    mechanism = ClassSums.solve(1.0, 1e-5, classes=10, features=40, signed=signed)
    truth = class_sums(z, y, 10)
    off = np.array([mechanism.release(z, y, os_noise()) - truth for _ in range(30)])
    assert np.abs(off[:, :, 0].sum(axis=1)).max() < 1e-9
    assert variance_p_value(off[:, :, 1:].ravel(), mechanism.variance) > 1e-5
    assert np.mean(off[:, :, 0] ** 2) == pytest.approx(mechanism.count_variance * 9 / 10, rel=0.5)


def test_no_noise_in_the_limit_and_the_same_shape_for_one_class():
    rng = np.random.default_rng(1)
    z = unit(rng, 50, 8)
    nearly = ClassSums(5, 8, 1e-2)
    one = nearly.release(z, np.full(50, 3), seeded_noise(0))
    all_classes = nearly.release(z, np.arange(50) % 5, seeded_noise(0))
    assert one.shape == all_classes.shape == (5, 9)
    assert np.allclose(one, class_sums(z, np.full(50, 3), 5), atol=0.1)
    assert one[3, 0] == pytest.approx(50, abs=0.1) and one[:, 0].sum() == pytest.approx(50)


def test_what_does_not_fit_is_refused():
    z = np.full((3, 2), 0.5)
    with pytest.raises(DataError, match="longer than 1"):
        class_sums(3 * z, np.zeros(3, int), 2)
    with pytest.raises(DataError, match="longer than 1"):
        class_sums(z * np.nan, np.zeros(3, int), 2)
    with pytest.raises(DataError, match="0 to 1"):
        class_sums(z, np.full(3, 2), 2)
    with pytest.raises(DataError, match="expected"):
        class_sums(z, np.zeros(2, int), 2)
    with pytest.raises(DataError, match=r"\(n, 4\)"):
        ClassSums(2, 4, 1.0).release(z, np.zeros(3, int), seeded_noise(0))
    with pytest.raises(SettingsError):
        ClassSums(1, 4, 1.0)
    with pytest.raises(SettingsError):
        ClassSums(2, 4, 0.0)


def test_a_record_that_rounding_has_made_longer_than_1_counts_as_one_of_norm_1():
    z = np.array([[1 + 9e-7, 0.0]])
    assert class_sums(z, np.array([0]), 2)[0, 1] == 1.0


def test_the_shares_that_are_sure_and_secret_make_up_the_whole_noise():
    rng = np.random.default_rng(3)
    z, y = unit(rng, 40, 30), rng.integers(50, size=40)
    mechanism = ClassSums(50, 30, 0.7, min_clients=6, colluders=3)
    assert mechanism.cost().shares == 3
    off = sum(mechanism.steps(z, y, os_noise()) for _ in range(3)) * mechanism.mechanism.grid
    off -= 3 * class_sums(z, y, 50) * scale(30, True)
    assert variance_p_value(off, 0.49) > 1e-8
    assert variance_p_value(off[::2] - off[1::2], 0.98) > 1e-8  # each class has noise of its own, and each coordinate
    assert variance_p_value(off[:, 1::2] - off[:, :-1:2], 0.98) > 1e-8


def test_the_statements_count_secret_shares_only():
    mechanism = ClassSums(5, 30, 20.0, min_clients=6, colluders=2)
    total, alone = mechanism.guarantees(1e-5, secure=False)
    assert total.epsilon == mechanism.cost().epsilon(1e-5)
    assert alone.epsilon == replace(mechanism.cost(), shares=1).epsilon(1e-5) > 1.9 * total.epsilon
    more = mechanism.guarantees(1e-5, secure=True, arrived=7, seeded=True)
    assert more[0].epsilon == replace(mechanism.cost(), shares=5).epsilon(1e-5) and more[0].status == "seeded"
