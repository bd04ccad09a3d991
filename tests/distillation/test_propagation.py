import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from fedballot.core.errors import SettingsError
from fedballot.distillation.propagation import (
    argmax_labels,
    even_scales,
    half_borne_out,
    neighbour_graph,
    propagate,
)


def dense_scores(features, histogram, neighbours, alpha):
    """The definition, densely and loop by loop."""
    n = len(features)
    d = cdist(features, features)
    w = np.zeros((n, n))
    for i in range(n):
        near = [j for j in np.argsort(d[i], kind="stable") if j != i][:neighbours]
        for j in near:
            w[i, j] = np.exp(-2 * (d[i, j] / d[i, near[-1]]) ** 2)
    w = np.maximum(w, w.T)
    s = w / np.sqrt(np.outer(w.sum(1), w.sum(1)))
    z = np.linalg.solve(np.eye(n) - alpha * s, histogram - histogram.mean(0))
    z -= z.mean(0)
    spread = z.std(0)
    return z * np.sqrt(spread.mean() / spread)


@pytest.mark.parametrize(("n", "classes", "neighbours", "alpha"), [(80, 4, 5, 0.99), (30, 2, 3, 0.5), (4, 3, 5, 0.9)])
def test_equals_the_dense_solution(n, classes, neighbours, alpha):
    rng = np.random.default_rng(n)
    features = rng.normal(size=(n, 6))
    histogram = rng.normal(0, 20, size=(n, classes))
    labels, confidence = propagate(features, histogram, neighbours=neighbours, alpha=alpha)
    scores = dense_scores(features, histogram, min(neighbours, n - 1), alpha)
    top = np.sort(scores, axis=1)
    np.testing.assert_array_equal(labels, scores.argmax(1))
    np.testing.assert_allclose(confidence, top[:, -1] - top[:, -2], rtol=1e-4, atol=1e-4)
    assert labels.dtype == np.int64 and confidence.dtype == np.float32


def test_repairs_digits_that_the_noisy_argmax_gets_wrong():
    data = load_digits()
    rng = np.random.default_rng(0)
    votes = np.eye(10)[data.target] * 30 + rng.normal(0, 30, size=(len(data.target), 10))
    before = (argmax_labels(votes)[0] == data.target).mean()
    labels, confidence = propagate(data.data.astype(np.float32), votes)
    right = labels == data.target
    assert before < 0.5
    assert right.mean() > 0.95
    sure = confidence >= np.quantile(confidence, 0.2)
    assert right[sure].mean() > right[~sure].mean()


@pytest.mark.parametrize("seed", range(3))
def test_a_class_that_few_vote_for_is_not_swallowed_by_its_neighbours(seed):
    data, rng = load_digits(), np.random.default_rng(seed)
    turnout = np.where(np.isin(data.target, [3, 5, 9]), 8, 100)  # clients that do not abstain
    votes = np.eye(10)[data.target] * turnout[:, None] + rng.normal(0, 20, size=(len(data.target), 10))
    labels, _ = propagate(data.data.astype(np.float32), votes)
    assert (labels == data.target).mean() > 0.96  # .940 to .951 with the scales as they are


def test_scales_are_evened_half_way_and_an_empty_class_is_left_alone():
    np.testing.assert_allclose(even_scales(np.array([4.0, 4.0])), 1)
    np.testing.assert_allclose(even_scales(np.array([9.0, 1.0, 0.0, 2.0])) ** 2, [3 / 9, 3, 1, 3 / 2])


def test_graph_of_duplicates_has_weight_one_and_no_nan():
    graph = neighbour_graph(np.zeros((4, 3)), 2)
    assert np.isfinite(graph.data).all()
    # every weight is 1 before normalisation, so S_ij = 1 / sqrt(degree_i degree_j)
    degree = np.diff(graph.indptr)
    np.testing.assert_allclose(graph.toarray(), (graph.toarray() > 0) / np.sqrt(np.outer(degree, degree)))
    labels, _ = propagate(np.zeros((4, 3)), np.array([[9.0, 0], [8, 1], [9, 0], [0, 40]]), neighbours=2)
    assert labels.shape == (4,)


