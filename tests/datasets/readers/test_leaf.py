"""FEMNIST in LEAF's format, on generated files."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedballot.core.errors import DataError
from fedballot.datasets.sources import load


def leaf(path: Path, users: dict[str, list[int]], **changes: object) -> Path:
    """A file as LEAF's preprocessing writes it: white paper is 1, ink is 0."""
    rng = np.random.default_rng(len(users))
    data = {name: {"x": rng.random((len(y), 784)).round(4).tolist(), "y": y} for name, y in users.items()}
    content = {"users": list(users), "num_samples": [len(y) for y in users.values()], "user_data": data, **changes}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def test_images_labels_and_writers_are_read(tmp_path: Path) -> None:
    path = leaf(tmp_path / "all_data_0.json", {"f0000_14": [0, 10, 36], "f0001_41": [61, 0]})
    source = load(str(path))
    assert source.classes == ("0", "A", "a", "z")
    assert [source.classes[label] for label in source.train.y] == ["0", "A", "a", "z", "0"]
    assert source.group_names == ("f0000_14", "f0001_41")
    assert source.train.groups is not None and source.train.groups.tolist() == [0, 0, 0, 1, 1]
    told = json.loads(path.read_text())["user_data"]["f0000_14"]["x"][0]
    assert source.train.x.shape == (5, 28, 28) and source.train.x.dtype == np.uint8
    assert source.train.x[0].ravel().tolist() == np.rint(255 * (1 - np.array(told))).tolist()


def test_a_folder_of_files_is_one_source(tmp_path: Path) -> None:
    leaf(tmp_path / "femnist" / "all_data_0.json", {"a": [1, 2], "nobody": []})
    leaf(tmp_path / "femnist" / "all_data_1.json", {"b": [2, 2, 3]})
    source = load(str(tmp_path / "femnist"))
    assert len(source.train) == 5 and source.group_names == ("a", "b")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "LEAF"),
        ("[]", "LEAF"),
        ('{"users": ["a"], "user_data": {}}', "LEAF"),
        ('{"users": [], "user_data": {}}', "no records"),
        ('{"users": ["a"], "user_data": {"a": {"x": [[0, 1]], "y": [1]}}}', "user a: images of shape"),
        ('{"users": ["a"], "user_data": {"a": {"x": ["text"], "y": [1]}}}', "user a"),
    ],
)
def test_other_files_are_refused(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(DataError, match=words):
        load(str(path))


def test_values_out_of_range_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="label 1 is 62"):
        load(str(leaf(tmp_path / "labels.json", {"a": [0, 62]})))
    wrong = {"a": {"x": [[0.5] * 784, [1.5] * 784], "y": [0, 1]}}
    with pytest.raises(DataError, match="image 1"):
        load(str(leaf(tmp_path / "pixels.json", {"a": [0, 1]}, user_data=wrong)))
