"""Learners and extractors of a package that is installed beside fedballot, alone and in runs."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.core.errors import SettingsError
from fedballot.core.setting import build
from fedballot.datasets.sources import load
from fedballot.learners.extractors import make_extractor
from fedballot.learners.registry import get_learner, make_learner
from fedballot.learners.steps import chain_name, needs_torch, split_steps
from fedballot.settings.voting import KnnSettings, PateSettings
from tests.conftest import SMALL, fitting
from tests.inprocess import run_here
from tests.packages import install

PACKAGE = '''
"""Models and features of somebody else; importing it needs no torch."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from fedballot.learners.registry import LearnerInfo, make_learner


class Centroids(ClassifierMixin, BaseEstimator):
    """The nearest mean of a class."""

    def fit(self, x, y):
        self.classes_ = np.unique(y)
        self.means_ = np.stack([x[y == label].mean(axis=0) for label in self.classes_])
        return self

    def decision_function(self, x):
        scores = -((x[:, None] - self.means_) ** 2).sum(axis=2)
        return scores if len(self.classes_) > 2 else scores[:, 1] - scores[:, 0]

    def predict(self, x):
        return self.classes_[self.decision_function(x).argmax(axis=1)]


def forest_in_disguise(name, options):
    return make_learner("random-forest", n_classes=options.n_classes, input_shape=options.input_shape,
                        seed=options.seed, epochs=1, batch_size=1, lr=1.0)


FOREST = LearnerInfo("a forest", forest_in_disguise)
IMAGES = LearnerInfo("a forest, of images only", forest_in_disguise, shapes="images")


def perceptron(n_classes, input_shape):
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(input_shape)), n_classes))


class RowsAndColumns:
    """Sums of rows and columns of grey images, less their public mean."""

    def __init__(self, input_shape):
        self.mean = None

    def fit(self, x):
        self.mean = self._sums(x).mean(axis=0)

    def transform(self, x):
        return self._sums(x) - self.mean

    def _sums(self, x):
        return np.concatenate([x.sum(axis=1, dtype=float), x.sum(axis=2, dtype=float)], axis=1)


class TooFew:
    def __init__(self, input_shape):
        pass

    def transform(self, x):
        return x.reshape(len(x), -1)[:1]


class Refuses:
    def __init__(self, input_shape):
        raise KeyError("secret")

    def transform(self, x):
        return x


def flatten(input_shape):
    from torch import nn

    return nn.Flatten()


