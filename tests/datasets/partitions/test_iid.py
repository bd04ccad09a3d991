import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedballot.datasets.partitions import iid


@given(st.integers(0, 300), st.integers(1, 50), st.integers(0, 9))
def test_disjoint_complete_and_even(n: int, n_clients: int, seed: int) -> None:
    parts = iid(n, n_clients, np.random.default_rng(seed))
    assert len(parts) == n_clients
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert all(part.dtype == np.int64 and (np.diff(part) > 0).all() for part in parts)


def test_the_generator_decides() -> None:
    first, again, other = (iid(1000, 10, np.random.default_rng(seed))[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
