"""A text classifier of Hugging Face's from a folder: it learns raw texts of a table, and the network is never asked."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.core.errors import DataError, SettingsError
from fedballot.datasets.readers.files import load_path
from fedballot.datasets.schema.contract import Column, Schema
from fedballot.datasets.schema.reading import Reading
from fedballot.datasets.schema.texts import bytes_of, texts_of
from fedballot.datasets.schema.toml import parse_schema, to_toml
from fedballot.learners.registry import make_learner
from fedballot.learners.tryout import try_learner
from fedballot.model import load
from tests.model_runs import VOTES, run

GOOD, BAD, PLAIN = ("fine", "lovely", "warm"), ("dull", "cold", "poor"), ("the", "film", "is", "and", "very")
BYTES = 64


def reviews(path: Path, n: int = 360) -> str:
    """Sentences of plain words, with two that are good or two that are bad."""
    rng = np.random.default_rng(0)
    lines = ["text,label"]
    for number in range(n):
        words = [*rng.choice(PLAIN, 4), *rng.choice((GOOD, BAD)[number % 2], 2)]
        lines.append(f'"{" ".join(rng.permutation(words))}",{("good", "bad")[number % 2]}')
    path.write_text("\n".join(lines))
    return str(path)


def schema(path: Path) -> str:
    label = Column("label", "category", words=("bad", "good"))
    path.write_text(to_toml(Schema(label, (Column("text", "text", bytes=BYTES),))))
    return str(path)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of 2 layers that has learned nothing, with a tokenizer of the few words."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: fedballot[text]")
    torch = pytest.importorskip("torch")
    folder: Path = tmp_path_factory.mktemp("bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *GOOD, *BAD, *PLAIN]
    (folder / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=64, **sizes)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def records(tmp_path: Path) -> tuple[Any, Any]:
    source = load_path(reviews(tmp_path / "reviews.csv"), Reading(parse_schema(schema_text(tmp_path), tmp_path)))
    return source.train.x, source.train.y


def schema_text(tmp_path: Path) -> str:
    return Path(schema(tmp_path / "schema.toml")).read_text()


def learner(name: str, **changes: Any) -> Any:
    options = {"n_classes": 2, "input_shape": (BYTES,), "seed": 1, "epochs": 8, "batch_size": 16, "lr": 2e-3}
    return make_learner(name, **{**options, **changes})


def test_texts_go_through_arrays_as_they_are(tmp_path: Path) -> None:
    texts = ["größer", "", "a\0b", "日本語"]
    assert texts_of(bytes_of(texts, 9).astype(np.float32)) == ["größer", "", "a b", "日本語"]
    assert texts_of(bytes_of(["日本語"], 8)) == ["日本"]
    assert texts_of(np.concatenate([bytes_of(["one"], 5), bytes_of(["two"], 5)], axis=1)) == ["one two"]
    x = records(tmp_path)[0]
    assert x.shape == (360, BYTES) and x.dtype == np.float32 and sorted({*texts_of(x[:1])[0].split()} & {*GOOD})
    with pytest.raises(DataError, match="the records are no texts"):
        texts_of(np.array([[0.5]]))


@pytest.mark.parametrize(("kind", "size"), [("number", 5), ("text", -1), ("text", "many"), ("text", True)])
def test_bytes_are_of_a_text(tmp_path: Path, kind: str, size: object) -> None:
    text = f'[label]\nwords = ["a", "b"]\n[columns.c]\nkind = "{kind}"\nbytes = {json.dumps(size)}\n'
    with pytest.raises(DataError, match=r"columns\.c\.bytes = .*; expected of a text, a whole number"):
        parse_schema(text, tmp_path)


def test_it_learns_and_is_kept_without_code(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: asked.append(address))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *address, **_: asked.append(address))
    x, y = records(tmp_path)
    name = f"hf:{bert}"
    first = learner(name).fit(x[:160], y[:160])
    said = first.predict_logits(x[160:])
    assert (said.argmax(axis=1) == y[160:]).mean() > 0.95

    first.save(tmp_path / "kept")
    content = (tmp_path / "kept").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert any(key.startswith("model.bert.") for key in header)
    np.testing.assert_array_equal(learner(name).load(tmp_path / "kept").predict_logits(x[160:]), said)
    assert not asked


@pytest.mark.slow
def test_a_federation_of_texts(bert: Path, tmp_path: Path) -> None:
    sizes = {"private_size": 160, "public_size": 120, "test_size": 80, "schema": schema(tmp_path / "schema.toml")}
    models = {"client_models": f"hf:{bert}(max_tokens=16)", "server_model": f"hf:{bert}"}
    training = {"epochs": 12, "batch_size": 8, "lr": 2e-3, "server_epochs": 12, "server_batch_size": 8, "clients": 2}
    values = (
        VOTES
        | sizes
        | models
        | training
        | {"min_clients": 2, "epsilon": "inf", "dataset": reviews(tmp_path / "reviews.csv")}
    )
    folder = run(tmp_path / "run", **values)
    assert json.loads((folder / "result.json").read_text())["metrics"]["server_accuracy"] > 0.9
    lines = (tmp_path / "reviews.csv").read_text().splitlines()
    (tmp_path / "new.csv").write_text("\n".join(line.rpartition(",")[0] or "text" for line in lines))
    model = load(folder)
    words = model.predict(model.read(tmp_path / "new.csv"))
    assert np.mean(words == [line.rpartition(",")[2] for line in lines[1:]]) > 0.9


def test_what_cannot_work_is_refused_first(bert: Path, tmp_path: Path) -> None:
    x, _ = records(tmp_path)
    with pytest.raises(SettingsError, match="the records are no texts: expected a table whose columns are all of kind"):
        try_learner(f"hf:{bert}(max_tokens=9)", x / 3, n_classes=2)
    try_learner(f"hf:{bert}", x, n_classes=2)
    with pytest.raises(SettingsError, match="no parameter 'max_token'; did you mean 'max_tokens'"):
        learner(f"hf:{bert}(max_token=3)")
    (tmp_path / "empty").mkdir()
    for folder in ("empty", "none"):
        with pytest.raises(SettingsError, match=f"{folder} is no model; expected a folder with config.json"):
            learner(f"hf:{tmp_path / folder}")
    (tmp_path / "empty" / "config.json").write_text("{}")
    with pytest.raises(SettingsError, match=r"cannot be read .*expected a folder with config.json, model.safetensors"):
        learner(f"hf:{tmp_path / 'empty'}")


def test_a_pickle_is_not_read(bert: Path, tmp_path: Path) -> None:
    import torch

    for file in bert.iterdir():
        if file.name != "model.safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(SettingsError, match=r"cannot be read .*model\.safetensors"):
        learner(f"hf:{tmp_path}")


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(SettingsError, match=r"needs transformers: pip install 'fedballot\[text\]'"):
        learner(f"hf:{tmp_path}")
