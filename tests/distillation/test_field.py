"""Labels under much noise: the known transition, the limit without noise, and more right labels than by propagation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.datasets import load_digits

from fedballot.distillation.field import even_labels, reads_better, transition
from fedballot.distillation.propagation import neighbour_graph, spread_labels
from fedballot.distillation.students import label_pool

CLASSES, EACH, VOTES = 5, 200, 50


def blobs(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features of five clouds that touch, their classes, and 50 right votes on each record."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(CLASSES), EACH)
    features = 2 * rng.standard_normal((CLASSES, 6))[truth] + rng.standard_normal((len(truth), 6))
    return features, truth, VOTES * np.eye(CLASSES)[truth]


def test_transition_of_the_potts_model():
    assert transition(2) == 2
    assert transition(3) == pytest.approx(4 * math.log(2))
    assert transition(10) == pytest.approx(4.9438, abs=1e-3)
    assert transition(3) > transition(2)


def test_without_noise_the_label_is_the_winner():
    features, truth, _ = blobs()
    moved = truth.copy()
    moved[[0, -1]] = truth[[-1, 0]]  # two records among neighbours of another class; classes stay even
    votes = VOTES * np.eye(CLASSES)[moved]
    graph = neighbour_graph(features, 5)
    labels, confidence = even_labels(graph, votes - votes.mean(axis=0), sigma=1e-3, each=VOTES)
    assert np.array_equal(labels, moved)
    assert (confidence > 0).all()


def test_real_digits_keep_their_class_where_propagation_gives_it_away():
    digits = load_digits()
    truth, graph, sigma = digits.target, neighbour_graph(digits.data / 16, 5), 120.0
    votes = 30 * np.eye(10)[truth]
    right, before = [], []
    for seed in range(4):
        noisy = votes + sigma * np.random.default_rng(seed).standard_normal(votes.shape)
        noisy -= noisy.mean(axis=0)
        right.append(np.mean(even_labels(graph, noisy, sigma=sigma, each=30)[0] == truth))
        before.append(np.mean(spread_labels(graph, noisy, 0.99)[0] == truth))
    assert np.mean(right) > 0.92 > 0.87 > np.mean(before)


@pytest.mark.parametrize(("ratio", "even", "better"), [(2.0, True, True), (1.5, False, False), (0.9, True, False)])
def test_where_both_may_be_right_the_tally_decides(ratio, even, better):
    """A pool of real digits whose classes are even, and one in which three of them are half as common."""
    digits = load_digits()
    rare = np.isin(digits.target, [2, 5, 8]) & (np.random.default_rng(0).random(len(digits.target)) < 0.55)
    x, truth = (digits.data, digits.target) if even else (digits.data[~rare], digits.target[~rare])
    graph, sigma = neighbour_graph(x / 16, 5), ratio * 30
    votes = 22.5 * np.eye(10)[truth] + 0.75
    tally = np.rint(votes + sigma * np.random.default_rng(1).standard_normal(votes.shape))
    assert reads_better(graph, tally, np.arange(len(truth)), sigma=sigma, alpha=0.99) == better
    if ratio > 1:
        centred = tally - tally.mean(axis=0)
        found = np.mean(even_labels(graph, centred, sigma=sigma, each=30)[0] == truth)
        assert (found > np.mean(spread_labels(graph, centred, 0.99)[0] == truth)) == better


@pytest.mark.parametrize(("sigma", "field"), [(0.5 * VOTES, False), (5.0 * VOTES, True)])
def test_the_noise_decides_how_the_pool_is_labelled(sigma, field):
    features, _, votes = blobs()
    tally = np.rint(votes + sigma * np.random.default_rng(1).standard_normal(votes.shape)).astype(np.int64)
    queries = np.arange(len(tally))
    known = label_pool(tally, queries, features, pool_size=len(tally), neighbours=5, spread=0.99, sigma=sigma)
    centred = tally - tally.mean(axis=0)
    graph = neighbour_graph(features, 5)
    expected, _ = even_labels(graph, centred, sigma=sigma, each=tally.sum() / len(tally))
    assert reads_better(graph, tally.astype(float), queries, sigma=sigma, alpha=0.99) == field
    assert known.prior is None
    assert np.array_equal(known.labels, expected) == field
