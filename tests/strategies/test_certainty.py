"""Certainty, evidence and soft labels: exact without noise, sane without information."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedballot.strategies.certainty import (
    certainty,
    evidence,
    planned_dimension,
    planned_ridge,
    score,
    soft_labels,
    weighted_evidence,
)


def sums_of(rng, counts, means):
    """Exact class sums (K, C, d) of parties that hold counts (K, C) records at the class means (C, d)."""
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
    means, z = rng.normal(size=(3, 4)), rng.normal(size=(20, 4))
    counts = np.array([[100.0, 0, 0], [0, 50, 0], [0, 10, 30]])
    parts = np.array([evidence(z, s, np.eye(4), 0.0) for s in sums_of(rng, counts, means)])
    centred = means - means.mean(axis=0)
    assert np.allclose(weighted_evidence(parts, counts), z @ centred.T)
    # one party that holds everything says the same
    alone = evidence(z, sums_of(rng, counts[:1] * 0 + 7, means)[0], np.eye(4), 0.0)
    assert np.allclose(weighted_evidence(alone[None], np.full((1, 3), 7.0)), z @ centred.T)


def test_parties_without_a_class_do_not_dilute_it():
    rng = np.random.default_rng(1)
    means = np.eye(2, 8)
    labels = np.arange(400) % 2
    z = means[labels] + rng.normal(0, 0.3, (400, 8))
    counts = np.zeros((20, 2))
    counts[:, 0], counts[0] = 100, [0, 100]
    noise = rng.normal(0, 20, (20, 2, 8))
    parts = np.array([evidence(z, s, np.eye(8), 0.0) for s in sums_of(rng, counts, means) + noise])
    weighted, plain = (
        np.mean(weighted_evidence(parts, w).argmax(axis=1) == labels) for w in (counts, np.full((20, 2), 50.0))
    )
    assert weighted > 0.95 and weighted > plain + 0.1  # 0.985 and 0.79; over 8 draws at least 0.13 apart


def test_a_class_that_nobody_holds_never_wins_and_nothing_known_is_uniform():
    parts = np.random.default_rng(2).normal(size=(3, 10, 4))
    weights = np.ones((3, 4))
    weights[:, 2] = 0
    found = weighted_evidence(parts, weights)
    assert np.isfinite(found).all() and (found.argmax(axis=1) != 2).all()
    assert not weighted_evidence(parts, np.zeros((3, 4))).any()
    assert np.allclose(soft_labels(np.zeros((5, 4))), 0.25)


def test_soft_labels_do_not_know_the_scale():
    f = np.random.default_rng(3).normal(size=(50, 6))
    assert np.allclose(soft_labels(f), soft_labels(1e6 * f)) and np.allclose(soft_labels(f).sum(axis=1), 1)


def test_evidence_is_linear_and_the_ridge_shrinks_it():
    rng = np.random.default_rng(4)
    z, one, other = rng.normal(size=(7, 3)), rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    cov = np.cov(rng.normal(size=(3, 50)))
    both = evidence(z, one, cov, 0.1) + evidence(z, other, cov, 0.1)
    assert np.allclose(evidence(z, one + other, cov, 0.1), both)
    assert np.linalg.norm(evidence(z, one, cov, 10.0)) < np.linalg.norm(evidence(z, one, cov, 0.1))


@pytest.mark.parametrize(("multiplier", "dimension"), [(0.0, 256), (6.0, 128), (16.3, 64), (28.1, 32), (223.0, 8)])
def test_the_dimension_falls_with_the_noise(multiplier, dimension):
    assert planned_dimension(2500, 20, 10, multiplier) == dimension


def test_the_ridge_is_the_noise_of_a_class_mean():
    assert planned_ridge(1000, 10, 10, 0.0) == 0
    # 10 parties with 100 records of a class each: variance of the mean of 1000 records is 10 * 4 / 1000^2
    assert planned_ridge(1000, 10, 10, 4.0) * 0.02 == pytest.approx(10 * 4 / 1000**2)


def test_scores_are_a_stable_sigmoid():
    x = np.array([[1.0, 0], [1, 1e4], [1, -1e4]])
    assert np.allclose(score(x, np.array([0.0, 1.0])), [0.5, 1, 0])
