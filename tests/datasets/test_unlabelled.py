"""Public records without labels: they do where nobody reads labels, else the error names the setting."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_breast_cancer

from fedballot.core.errors import DataError, SettingsError
from fedballot.core.setting import build as settings_of
from fedballot.datasets.federation import build
from fedballot.datasets.readers.files import load_path
from fedballot.datasets.schema.hints import Hints
from fedballot.datasets.schema.reading import Reading
from fedballot.datasets.schema.toml import read_schema, to_toml
from fedballot.datasets.spec import FederationSpec, WithoutLabels
from fedballot.runs.engine import federated_data
from fedballot.settings.poll import PollSettings
from fedballot.settings.voting import PateSettings

SIZES = {"public_size": 150, "test_size": 100, "clients": 4}
IGNORED = {"test_source": "private", "public_labels": "ignored"}
FREE = Reading(labels=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Private patients, and public ones with labels, without, and with some."""
    root = tmp_path_factory.mktemp("patients")
    data = load_breast_cancer(as_frame=True)
    frame = data.frame.drop(columns="target").assign(diagnosis=data.target.map({0: "malignant", 1: "benign"}))
    public = frame[400:]
    frame[:400].to_csv(root / "private.csv", index=False)
    public.to_csv(root / "labelled.csv", index=False)
    public.drop(columns="diagnosis").to_csv(root / "pool.csv", index=False)
    some = public.assign(diagnosis=public["diagnosis"].where(np.arange(len(public)) > 3, ""))
    some.to_csv(root / "some.csv", index=False)
    return root


def spec(folder: Path, pool: str = "pool.csv", **changes: object) -> FederationSpec:
    where = {"dataset": str(folder / "private.csv"), "public_dataset": str(folder / pool), "label": "diagnosis"}
    return settings_of(FederationSpec, {**where, **SIZES, **changes})


@pytest.mark.parametrize("pool", ["pool.csv", "some.csv"])
def test_labels_that_are_ignored_may_lack(folder: Path, pool: str) -> None:
    data = build(spec(folder, pool, **IGNORED))
    assert data.classes == ("benign", "malignant") and (data.public_y == -1).all()
    assert len(data.public_x) == 150 and set(data.test_y) == {0, 1}
    assert data.schema is not None and data.schema.classes == data.classes and data.schema.label.name == "diagnosis"
    # the same records as those of the file with labels, in the same order
    same = build(spec(folder, "labelled.csv", **IGNORED))
    np.testing.assert_array_equal(data.public_x, same.public_x)
    np.testing.assert_array_equal(data.test_x, same.test_x)
    assert (same.public_y >= 0).all()


@pytest.mark.parametrize("pool", ["pool.csv", "some.csv"])
def test_labels_that_are_read_are_asked_for_by_the_setting(folder: Path, pool: str) -> None:
    message = "public_labels=known.*set public_labels=ignored and test_source=private"
    with pytest.raises(DataError, match=message):
        build(spec(folder, pool))
    with pytest.raises(DataError, match=rf"{pool}.*public_labels=known.*the server tests with them"):
        build(spec(folder, pool, dataset="sites"))
    with pytest.raises(DataError, match="no column 'diagnose'; did you mean 'diagnosis'") as wrong:
        build(spec(folder, "labelled.csv", label="diagnose", public_dataset=""))
    assert "public_labels" not in str(wrong.value)


