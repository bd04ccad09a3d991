"""ONNX files say what the models say that they were made of: networks, boosted ones, with what prepares a table."""

import json
import sys

import numpy as np
import pytest

from fedballot.core.errors import SettingsError
from fedballot.model import load
from fedballot.model.export import export
from tests.model.test_raw_tables import SIZES, patients
from tests.model_runs import VOTES, run

NEEDS = {"mlp-torch": ("torch", "onnxscript"), "xgboost": ("xgboost",), "lightgbm": ("lightgbm",)}
MODELS = ("random-forest", "logistic-regression", "mlp-torch", "xgboost(max_depth=3)", "lightgbm", "catboost")


def said(path, x):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(path))
    (p,) = session.run(["probabilities"], {session.get_inputs()[0].name: x})
    return p, session.get_modelmeta().custom_metadata_map


@pytest.mark.parametrize("name", MODELS)
def test_a_raw_table_gets_the_same_probabilities(tmp_path, name):
    pytest.importorskip("skl2onnx")
    for package in ("onnxmltools", *NEEDS.get(name.partition("(")[0], (name,) if name == "catboost" else ())):
        pytest.importorskip(package)
    patients().to_csv(tmp_path / "table.csv", index=False)
    folder = run(tmp_path / "run", **VOTES | SIZES, server_model=name, dataset=str(tmp_path / "table.csv"))
    export(folder, "onnx", tmp_path / "model.onnx")
    model = load(folder)
    x = model.read(tmp_path / "table.csv")
    assert np.isnan(x).any()
    p, about = said(tmp_path / "model.onnx", x)
    assert json.loads(about["classes"]) == list(model.classes) and '[columns."city"]' in about["schema"]
    np.testing.assert_allclose(p, model.predict_proba(x), atol=1e-4)


def test_images(tmp_path):
    for package in ("torch", "onnx", "onnxscript"):
        pytest.importorskip(package)
    more = {"dataset": "digits", "server_model": "cnn-small", "server_epochs": 1}
    folder = run(tmp_path / "run", **VOTES | SIZES | more)
    export(folder, "onnx", tmp_path / "model.onnx")
    model = load(folder)
    x = np.random.default_rng(0).integers(0, 17, (9, *model.shape)).astype(np.uint8)
    np.testing.assert_allclose(said(tmp_path / "model.onnx", x)[0], model.predict_proba(x), atol=1e-4)


@pytest.mark.parametrize("name", ["sklearn.svm:SVC", "sklearn.neighbors:NearestCentroid"])
def test_what_onnx_cannot_say_is_a_sentence(tmp_path, name):
    pytest.importorskip("skl2onnx")
    pytest.importorskip("onnxmltools")
    folder = run(tmp_path / "run", **VOTES | SIZES | {"dataset": "digits", "server_model": name})
    with pytest.raises(SettingsError, match=r"cannot be converted .* catboost and torch networks can; --format skops"):
        export(folder, "onnx", tmp_path / "model.onnx")


def test_onnx_without_its_libraries_is_a_sentence(tmp_path, monkeypatch):
    folder = run(tmp_path / "run", **VOTES | SIZES | {"dataset": "digits", "server_model": "random-forest"})
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(SettingsError, match=r"needs the package onnx: pip install 'fedballot\[onnx\]'"):
        export(folder, "onnx", tmp_path / "model.onnx")
    assert not list(tmp_path.glob("model.onnx*"))
