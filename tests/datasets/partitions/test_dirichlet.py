import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedballot.core.errors import SettingsError
from fedballot.datasets.describe import label_counts
from fedballot.datasets.partitions import dirichlet

# Class sizes of MNIST's training set.
MNIST_Y = np.repeat(np.arange(10), [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])


@given(
    st.lists(st.integers(0, 4), min_size=20, max_size=200),
    st.integers(1, 20),
    st.floats(1e-6, 1e6),
    st.floats(0, 1),
    st.integers(0, 9),
)
def test_disjoint_complete_and_min_size(
    labels: list[int], n_clients: int, alpha: float, fill: float, seed: int
) -> None:
    y, min_size = np.array(labels), int(fill * len(labels) / n_clients)
    parts = dirichlet(y, n_clients, alpha, min_size, np.random.default_rng(seed))
    assert len(parts) == n_clients
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(y)))
    assert min(len(part) for part in parts) >= min_size
    assert all(part.dtype == np.int64 and (np.diff(part) > 0).all() for part in parts)


@pytest.mark.parametrize(("n_clients", "alpha", "min_size"), [(200, 0.01, 10), (200, 0.01, 300), (1000, 0.1, 10)])
def test_extreme_skew_on_mnist_is_fast(n_clients: int, alpha: float, min_size: int) -> None:
    start = time.perf_counter()
    parts = dirichlet(MNIST_Y, n_clients, alpha, min_size, np.random.default_rng(0))
    assert time.perf_counter() - start < 2
    sizes = np.array([len(part) for part in parts])
    assert sizes.min() >= min_size and sizes.sum() == 60000


def test_alpha_sets_the_skew() -> None:
    def classes_held(alpha: float) -> float:
        parts = dirichlet(MNIST_Y, 100, alpha, 0, np.random.default_rng(0))
        return float((label_counts(MNIST_Y, parts, 10) > 0).sum(1).mean())

    assert classes_held(0.01) < 1.5 < 3 < classes_held(0.1) < 6 < 9.9 < classes_held(100)


def test_filling_up_keeps_the_skew() -> None:
    parts = dirichlet(MNIST_Y, 200, 0.01, 100, np.random.default_rng(0))
    held = (label_counts(MNIST_Y, parts, 10) > 0).sum(1)
    assert np.median(held) <= 2


def test_no_min_size_changes_nothing_else() -> None:
    """Filling up draws nothing: a client above min_size that gives nothing keeps its records."""
    free = dirichlet(MNIST_Y, 20, 1.0, 0, np.random.default_rng(3))
    bound = dirichlet(MNIST_Y, 20, 1.0, min(map(len, free)), np.random.default_rng(3))
    for a, b in zip(free, bound, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("inf"), float("nan")])
def test_bad_alpha(alpha: float) -> None:
    with pytest.raises(SettingsError, match="alpha"):
        dirichlet(np.array([0, 1]), 2, alpha, 0, np.random.default_rng(0))


def test_impossible_min_size_gives_the_numbers() -> None:
    with pytest.raises(SettingsError, match=r"min_size: 4 x 30 clients = 120, .* 100 "):
        dirichlet(np.zeros(100, np.int64), 30, 1.0, 4, np.random.default_rng(0))
