import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from fedballot.distillation.evenness import clearly_uneven, degree_of, shares, unevenness, unvoted
from fedballot.distillation.propagation import neighbour_graph, pool_histogram, propagate
from fedballot.distillation.students import label_pool

DIGITS = load_digits()
X = DIGITS.data.astype(np.float32)


def uneven(label=3, rare=16, seed=0):
    """Digits of one class, thinned out, against the rest: rows and labels."""
    rng = np.random.default_rng(seed)
    rows = np.flatnonzero((DIGITS.target != label) | (np.cumsum(DIGITS.target == label) <= rare))
    rows = rng.permutation(rows)
    return X[rows], (DIGITS.target[rows] == label).astype(int)


def tally(y, classes, clients, sigma, wrong=0.1, seed=0):
    """Votes of clients that are each wrong on some records, with integer noise."""
    rng = np.random.default_rng(seed)
    votes = np.eye(classes)[y] * (1 - wrong) + wrong / classes
    votes = np.stack([rng.multinomial(clients, row / row.sum()) for row in votes])
    return votes + np.rint(rng.normal(0, sigma, votes.shape)).astype(int)


def labels_of(x, votes, sigma, **words):
    return label_pool(
        votes, np.arange(len(votes)), x, pool_size=len(x), neighbours=5, spread=0.99, sigma=sigma, **words
    )


@pytest.mark.parametrize(("clients", "sigma"), [(10, 0), (10, 8), (10, 20), (100, 60)])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_rare_class_is_not_spread_over_the_pool(clients, sigma, seed):
    x, y = uneven(seed=seed)
    votes = tally(y, 2, clients, sigma, seed=seed)
    winners = votes.argmax(axis=1)
    evened, _ = propagate(x, pool_histogram(votes, np.arange(len(y)), len(y)))
    assert (evened == y).mean() < 0.8  # what the default did
    found = labels_of(x, votes, sigma)
    assert (found.labels == y).mean() >= max(0.95, (winners == y).mean())
    np.testing.assert_allclose(found.prior, shares(found.labels, 2), rtol=1e-6)


def test_votes_that_noise_does_not_explain_stand():
    x, y = uneven()
    votes = tally(y, 2, 1000, 30)  # every lead is hundreds of votes
    found = labels_of(x, votes, 30)
    np.testing.assert_array_equal(found.labels, y)


@pytest.fixture(scope="module")
def cancer():
    """Standardised breast cancer: a pool of 228 records, its truth, and votes of four models of 57 others each."""
    x, y = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))
    private, pool = rows[:228], rows[228:456]
    x = StandardScaler().fit(x[pool]).transform(x).astype(np.float32)
    kinds = (RandomForestClassifier(random_state=0), LogisticRegression(), KNeighborsClassifier(), GaussianNB())
    parts = zip(kinds, np.split(private, 4), strict=True)
    return (
        x[pool],
        y[pool],
        sum(np.eye(2, dtype=int)[kind.fit(x[part], y[part]).predict(x[pool])] for kind, part in parts),
    )


def test_neighbours_do_not_overrule_clients_that_all_voted(cancer):
    """On breast cancer the server was below argmax labels without noise: whole neighbourhoods were labelled wrongly."""
    x, y, votes = cancer
    agreed = votes.max(axis=1) > votes.min(axis=1)
    before, found = labels_of(x, votes, 0), labels_of(x, votes, 0, complete=True)
    assert not np.array_equal(before.labels[agreed], votes.argmax(axis=1)[agreed])
    np.testing.assert_array_equal(found.labels[agreed], votes.argmax(axis=1)[agreed])
    assert (found.labels == y).mean() > (before.labels == y).mean()
    assert found.confidence is None and found.prior is not None


def test_what_noise_may_have_made_is_left_to_neighbours(cancer):
    x, _, votes = cancer
    noisy = votes + np.rint(np.random.default_rng(1).normal(0, 6, votes.shape)).astype(int)
    before, found = labels_of(x, noisy, 6), labels_of(x, noisy, 6, complete=True)
    np.testing.assert_array_equal(found.labels, before.labels)
    np.testing.assert_array_equal(found.confidence, before.confidence)


