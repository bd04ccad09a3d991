"""Certainty, evidence and soft labels: exact without noise, sane without information."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedballot.distillation.certainty import (
    certainty,
    discriminants,
    heads,
    planned_dimension,
    pooled,
    score,
    soft_labels,
)


def sums_of(rng, counts, means):
    """Exact class sums (K, C, d) of clients that hold counts (K, C) records at the class means (C, d)."""
    return counts[:, :, None] * means[None]


def test_without_noise_certainty_is_the_counts_and_with_endless_noise_an_even_split():
    counts = np.array([[90.0, 10, 0], [0, 0, 60]])
    assert np.array_equal(certainty(counts, 0.0), counts)
    assert np.allclose(certainty(counts, 1e9), [[100 / 3] * 3, [20] * 3])
    even = np.full((2, 3), 20.0)
    assert np.array_equal(certainty(even, 0.0), even)  # nothing deviates: no division by zero


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 1e4))
def test_certainty_lies_between_nothing_and_all_records(seed, variance):
    counts = np.random.default_rng(seed).normal(10, 50, (4, 5))
    found = certainty(counts, variance)
    assert (found >= 0).all() and (found <= np.maximum(counts.sum(axis=1, keepdims=True), 0) + 1e-9).all()


def test_the_matched_filter_finds_class_means_whoever_holds_them():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(3, 4))
    counts = np.array([[100.0, 0, 0], [0, 50, 0], [0, 10, 30]])
    found, variances = pooled(sums_of(rng, counts, means), counts, 9.0)
    assert np.allclose(found, means) and np.allclose(variances, 9.0 / (counts**2).sum(axis=0))
    # one client that holds everything says the same
    alone, _ = pooled(sums_of(rng, np.full((1, 3), 7.0), means), np.full((1, 3), 7.0), 9.0)
    assert np.allclose(alone, means)


def test_clients_without_a_class_do_not_dilute_it():
    rng = np.random.default_rng(1)
    means = np.eye(2, 8)
    counts = np.zeros((20, 2))
    counts[:, 0], counts[0] = 100, [0, 100]
    sums = sums_of(rng, counts, means) + rng.normal(0, 5, (20, 2, 8))
    weighted, plain = (pooled(sums, w, 25.0)[0][1] for w in (counts, np.full((20, 2), 50.0)))
    assert np.linalg.norm(weighted - means[1]) < 0.3 and np.linalg.norm(plain) < 0.3


def test_a_class_that_nobody_holds_never_wins_and_nothing_known_is_uniform():
    rng = np.random.default_rng(2)
    sums, z = rng.normal(size=(3, 4, 5)), rng.normal(size=(10, 5))
    weights = np.ones((3, 4))
    weights[:, 2] = 0
    found = discriminants(z, *pooled(sums, weights, 1.0), np.eye(5))
    assert np.isfinite(found).all() and (found[:, 2] <= found.min(axis=1)).all()
    assert not discriminants(z, *pooled(sums, np.zeros((3, 4)), 1.0), np.eye(5)).any()
    assert np.allclose(soft_labels(np.zeros((5, 4))), 0.25)


def spectrum(rng, classes=10, d=100, informative=10):
    """Class means that differ along the first few of d eigenvectors, and the covariance."""
    values = 1.0 / np.arange(1, d + 1)
    means = np.zeros((classes, d))
    means[:, :informative] = rng.normal(size=(classes, informative)) * np.sqrt(0.5 * values[:informative])
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return means @ axes.T, axes @ np.diag(values) @ axes.T


def test_without_noise_heads_are_the_discriminant_and_noise_alone_gets_none():
    rng = np.random.default_rng(3)
    means, covariance = spectrum(rng)
    plain = np.linalg.solve(covariance, (means - means.mean(axis=0)).T).T
    assert np.allclose(heads(means, np.zeros(10), covariance), plain, atol=1e-6)
    noise = rng.normal(0, 1, (10, 100))
    left = np.linalg.norm(heads(noise, np.ones(10), covariance)) / np.linalg.norm(np.linalg.solve(covariance, noise.T))
    assert left < 0.15


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(1e-6, 1e3))
def test_heads_turn_with_the_axes_and_do_not_know_the_scale(seed, size):
    rng = np.random.default_rng(seed)
    means, covariance = spectrum(rng, d=12, informative=4)
    noise = np.full(10, 0.05)
    turn = np.linalg.qr(rng.normal(size=(12, 12)))[0]
    found = heads(means, noise, covariance)
    assert np.allclose(heads(means @ turn, noise, turn.T @ covariance @ turn), found @ turn, atol=1e-6)
    assert np.allclose(heads(size * means, size**2 * noise, size**2 * covariance) * size, found, atol=1e-6)


def test_shrinking_by_what_lies_between_classes_beats_the_plain_discriminant_by_far():
    right = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        means, covariance = spectrum(rng)
        labels = np.arange(2000) % 10
        z = means[labels] + rng.multivariate_normal(np.zeros(100), covariance, 2000, method="cholesky")
        noisy = means + rng.normal(0, 0.2, means.shape)
        plain = np.linalg.solve(covariance, (noisy - noisy.mean(axis=0)).T).T
        found = heads(noisy, np.full(10, 0.04), covariance)
        right.append([np.mean((z @ w.T).argmax(axis=1) == labels) for w in (found, plain)])
    found, plain = np.mean(right, axis=0)
    assert found > plain + 0.1


def test_soft_labels_do_not_know_the_scale():
    f = np.random.default_rng(3).normal(size=(50, 6))
    assert np.allclose(soft_labels(f), soft_labels(1e6 * f)) and np.allclose(soft_labels(f).sum(axis=1), 1)


@pytest.mark.parametrize(("multiplier", "dimension"), [(0.0, 256), (6.0, 128), (16.3, 64), (28.1, 32), (223.0, 8)])
def test_the_dimension_falls_with_the_noise(multiplier, dimension):
    assert planned_dimension(2500, 20, 10, multiplier) == dimension


def test_scores_are_a_stable_sigmoid():
    x = np.array([[1.0, 0], [1, 1e4], [1, -1e4]])
    assert np.allclose(score(x, np.array([0.0, 1.0])), [0.5, 1, 0])
