"""Partitions and data sets of a package that is installed beside fedballot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.core.errors import DataError, SettingsError
from fedballot.datasets.federation import FederationSpec, build
from fedballot.datasets.partitions import check_partition, partition
from fedballot.datasets.readers.files import read_raw
from fedballot.datasets.sources import load, names
from fedballot.settings.parts import CommonSettings
from tests.packages import install

PACKAGE = '''
"""Ways to deal records out, and data, of somebody else."""

import numpy as np

from fedballot.datasets.examples import Examples, Source
from fedballot.datasets.readers.raw import Raw


def by_turns(records):
    return [np.arange(i, len(records.y), records.n_clients) for i in range(records.n_clients)]


def only_some(records):
    return [[client_id] for client_id in range(records.n_clients)]


def nobody_gets_any(records):
    return [[] for _ in range(records.n_clients)]


def one_part(records):
    return [np.arange(len(records.y))]


def twice(records):
    return [np.arange(len(records.y)) for _ in range(records.n_clients)]


def beyond(records):
    return [np.array([len(records.y) + i]) for i in range(records.n_clients)]


def shares(records):
    return [np.full(3, 0.5) for _ in range(records.n_clients)]


def stripes():
    """200 rows of 3 features in 2 classes, from 2 places."""
    x = np.random.default_rng(0).normal(size=(200, 3))
    return Source("ignored", ("low", "high"), Examples(x, (x[:, 0] > 0).astype(int), np.arange(200) % 2),
                  group_names=("north", "south"))


def two_labels():
    x = np.random.default_rng(0).normal(size=(20, 3))
    return Source("two", ("a", "b"), Examples(x, np.stack([x[:, 0] > 0, x[:, 1] > 0], axis=1)))


def made(**changes):
    given = {"x": np.zeros((4, 2)), "y": np.array([0, 1, 0, 1]), "groups": None} | changes
    classes = given.pop("classes", ("a", "b"))
    return lambda: Source("", classes, Examples(**given))


wrong_label = made(y=np.array([0, 1, 2, 1]))
wrong_length = made(y=np.array([0, 1]))
wrong_x = made(x=np.full((4, 2), np.nan))
wrong_groups = made(groups=np.zeros(4, int))
one_class = made(y=np.zeros(4, int), classes=("a",))
wrong_width = made(y=np.zeros((4, 3), int))


def number():
    return 5


def fails():
    raise KeyError("secret")


def lines(path):
    rows = [line.split() for line in path.read_text().splitlines()]
    return Raw(np.array([row[:-1] for row in rows], float), np.array([row[-1] for row in rows]))


def no_raw(path):
    return 5
'''
ENTRIES = """
[fedballot.partitions]
by-turns = their_data:by_turns
[fedballot.readers]
stripes = their_data:stripes
.lines = their_data:lines
.bad = their_data:no_raw
"""
Y = np.repeat(np.arange(4), 50)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    load.cache_clear()
    build.cache_clear()
    return install(tmp_path / "site", {"their_data.py": PACKAGE}, ENTRIES, patch=monkeypatch)


def dealt(scheme: str, **over: Any) -> list[np.ndarray]:
    options = {"alpha": 0.5, "min_size": 0, "classes_per_client": 2, "rng": np.random.default_rng(0), **over}
    return partition(scheme, Y, None, 4, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("scheme", ["by-turns", "their_data:by_turns"])
def test_a_scheme_deals_records_out(package: Path, scheme: str) -> None:
    check_partition(scheme)
    assert CommonSettings(partition=scheme).partition == scheme
    assert [part[:3].tolist() for part in dealt(scheme)] == [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]
    assert [part.tolist() for part in dealt("their_data:only_some")] == [[0], [1], [2], [3]]
    assert [part.tolist() for part in dealt("their_data:nobody_gets_any")] == [[], [], [], []]
    with pytest.raises(SettingsError, match="less than min_size=51"):
        dealt(scheme, min_size=51)


def test_settings_know_names_without_importing(package: Path) -> None:
    CommonSettings(partition="by-turns")
    CommonSettings(partition="no_such_package:deal")  # whether it is there is seen when records are dealt out
    assert "their_data" not in sys.modules
    with pytest.raises(SettingsError, match="unknown partition 'by-turn'; did you mean 'by-turns'"):
        CommonSettings(partition="by-turn")


@pytest.mark.parametrize(
    ("scheme", "words"),
    [
        ("one_part", "1 parts for 4 clients"),
        ("twice", "a row to two clients, or twice"),
        ("beyond", "rows that are not among the 200"),
        ("shares", "no vectors of row numbers"),
        ("nothing", "has no 'nothing'"),
    ],
)
def test_a_scheme_that_deals_wrongly_is_refused(package: Path, scheme: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        dealt(f"their_data:{scheme}")


@pytest.mark.parametrize("name", ["stripes", "their_data:stripes"])
def test_a_data_set_of_a_package_has_the_types_of_ours(package: Path, name: str) -> None:
    source = load(name)
    assert source.name == name and source.origin == {name}
    assert source.train.x.dtype == np.float32 and source.train.y.dtype == source.train.groups.dtype == np.int64  # type: ignore[union-attr]
    assert load(f"{name}@south").group_names == ("south",)
    data = build(FederationSpec(dataset=name, public_size=50, test_size=50, clients=4, partition="by-turns"))
    assert [len(part) for part in data.parts] == [25] * 4 and len(data.test_y) == 50
    assert load("their_data:two_labels").train.y.dtype == np.int8


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wrong_label", "train labels: row 2 is 2; expected 0 to 1"),
        ("wrong_length", "2 entries for 4 rows"),
        ("wrong_x", "expected finite float32 numbers"),
        ("wrong_groups", "train groups: row 0 is 0; expected 0 to -1"),
        ("one_class", "expected at least two"),
        ("wrong_width", r"shape \(4, 3\); expected a column for each of 2 classes"),
        ("number", "gave a int; expected a fedballot Source"),
        ("fails", "cannot be read: KeyError: 'secret'"),
    ],
)
def test_a_data_set_that_cannot_be_used_is_refused(package: Path, name: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        load(f"their_data:{name}")


def test_a_kind_of_file_of_a_package_is_read(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cities.lines").write_text("1 2 old\n3 4 new\n5 6 old\n")
    assert load("cities.lines").classes == ("new", "old")
    assert read_raw(tmp_path / "cities.lines").labels.tolist() == ["old", "new", "old"]
    with pytest.raises(DataError, match=r"none.lines: no such file"):
        load("none.lines")
    (tmp_path / "cities.bad").write_text("")
    with pytest.raises(DataError, match=r"the reader their-package 1.2 \(their_data:no_raw\) gave a int"):
        load("cities.bad")
    with pytest.raises(DataError, match=r"unknown kind of file '\.other'"):
        (tmp_path / "cities.other").write_text("")
        load(str(tmp_path / "cities.other"))


def test_the_list_of_data_sets_says_whose_they_are(package: Path) -> None:
    assert names()["stripes"] == "of their-package 1.2 (their_data:stripes)"
    assert not any(name.startswith(".") for name in names())
    with pytest.raises(DataError, match="'stripe' is unknown; did you mean 'stripes'"):
        load("stripe")


def test_the_command_shows_data_and_partition_of_a_package(package: Path) -> None:
    path = os.pathsep.join([str(package), str(Path(__file__).parents[2])])
    command = [sys.executable, "-m", "fedballot.cli", "data", "stripes", "--json", "--set", "partition=by-turns"]
    command += ["--set", "clients=3", "--set", "public_size=20", "--set", "test_size=30"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}, check=True)
    shown = json.loads(done.stdout)
    assert shown["classes"] == ["low", "high"] and shown["groups"] == {"north": 100, "south": 100}
    assert shown["partition"]["scheme"] == "by-turns" and shown["partition"]["size"]["min"] == 50