def test_what_is_wrong_with_a_pool_of_its_own_is_not_laid_on_its_labels(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.csv").write_text("a,b\n1\n")
    with pytest.raises(DataError, match="line 2: 1 cells") as wrong:
        build(spec(folder, str(tmp_path / "broken.csv")))
    assert "public_labels" not in str(wrong.value)


@pytest.mark.parametrize("pool", ["pool.csv", "some.csv"])
def test_a_poll_needs_no_labels(folder: Path, pool: str) -> None:
    values = {"dataset": str(folder / "private.csv"), "public_dataset": str(folder / pool), "label": "diagnosis"}
    settings = settings_of(PollSettings, {**values, "public_size": 150, "clients": 4})
    data = federated_data(settings)
    assert data.classes == ("benign", "malignant") and data.records == 400 and (data.public_y == -1).all()
    labelled = {**values, "public_dataset": str(folder / "labelled.csv"), "public_size": 150, "clients": 4}
    np.testing.assert_array_equal(data.public_x, federated_data(settings_of(PollSettings, labelled)).public_x)
    with pytest.raises(DataError, match="public_labels=ignored"):
        federated_data(settings_of(PateSettings, {**values, **SIZES}))


def test_sites_learn_the_classes_from_the_schema(folder: Path, tmp_path: Path) -> None:
    public, label = str(folder / "pool.csv"), Hints(label="diagnosis")
    poll = WithoutLabels(dataset="sites", public_dataset=public, public_size=150, test_size=1, clients=4)
    with pytest.raises(SettingsError, match=r"has no labels.*a schema whose \[label\] has the column and its words"):
        build(poll)
    contract = load_path(str(folder / "labelled.csv"), Reading(hints=label)).schema
    assert contract is not None
    (tmp_path / "schema.toml").write_text(to_toml(contract))
    data = build(dataclasses.replace(poll, schema=str(tmp_path / "schema.toml")))
    assert data.classes == ("benign", "malignant") and len(data.public_x) == 150
    source = load_path(public, Reading(read_schema(tmp_path / "schema.toml"), labels=False))
    assert not source.labelled and source.classes == contract.classes


def test_an_index_without_a_name_is_no_label(tmp_path: Path) -> None:
    pd.DataFrame({"x": np.arange(40) / 7}).to_csv(tmp_path / "pool.csv")
    source = load_path(str(tmp_path / "pool.csv"), FREE)
    assert source.schema is not None and [column.name for column in source.schema.columns] == ["x"]
    assert not source.labelled and source.classes == ()
    assert source.notes[-1].endswith("pool.csv: the records have no labels, and are used without")


def test_images_right_in_a_folder(tmp_path: Path) -> None:
    for number in range(120):
        folder = tmp_path / "private" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), number, np.uint8)).save(folder / f"{number}.png")
    (tmp_path / "pool").mkdir()
    for number in range(60):
        Image.fromarray(np.full((8, 8), number, np.uint8)).save(tmp_path / "pool" / f"{number:02}.png")
    (tmp_path / "pool" / "readme.txt").write_text("mine")
    where = {"dataset": str(tmp_path / "private"), "public_dataset": str(tmp_path / "pool")}
    sizes = {"public_size": 60, "test_size": 40, "clients": 2}
    data = build(settings_of(FederationSpec, {**where, **sizes, **IGNORED}))
    assert sorted(data.public_x[:, 0, 0]) == list(range(60)) and data.classes == ("a", "b")
    assert data.schema is not None and data.schema.classes == ("a", "b")
    with pytest.raises(DataError, match=r"holds no class folder.*set public_labels=ignored and test_source=private"):
        build(settings_of(FederationSpec, {**where, **sizes, "public_size": 30, "test_size": 30}))
    # all of them in one folder, as some tools want it
    (tmp_path / "pool").rename(tmp_path / "all")
    (tmp_path / "pool").mkdir()
    (tmp_path / "all").rename(tmp_path / "pool" / "all")
    again = build(settings_of(FederationSpec, {**where, **sizes, **IGNORED}))
    np.testing.assert_array_equal(again.public_x, data.public_x)
    assert again.schema is not None and again.schema.classes == ("a", "b") and (again.public_y == -1).all()


@pytest.mark.parametrize("keys", [("x",), ("x_train", "x_test"), ("x_train",)])
def test_arrays_without_labels(tmp_path: Path, keys: tuple[str, ...]) -> None:
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    np.savez(tmp_path / "pool.npz", **dict.fromkeys(keys, x))
    np.savez(tmp_path / "private.npz", x=x + 1, y=np.arange(60) % 2)
    source = load_path(str(tmp_path / "pool.npz"), FREE)
    assert not source.labelled and len(source.train) == 60 and source.classes == ()
    where = {"dataset": str(tmp_path / "private.npz"), "public_dataset": str(tmp_path / "pool.npz")}
    data = build(settings_of(FederationSpec, {**where, "public_size": 50, "test_size": 20, "clients": 2, **IGNORED}))
    assert data.classes == ("0", "1") and (data.public_y == -1).all()
    with pytest.raises(DataError, match="no key 'y"):
        load_path(str(tmp_path / "pool.npz"))
