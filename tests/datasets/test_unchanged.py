"""Files that are mended while the process lives are read anew."""

import os

import numpy as np
import pytest

from fedballot.core.errors import DataError
from fedballot.datasets.federation import build
from fedballot.datasets.schema.hints import Hints
from fedballot.datasets.schema.reading import Reading
from fedballot.datasets.sources import load, load_as
from fedballot.datasets.spec import FederationSpec


def write(path, label="no"):
    path.write_text("size,label\n" + f"1.5,{label}\n2.5,yes\n" * 30)
    return str(path)


def test_a_table_is_read_once_and_again_when_it_has_changed(tmp_path):
    name = write(tmp_path / "own.csv")
    spec = FederationSpec(dataset=name, public_size=20, test_size=10, clients=2)
    first, data = load(name), build(spec)
    assert load(name) is first and build(spec) is data
    write(tmp_path / "own.csv", "never")
    assert load(name).classes == ("never", "yes") and build(spec).classes == ("never", "yes")
    reading = Reading(hints=Hints(label="label"))
    read = load_as(name, reading)
    write(tmp_path / "own.csv", "no")
    assert load_as(name, reading).classes == ("no", "yes") != read.classes


def test_the_same_name_in_another_folder_is_another_file(tmp_path, monkeypatch):
    for folder, label in (("a", "no"), ("b", "never")):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "own.csv", label)
        monkeypatch.chdir(tmp_path / folder)
        assert load("own.csv").classes == (label, "yes")


def test_a_further_file_of_a_pattern_or_image_of_a_folder_is_seen(tmp_path):
    from PIL import Image

    write(tmp_path / "a.csv")
    pattern = str(tmp_path / "*.csv")
    assert len(load(pattern).train) == 60
    write(tmp_path / "b.csv")
    assert len(load(pattern).train) == 120
    for name in ("cat", "dog"):
        (tmp_path / "images" / name).mkdir(parents=True)
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "images" / name / "0.png")
    folder = str(tmp_path / "images")
    assert len(load(folder).train) == 2
    Image.fromarray(np.ones((8, 8), np.uint8)).save(tmp_path / "images" / "dog" / "1.png")
    os.utime(tmp_path / "images" / "dog", ns=(1, 1))
    assert len(load(folder).train) == 3


def test_errors_are_not_kept(tmp_path):
    path = tmp_path / "own.csv"
    with pytest.raises(DataError, match="no such file"):
        load(str(path))
    write(path)
    assert load(str(path)).classes == ("no", "yes")