def test_disconnected_clusters_keep_their_own_labels():
    rng = np.random.default_rng(1)
    features = np.concatenate([rng.normal(-50, 1, size=(30, 2)), rng.normal(50, 1, size=(30, 2))])
    votes = np.zeros((60, 3))
    votes[3, 2] = 5
    votes[40, 1] = 5
    labels, _ = propagate(features, votes)
    assert set(labels[:30]) == {2} and set(labels[30:]) == {1}


def test_all_votes_for_one_class_keep_that_class():
    votes = np.zeros((20, 4))
    votes[:, 2] = 50
    labels, confidence = propagate(np.random.default_rng(0).normal(size=(20, 3)), votes)
    assert set(labels) == {2}
    assert not confidence.any()


def test_no_votes_give_no_confidence():
    labels, confidence = propagate(np.random.default_rng(0).normal(size=(9, 3)), np.zeros((9, 4)))
    assert not labels.any() and not confidence.any()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tiny_pools(n):
    votes = np.eye(2)[[0, 1, 1][:n]] * 9
    labels, _ = propagate(np.arange(n, dtype=np.float32)[:, None], votes)
    assert labels[0] == 0 and len(labels) == n


def test_empty_pool():
    labels, confidence = propagate(np.zeros((0, 3)), np.zeros((0, 4)))
    assert labels.shape == confidence.shape == (0,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.full((5, 2), np.nan)}, "features"),
        ({"histogram": np.full((5, 2), np.inf)}, "histogram"),
        ({"features": np.zeros((4, 2))}, r"\(5, d\)"),
        ({"histogram": np.zeros((5, 1))}, "C at least 2"),
        ({"neighbours": 0}, "neighbours is 0"),
        ({"alpha": 1.0}, "alpha is 1.0"),
        ({"alpha": -0.1}, "alpha is -0.1"),
    ],
)
def test_refuses(change, message):
    arguments = {"features": np.zeros((5, 2)), "histogram": np.zeros((5, 2)), "neighbours": 5, "alpha": 0.99} | change
    with pytest.raises(SettingsError, match=message):
        propagate(arguments.pop("features"), arguments.pop("histogram"), **arguments)


@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.integers(2, 5))
def test_is_blind_to_scale_and_to_a_constant_per_class(seed, n, classes):
    rng = np.random.default_rng(seed)
    features, votes = rng.normal(size=(n, 3)), rng.normal(0, 10, size=(n, classes))
    labels, confidence = propagate(features, votes)
    other, scaled = propagate(features * 7, votes * 3 + rng.normal(size=classes))
    np.testing.assert_allclose(scaled, 3 * confidence, rtol=1e-3, atol=1e-3)
    clear = confidence > 1e-2
    np.testing.assert_array_equal(other[clear], labels[clear])


def test_argmax_labels_and_margin():
    labels, margin = argmax_labels(np.array([[1.0, 5.5, 2.0], [3, 3, 0], [-4, -1, -9]]))
    np.testing.assert_array_equal(labels, [1, 0, 1])
    np.testing.assert_allclose(margin, [3.5, 0, 3])
    with pytest.raises(SettingsError, match="finite"):
        argmax_labels(np.array([[np.nan, 1.0]]))


def test_half_of_a_soft_label_is_what_neighbours_bear_out():
    logits = np.array([[[0.0, 0.0], [50.0, 0.0]], [[0.0, 50.0], [50.0, 0.0]]])  # two answers about two records
    soft = half_borne_out(logits, np.array([1, 1]))
    np.testing.assert_allclose(soft, [[[0.25, 0.75], [0.5, 0.5]], [[0, 1], [0.5, 0.5]]], atol=1e-6)
    assert soft.dtype == np.float32
