import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedballot.core.errors import SettingsError
from fedballot.datasets.describe import label_counts
from fedballot.datasets.partitions import classes_per_client

MNIST_Y = np.repeat(np.arange(10), [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])


def test_the_papers_row_exactly() -> None:
    """100 clients, 600 images of 6 consecutive digits each, every image used."""
    parts = classes_per_client(MNIST_Y, 100, 6, np.random.default_rng(0))
    counts = label_counts(MNIST_Y, parts, 10)
    np.testing.assert_array_equal(counts.sum(1), 600)
    np.testing.assert_array_equal(counts.sum(0), np.bincount(MNIST_Y))
    assert counts[counts > 0].min() > 75 and counts.max() < 125
    for client_id in range(100):
        expected = sorted((client_id // 10 + i) % 10 for i in range(6))
        assert np.flatnonzero(counts[client_id]).tolist() == expected


@given(
    st.lists(st.integers(0, 5), min_size=30, max_size=300),
    st.integers(1, 40),
    st.integers(1, 6),
    st.integers(0, 9),
)
def test_disjoint_complete_and_exactly_k_classes(labels: list[int], n_clients: int, k: int, seed: int) -> None:
    y = np.array(labels)
    try:
        parts = classes_per_client(y, n_clients, k, np.random.default_rng(seed))
    except SettingsError:
        n_classes, smallest = len(set(labels)), np.bincount(y)[np.unique(y)].min()
        assert k > n_classes or k * n_clients < n_classes or smallest < n_clients * k
        return
    assert len(parts) == n_clients
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(y)))
    assert all(len(np.unique(y[part])) == k for part in parts)
    assert all(part.dtype == np.int64 and (np.diff(part) > 0).all() for part in parts)


@given(st.sampled_from(range(5, 31, 5)), st.integers(1, 5), st.integers(10, 40))
def test_equal_classes_give_even_sizes(n_clients: int, k: int, per_class: int) -> None:
    y = np.tile(np.arange(5), per_class * 6)
    sizes = [len(part) for part in classes_per_client(y, n_clients, k, np.random.default_rng(0))]
    assert max(sizes) - min(sizes) <= 1


def test_1000_clients_are_fast() -> None:
    start = time.perf_counter()
    parts = classes_per_client(MNIST_Y, 1000, 3, np.random.default_rng(0))
    assert time.perf_counter() - start < 5
    assert {len(part) for part in parts} == {60}


def test_a_class_that_is_far_larger_goes_to_its_holders() -> None:
    y = np.repeat([0, 1, 2], [1000, 20, 20])
    counts = label_counts(y, classes_per_client(y, 3, 1, np.random.default_rng(0)), 3)
    np.testing.assert_array_equal(counts, np.diag([1000, 20, 20]))


@pytest.mark.parametrize(
    ("n_clients", "k", "message"),
    [(5, 0, "1 to 3"), (5, 4, "1 to 3"), (2, 1, "at least 2"), (500, 3, "would share the 100 records of class 0")],
)
def test_impossible_requests_say_why(n_clients: int, k: int, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        classes_per_client(np.repeat(np.arange(3), 100), n_clients, k, np.random.default_rng(0))
