"""A table of image paths and labels: read relative to the table, named with its line where something is wrong."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedballot.core.errors import DataError, SettingsError
from fedballot.datasets.federation import build
from fedballot.datasets.own import Persons, load_own
from fedballot.datasets.schema.hints import Hints
from fedballot.datasets.schema.reading import Reading
from fedballot.datasets.schema.toml import read_schema, to_toml
from fedballot.datasets.sources import load, load_as
from fedballot.datasets.spec import FederationSpec
from tests.packages import install


def put(folder: Path, count: int = 12, name: str = "table.csv", more: str = "", size: int = 6) -> Path:
    """Images of two classes in one folder, and the table that names them."""
    (folder / "img").mkdir(parents=True, exist_ok=True)
    lines = [f"file,patient,label{',age' if more else ''}"]
    for number in range(count):
        pixels = np.random.default_rng(number).integers(0, 120, (size, size)).astype(np.uint8) + 120 * (number % 2)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / "img" / f"{number}.png")
        lines.append(f"img/{number}.png,p{number // 3},{['dark', 'bright'][number % 2]}{more}")
    (folder / name).write_text("\n".join(lines))
    return folder / name


def test_images_are_records_and_other_columns_are_left_out(tmp_path: Path) -> None:
    source = load(str(put(tmp_path, more=",44")))
    assert source.train.x.shape == (12, 6, 6) and source.train.x.dtype == np.uint8
    assert source.classes == ("bright", "dark") and source.train.y.tolist() == [1, 0] * 6
    np.testing.assert_array_equal(source.train.x[3], np.asarray(Image.open(tmp_path / "img" / "3.png")))
    schema = source.schema
    assert schema is not None and [column.kind for column in schema.columns] == ["image"] and schema.channels == 1
    assert dict(schema.excluded) == {"patient": "the records are images", "age": "the records are images"}
    assert len(source.notes) == 2
    (tmp_path / "schema.toml").write_text(to_toml(schema))
    assert read_schema(tmp_path / "schema.toml") == schema


def test_windows_paths_sizes_and_other_tables(tmp_path: Path) -> None:
    path = put(tmp_path)
    plain = load(str(path)).train.x
    path.with_name("windows.csv").write_text(path.read_text().replace("img/", "img\\"))
    np.testing.assert_array_equal(load(str(path.with_name("windows.csv"))).train.x, plain)
    resized = load_as(str(path), Reading(hints=Hints(image_size=(4, 5)))).train.x
    assert resized.shape == (12, 4, 5)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("img/4.png", "img/none.png", "line 6, column file: 'img/none.png': no such file"),
        ("img/4.png", "../away/4.png", "line 6, column file: '../away/4.png' leads out of the table's folder"),
        ("img/4.png", "/etc/hostname.png", "line 6, column file: '/etc/hostname.png' leads out"),
        ("img/4.png", "", "line 6, column file: '' empty"),
        ("img/0.png", "", "line 2, column file: '' empty"),
        ("img/0.png", "img/0", "line 2, column file: 'img/0' does not end as an image's name does, as 11 other cells"),
        ("img/4.png", "img/4", "line 6, column file: 'img/4' does not end as an image's name does, as 11 other cells"),
        ("img/4.png", "img/broken.png", "line 6, column file: .*img/broken.png: cannot be read as an image"),
        ("img/4.png", "img/wide.png", "line 6, column file: .*img/wide.png: 9x6 pixels, but .*img/0.png has 6x6"),
        ("file,patient", "file,other.png", "no column 'label'"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = put(tmp_path / "data")
    put(tmp_path / "away")
    (tmp_path / "data" / "img" / "broken.png").write_bytes(b"\x89PNG")
    Image.fromarray(np.zeros((6, 9), np.uint8)).save(tmp_path / "data" / "img" / "wide.png")
    text = path.read_text().replace(old, new)
    path.write_text(text if "label" not in words else text.replace("label", "kind"))
    with pytest.raises(DataError, match=words) as caught:
        load(str(path))
    assert str(path) in str(caught.value)


def test_two_columns_of_images_are_to_be_decided(tmp_path: Path) -> None:
    path = put(tmp_path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([f"mask,{lines[0]}", *(f"img/0.png,{line}" for line in lines[1:])]))
    with pytest.raises(DataError, match="'mask', 'file' all hold paths of images"):
        load(str(path))
    assert load_as(str(path), Reading(hints=Hints(drop=("mask",)))).schema.image == "file"


def test_private_tables_and_public_folders_fit_together(tmp_path: Path) -> None:
    """However the public images are given, private ones may come in a table or in folders by class."""
    table = put(tmp_path / "own")
    for number in range(8):
        folder = tmp_path / "public" / ("dark", "bright")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / "own" / "img" / f"{number}.png", folder)
    own = load_own(table, load(str(tmp_path / "public")))
    assert own.examples.y.tolist() == [1, 0] * 6 and len(own.files) == 12
    other = load_own(tmp_path / "public", load(str(table)))
    assert sorted(other.examples.y.tolist()) == [0] * 4 + [1] * 4


def test_persons_and_changed_images(tmp_path: Path) -> None:
    public = load(str(put(tmp_path / "public")))
    path = put(tmp_path / "own")
    own = load_own(path, public, Persons("patient", 2))
    assert own.persons == 4 and own.dropped == 4
    before = load_own(path, public).fingerprint
    Image.fromarray(np.full((6, 6), 9, np.uint8)).save(tmp_path / "own" / "img" / "7.png")
    assert load_own(path, public).fingerprint != before
    os.remove(tmp_path / "own" / "img" / "7.png")
    with pytest.raises(DataError, match=r"line 9, column file: 'img/7.png': no such file"):
        load_own(path, public)


def test_a_federation_of_tables(tmp_path: Path) -> None:
    for place in ("a", "b", "public"):
        put(tmp_path / place, 20, more=",3")
    spec = FederationSpec(
        dataset=str(tmp_path / "[ab]" / "table.csv"),
        public_dataset=str(tmp_path / "public" / "table.csv"),
        clients=2,
        partition="by-group",
        public_size=10,
        test_size=10,
    )
    data = build(spec)
    assert data.private.x.shape == (40, 6, 6) and data.preparation is None
    assert [len(part) for part in data.parts] == [20, 20]
    other = put(tmp_path / "public", 20, "other.csv")
    with pytest.raises(SettingsError, match="hold the same records"):
        build(FederationSpec(dataset=str(tmp_path / "public" / "table.csv"), public_dataset=str(other)))


def test_a_reader_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import numpy as np\ndef turned(path):\n    from PIL import Image\n    return np.asarray(Image.open(path)).T\n"
    )
    code += "def floats(path):\n    return np.zeros((2, 2))\ndef fails(path):\n    return 1 / 0\n"
    install(tmp_path / "package", {"my_reader.py": code}, patch=monkeypatch)
    path = put(tmp_path / "data")
    mine = load_as(str(path), Reading(image_reader="my_reader:turned"))
    np.testing.assert_array_equal(mine.train.x, load(str(path)).train.x.transpose(0, 2, 1))
    for name, words in (
        ("my_reader:floats", r"line 2, .*0.png: my_reader:floats gave float64 of shape \(2, 2\); expected uint8"),
        ("my_reader:fails", "line 2, .*0.png: my_reader:fails cannot read it .ZeroDivisionError"),
    ):
        with pytest.raises(DataError, match=words):
            load_as(str(path), Reading(image_reader=name))
    with pytest.raises(SettingsError, match="there is no module 'none_such'"):
        load_as(str(path), Reading(image_reader="none_such:read"))
