"""CIFAR-100 as torchvision keeps it, on generated files of that layout; the classes of FedMD's paper rows."""

import hashlib
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.core.errors import SettingsError
from fedballot.datasets.own_task import choose_classes
from fedballot.datasets.sources import load
from fedballot.methods.registry import settings_types
from fedballot.runs.engine import federated_data
from fedballot.settings.layers import resolve

tv: Any = pytest.importorskip("torchvision.datasets", reason="needs the torch extra")
WANTED = {0: "apple", 2: "baby", 20: "chair", 63: "porcupine", 71: "sea", 82: "sunflower"}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None) -> Path:
    """Four training and two test images of each class, in the files that the download unpacks to."""
    monkeypatch.setenv("FEDBALLOT_DATA", str(tmp_path))
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    names = [WANTED.get(number, f"class {number}") for number in range(100)]
    files: dict[str, dict[str, Any]] = {"meta": {"fine_label_names": names}}
    for part, each in (("train", 4), ("test", 2)):
        labels = np.tile(np.arange(100), each)
        rows = np.random.default_rng(each).integers(0, 256, (len(labels), 3 * 32 * 32), dtype=np.uint8)
        rows[:, 0] = labels
        files[part] = {"data": rows, "fine_labels": labels.tolist(), "coarse_labels": (labels // 5).tolist()}
    sums = {}
    for name, content in files.items():
        (folder / name).write_bytes(pickle.dumps(content))
        sums[name] = hashlib.md5((folder / name).read_bytes()).hexdigest()
    monkeypatch.setattr(tv.CIFAR100, "train_list", [["train", sums["train"]]])
    monkeypatch.setattr(tv.CIFAR100, "test_list", [["test", sums["test"]]])
    monkeypatch.setattr(tv.CIFAR100, "meta", {"filename": "meta", "key": "fine_label_names", "md5": sums["meta"]})
    return tmp_path


def test_images_labels_and_names_are_read(root: Path) -> None:
    source = load("cifar100")
    assert source.train.x.shape == (400, 32, 32, 3) and source.test is not None and len(source.test) == 200
    assert source.train.x[:100, 0, 0, 0].tolist() == source.train.y[:100].tolist() == list(range(100))
    assert [source.classes[number] for number in WANTED] == list(WANTED.values())


def test_the_preset_s_classes_come_after_the_public_ones(root: Path) -> None:
    np.savez(root / "public.npz", x=np.zeros((30, 32, 32, 3), np.uint8), y=np.arange(30) % 10)
    small = {"public_dataset": str(root / "public.npz"), "public_size": 20, "private_size": 20}
    settings = resolve("fedmd", settings_types(), preset="fedmd-cifar100", values=small)
    data = federated_data(settings)
    assert data.classes[10:] == tuple(WANTED.values())
    assert len(data.test_y) == 12 and set(data.test_y) == set(range(10, 16))
    assert sum(len(part) for part in data.parts) == 20
    rows = data.private.x[np.concatenate(data.parts)][:, 0, 0, 0]
    assert set(rows) <= set(WANTED)


def test_other_classes_are_refused_by_name(root: Path) -> None:
    with pytest.raises(SettingsError, match="'pear'"):
        choose_classes(load("cifar100"), ("apple", "pear"))
