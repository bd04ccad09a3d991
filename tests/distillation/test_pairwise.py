"""The consensus from pairs of classes that clients have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedballot.distillation.aggregation import class_weights
from fedballot.distillation.pairwise import FARTHEST, pairwise_consensus


def centred(z):
    return z - z.mean(axis=1, keepdims=True)


def joined(counts) -> bool:
    """Whether clients join all classes."""
    reached = {0}
    for _ in range(counts.shape[1]):
        for row in counts:
            own = set(np.flatnonzero(row))
            reached |= own if own & reached else set()
    return len(reached) == counts.shape[1]


@given(st.integers(0, 2**32 - 1))
def test_clients_that_agree_are_believed_whatever_they_say_of_classes_they_lack(seed):
    """Logits are the truth's plus log shares and any shift; of absent classes they are noise."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 9, (5, 6)) * (rng.random((5, 6)) < 0.6)
    counts[:, 0] += counts.sum(axis=1) == 0
    truth = centred(rng.normal(size=(3, 6)))
    with np.errstate(divide="ignore"):
        logs = np.where(counts > 0, np.log(counts), 0)
    answers = truth + logs[:, None] + rng.normal(size=(5, 3, 1)) * 5
    answers = np.where(counts[:, None] > 0, answers, rng.normal(size=(5, 3, 6)) * 9)
    found = pairwise_consensus(answers, counts)
    assert np.allclose(found.mean(axis=1), 0)
    if joined(counts):
        assert np.allclose(found, truth)


def test_equal_counts_of_all_classes_give_the_mean():
    answers = np.random.default_rng(0).normal(size=(4, 7, 5))
    found = pairwise_consensus(answers, np.full((4, 5), 3))
    assert np.allclose(found, centred(answers.mean(axis=0)))


def test_one_certain_client_moves_a_class_by_no_more_than_the_farthest():
    answers = np.zeros((2, 1, 3))
    answers[0, 0, 0] = 1e6
    found = pairwise_consensus(answers, np.ones((2, 3), int))
    assert np.ptp(found) == pytest.approx(FARTHEST / 2)


def test_what_nobody_compares_follows_the_mean_by_class_counts():
    answers = np.random.default_rng(1).normal(size=(3, 4, 3))
    alone = np.diag([4, 5, 6])  # a class each
    logs = answers - np.log(np.exp(answers).sum(axis=2, keepdims=True))
    expected = centred((class_weights(alone)[:, None] * logs).sum(axis=0))
    assert np.allclose(pairwise_consensus(answers, alone), expected)


def test_a_class_that_nobody_has_stands_where_all_clients_see_it():
    answers = np.zeros((2, 1, 3))
    answers[:, 0, 2] = -8  # nobody has it, and all think little of it
    found = pairwise_consensus(answers, np.array([[3, 3, 0], [2, 2, 0]]))
    assert found[0].argmin() == 2 and found[0, 0] == pytest.approx(found[0, 1])


@pytest.mark.parametrize(
    "counts",
    [
        [[1, 36, 0], [0, 0, 30]],
        [[1, 36, 0]],
        [[1, 36, 0, 0], [0, 0, 30, 0], [0, 0, 0, 30]],
        [[2**31 - 1, 1, 0, 0], [0, 0, 7, 3]],
    ],
)
def test_groups_that_nobody_joins_stand_as_in_the_mean_to_each_other(counts):
    """A pseudoinverse by eigenvalues took rounding for comparisons here, and was off by up to 12 nats."""
    counts = np.array(counts)
    answers = np.random.default_rng(0).normal(size=(len(counts), 50, counts.shape[1])) * 3
    logs = np.maximum(answers - np.log(np.exp(answers).sum(axis=2, keepdims=True)), -FARTHEST)
    mean = centred((class_weights(counts)[:, None] * logs).sum(axis=0))
    found = pairwise_consensus(answers, counts)
    group = [int(np.flatnonzero(counts[:, c])[0]) if counts[:, c].any() else -1 for c in range(counts.shape[1])]
    for one in set(group):
        own = np.array(group) == one
        assert np.allclose(found[:, own].mean(axis=1), mean[:, own].mean(axis=1), atol=1e-6)