number = 5
'''
ENTRIES = """
[fedballot.learners]
centroids = their_models:Centroids
their-forest = their_models:FOREST
perceptron = their_models:perceptron
[fedballot.extractors]
rows-and-columns = their_models:RowsAndColumns
their-flatten = their_models:flatten
"""
X, Y = load("digits").train.x, load("digits").train.y
needs_a_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "cache"))
    return install(tmp_path / "site", {"their_models.py": PACKAGE}, ENTRIES, patch=monkeypatch)


def learner(name: str, **over: Any) -> Any:
    options = {"n_classes": 10, "input_shape": (8, 8), "seed": 0, "epochs": 30, "batch_size": 32, "lr": 1e-2}
    return make_learner(name, **{**options, **over})


@pytest.mark.parametrize(
    "name",
    [
        "centroids",
        "their_models:Centroids",
        "their-forest",
        "their_models:FOREST",
        pytest.param("perceptron", marks=needs_a_torch),
        pytest.param("their_models:perceptron", marks=needs_a_torch),
    ],
)
def test_a_learner_of_a_package_learns(package: Path, name: str, tmp_path: Path) -> None:
    one = learner(name).fit(X[:600], Y[:600])
    one.save(tmp_path / "model")
    one = learner(name).load(tmp_path / "model")
    assert (one.predict_logits(X[600:]).argmax(axis=1) == Y[600:]).mean() > 0.8
    assert get_learner(name).needs_torch == ("perceptron" in name)


def test_what_is_no_learner_is_refused(package: Path) -> None:
    with pytest.raises(SettingsError, match="is of type int; expected a LearnerInfo, a class with fit and predict"):
        learner("their_models:number")
    with pytest.raises(SettingsError, match="takes images, but the data are vectors of 64"):
        learner("their_models:IMAGES", input_shape=(64,))
    with pytest.raises(SettingsError, match="unknown learner 'centroid'; did you mean 'centroids'"):
        learner("centroid")


@pytest.mark.parametrize("name", ["rows-and-columns", "their_models:RowsAndColumns"])
def test_a_transformer_of_a_package_is_a_first_step(package: Path, name: str) -> None:
    assert chain_name(f" {name} + l2") == f"{name}+l2"
    assert "their_models" not in sys.modules
    assert not needs_torch(f"{name}+l2")
    features = make_extractor(f"{name}+l2", input_shape=(8, 8)).fit(X[:300]).transform(X[300:400])
    assert features.shape == (100, 16) and features.dtype == np.float32
    sums = np.concatenate([X[300:400].sum(axis=1), X[300:400].sum(axis=2)], axis=1)
    centred = sums - np.concatenate([X[:300].sum(axis=1), X[:300].sum(axis=2)], axis=1).mean(axis=0)
    np.testing.assert_allclose(features, centred / np.linalg.norm(centred, axis=1, keepdims=True), rtol=1e-4)
    whitened = make_extractor(f"{name}+pca", input_shape=(8, 8), components=5).fit(X[:300])
    assert whitened.transform(X[300:400]).shape == (100, 5)
    assert np.array_equal(whitened.total(X[300:400]), whitened.transform(X[300:400]))
    with pytest.raises(SettingsError, match="the public pool is empty"):
        make_extractor(name, input_shape=(8, 8)).fit(X[:0])


@needs_a_torch
def test_a_torch_module_of_a_package_has_a_name(package: Path) -> None:
    assert needs_torch("their-flatten")
    features = make_extractor("their-flatten", input_shape=(8, 8)).fit(X[:10]).transform(X[10:20])
    np.testing.assert_allclose(features, X[10:20].reshape(10, 64) / np.float32(255), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("their_models:TooFew", r"gives uint8 of shape \(1, 64\) for 20 records"),
        ("their_models:Refuses", "cannot be built: KeyError: 'secret'"),
        ("their_models:number", "is of type int; expected a function that returns a torch module, or a class with"),
        ("pca+rows-and-columns", "unknown extractor step 'rows-and-columns'"),
        ("rows-and-column", "unknown extractor step 'rows-and-column'; did you mean 'rows-and-columns'"),
    ],
)
def test_what_is_no_extractor_is_refused(package: Path, name: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        make_extractor(name, input_shape=(8, 8)).fit(X[:20]).transform(X[:20])


def test_an_extractor_of_two_packages_is_none(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = "[fedballot.extractors]\nrows-and-columns = more:x\n"
    install(tmp_path / "more", {"more.py": ""}, entry, name="more", patch=monkeypatch)
    with pytest.raises(SettingsError, match=r"extractor 'rows-and-columns' is taken twice, by more 1.2"):
        split_steps("rows-and-columns+l2")


def test_runs_with_learners_and_extractors_of_a_package(package: Path, tmp_path: Path) -> None:
    models = {"client_models": "centroids,their-forest", "server_model": "their_models:Centroids"}
    result = run_here("pate-fl", build(PateSettings, SMALL, {"epsilon": "inf"}, models), tmp_path / "pate")
    assert result["metrics"]["server_accuracy"] > 0.7
    features = {"epsilon": "inf", "k": 7, "extractor": "rows-and-columns"}
    result = run_here("private-knn-fl", build(KnnSettings, fitting(KnnSettings, SMALL), features), tmp_path / "knn")
    assert result["metrics"]["server_accuracy"] > 0.7


@pytest.mark.slow
def test_the_command_runs_with_them_on_its_workers(package: Path, tmp_path: Path) -> None:
    path = os.pathsep.join([str(package), str(Path(__file__).parents[2])])
    command = [sys.executable, "-m", "fedballot.cli", "run", "pate-fl", "--quiet", "--out", str(tmp_path / "run")]
    settings = {**SMALL, "clients": 3, "client_models": "centroids", "server_model": "their-forest", "epsilon": "inf"}
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "3 of 3 good" in done.stdout
