import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedballot.core.errors import SettingsError
from fedballot.datasets.partitions import by_group


@given(st.lists(st.integers(0, 20), min_size=1))
def test_one_client_per_group_in_order_of_id(groups: list[int]) -> None:
    ids = np.array(groups)
    parts = by_group(ids, len(set(groups)))
    for part, group in zip(parts, sorted(set(groups)), strict=True):
        np.testing.assert_array_equal(part, np.flatnonzero(ids == group))


@pytest.mark.parametrize("n_clients", [1, 2, 4])
def test_another_number_of_clients_says_how_many(n_clients: int) -> None:
    with pytest.raises(SettingsError, match=f"clients: {n_clients}, .* 3 groups .*clients=3"):
        by_group(np.array([0, 1, 1, 5]), n_clients)


def test_no_groups_says_where_they_come_from() -> None:
    with pytest.raises(SettingsError, match="`group` column"):
        by_group(None, 3)
