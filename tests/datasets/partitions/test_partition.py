import numpy as np
import pytest

from fedballot.core.errors import SettingsError
from fedballot.datasets.partitions import PARTITIONS, partition

Y = np.repeat(np.arange(4), 50)
OPTIONS = {"alpha": 0.5, "min_size": 1, "classes_per_client": 2}


@pytest.mark.parametrize("scheme", PARTITIONS)
def test_every_scheme_deals_everything_out_and_follows_the_seed(scheme: str) -> None:
    runs = [
        partition(scheme, Y, Y, 4, **OPTIONS, rng=np.random.default_rng(seed))  # type: ignore[arg-type]
        for seed in (0, 0)
    ]
    np.testing.assert_array_equal(np.sort(np.concatenate(runs[0])), np.arange(200))
    for first, second in zip(*runs, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("scheme", "n_clients", "changed", "message"),
    [
        ("IID", 4, {}, "unknown partition 'IID'. Known: iid, dirichlet"),
        ("iid", 0, {}, "clients: 0"),
        ("iid", 4, {"min_size": -1}, "min_size: -1"),
        ("iid", 4, {"min_size": 51}, "client 0 has 50 of 200 .*min_size=51"),
        ("iid", 201, {}, "client 200 has 0 of 200"),
        ("by-group", 4, {"min_size": 51}, "client 0 has 50"),
        ("classes-per-client", 4, {"min_size": 60}, "min_size=60"),
    ],
)
def test_bad_settings(scheme: str, n_clients: int, changed: dict[str, int], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        partition(scheme, Y, Y, n_clients, **(OPTIONS | changed), rng=np.random.default_rng(0))  # type: ignore[arg-type]


def test_a_client_may_be_empty_where_min_size_allows_it() -> None:
    parts = partition("iid", Y[:3], None, 5, **(OPTIONS | {"min_size": 0}), rng=np.random.default_rng(0))  # type: ignore[arg-type]
    assert sorted(map(len, parts)) == [0, 0, 1, 1, 1]