@pytest.mark.parametrize("sigma", [5, 12, 20])
@pytest.mark.parametrize("turnout", [30, 8])
def test_even_classes_are_evened_as_before_bit_for_bit(sigma, turnout):
    rng = np.random.default_rng(sigma)
    rows = rng.permutation(len(X))[:800]
    y = DIGITS.target[rows]
    cast = np.where(np.isin(y, [3, 5, 9]), turnout, 30)  # clients abstain on some
    votes = np.rint(np.eye(10)[y] * cast[:, None] + rng.normal(0, sigma, (800, 10))).astype(int)
    found = labels_of(X[rows], votes, sigma)
    labels, confidence = propagate(X[rows], pool_histogram(votes, np.arange(800), 800))
    np.testing.assert_array_equal(found.labels, labels)
    np.testing.assert_array_equal(found.confidence, confidence)
    assert found.prior is None


def test_without_propagation_nothing_of_this_is_asked():
    votes = tally(np.zeros(30, int), 3, 10, 4)
    found = label_pool(votes, np.arange(30), None, pool_size=30, neighbours=5, spread=0.99, sigma=4)
    np.testing.assert_array_equal(found.labels, votes.argmax(axis=1))
    assert found.confidence is None and found.prior is None


def test_a_class_without_any_vote_is_given_to_nobody():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)).astype(np.float32) + np.repeat([[0, 0], [9, 9], [0, 9]], 20, axis=0)
    votes = np.zeros((60, 4), int)
    votes[:20, 0] = votes[20:40, 3] = 10  # nobody votes in the third region, nor for classes 1 and 2
    found = labels_of(x, votes, 0)
    assert set(found.labels) <= {0, 3}
    np.testing.assert_array_equal(found.labels[:40], np.repeat([0, 3], 20))


def test_a_region_without_any_vote_gets_the_class_with_most():
    x = np.concatenate([np.random.default_rng(0).normal(c, 1, size=(n, 2)) for c, n in ((-50, 20), (0, 30), (50, 20))])
    votes = np.zeros((70, 3), int)
    votes[:20, 2], votes[20:50, 1], votes[0, 0] = 9, 9, 1
    found = labels_of(x.astype(np.float32), votes, 0)
    graph = neighbour_graph(x, 5)
    np.testing.assert_array_equal(unvoted(graph, votes.astype(float), np.arange(70)), np.arange(70) >= 50)
    assert set(found.labels[50:]) == {1}


def test_the_degree_follows_the_tally_and_the_noise_of_the_choice_is_the_same_for_ever():
    x, y = uneven()
    graph, rows = neighbour_graph(x, 5), np.arange(len(y))
    votes = tally(y, 2, 10, 8).astype(float)
    first = degree_of(graph, votes, rows, sigma=8, alpha=0.99)
    assert first != 1 and first == degree_of(graph, votes, rows, sigma=8, alpha=0.99)
    even = np.rint(np.eye(10)[DIGITS.target] * 30).astype(float)
    assert degree_of(neighbour_graph(X, 5), even, np.arange(len(X)), sigma=0, alpha=0.99) == 1


def test_chance_makes_even_classes_uneven_in_no_draw_of_a_small_pool():
    """One reading of the tally said so in two of these, and the server learnt two of three classes, or one."""
    x, y = load_wine(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:60]
    graph, votes = (
        neighbour_graph(StandardScaler().fit_transform(x)[rows].astype(np.float32), 5),
        4 * np.eye(3)[y[rows]],
    )
    draws = (votes + np.rint(np.random.default_rng(seed).normal(0, 4, votes.shape)) for seed in range(100))
    assert {degree_of(graph, draw, np.arange(60), sigma=4, alpha=0.99) for draw in draws} == {1.0}


def test_a_rare_class_is_seen_in_every_draw(cancer):
    """One reading of the tally missed it in some, and gave half of the pool to a class of a twentieth."""
    x, y, _ = cancer
    rows = np.flatnonzero((y == 1) | (np.cumsum(y == 0) <= 8))
    for seed in range(20):
        votes = tally(y[rows], 2, 10, 10, wrong=0.05, seed=seed).astype(float)
        assert degree_of(neighbour_graph(x[rows], 5), votes, np.arange(len(rows)), sigma=10, alpha=0.99) != 1


def test_unevenness_counts_only_what_the_noise_cannot_have_made():
    assert unevenness(np.array([0.25] * 4)) == 0
    assert unevenness(np.array([1.0, 0, 0, 0])) == 0.75
    y = np.repeat([0, 1, 2], [80, 15, 5])
    votes = np.eye(3)[y] * 10
    assert clearly_uneven(votes, y, 0) and not clearly_uneven(votes, y, 200)
    assert not clearly_uneven(np.eye(3)[np.arange(99) % 3] * 10, np.arange(99) % 3, 0)
    assert not clearly_uneven(np.zeros((100, 3)), y, 0)
