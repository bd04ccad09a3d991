"""A model of features by a frozen encoder: it is given records as they are, and knows its encoder again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: fedballot[torch]")

from fedballot.core.errors import DataError, SettingsError
from fedballot.datasets.encoders.sources import make_encoder
from fedballot.datasets.sources import load as load_data
from fedballot.model import load
from fedballot.model.export import export
from tests.model_runs import VOTES, run
from tests.packages import install

NET = """
import torch

def net(grid=4):
    return torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(grid), torch.nn.Flatten())
"""


def test_predictions_from_records_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "package", {"encoder_of_run.py": NET}, patch=monkeypatch)
    make_encoder.cache_clear()
    few = {"dataset": "digits", "private_size": 400, "public_size": 100, "test_size": 100, "epsilon": "inf"}
    folder = run(tmp_path / "run", **VOTES | few, server_model="logistic-regression", encoder="encoder_of_run:net")
    told = json.loads((folder / "result.json").read_text())
    encoder = make_encoder("encoder_of_run:net")
    assert told["data"]["encoder"]["digest"] == encoder.digest and told["metrics"]["server_accuracy"] > 0.5
    x = np.asarray(load_data("digits").train.x[:20])
    said = load(folder).predict(x)
    export(folder, "skops", tmp_path / "model.skops")
    np.testing.assert_array_equal(load(tmp_path / "model.skops").predict(x), said)
    with pytest.raises(SettingsError, match="learned from features of encoder=encoder_of_run:net, which the file"):
        export(folder, "onnx", tmp_path / "model.onnx")
    model = folder / "model.json"
    model.write_text(model.read_text().replace(encoder.digest, "sha256:0"))
    with pytest.raises(DataError, match="the digest sha256:0, but the one on this machine has sha256:"):
        load(folder)


def test_a_model_that_cannot_take_vectors_is_named_with_its_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "package", {"encoder_of_run.py": NET}, patch=monkeypatch)
    make_encoder.cache_clear()
    few = {"dataset": "digits", "private_size": 100, "public_size": 40, "test_size": 40}
    for setting in ("server_model", "client_models"):
        values = VOTES | few | {"server_model": "logistic-regression", setting: "cnn-small"}
        with pytest.raises(SettingsError, match=f"{setting}=cnn-small: learner 'cnn-small' takes images"):
            run(tmp_path / setting, **values, encoder="encoder_of_run:net")
