"""Embeddings: norm 1, from public records alone, one record at a time, and classes that stay together."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestCentroid

from fedballot.core.errors import SettingsError
from fedballot.datasets.embedding import OVERLAP, fit_embedding, fit_landmarks, nearness

DATA = load_digits()
X, Y = DATA.data.astype(np.float32), DATA.target


@pytest.mark.parametrize("landmarks", [0, 60])
def test_rows_have_norm_1_depend_on_themselves_and_keep_classes_apart(landmarks):
    found = fit_embedding(X[:900], 12)
    if landmarks:
        found = replace(found, landmarks=fit_landmarks(found, X[:900], landmarks, 0))
    z = found.transform(X[900:])
    assert z.shape == (897, landmarks or 12) == (897, found.dimension) and z.dtype == np.float32
    assert np.allclose(np.linalg.norm(z, axis=1), 1, atol=1e-5)
    assert np.allclose(found.transform(X[900:901]), z[:1], atol=1e-5)
    assert NearestCentroid().fit(z[:400], Y[900:1300]).score(z[400:], Y[1300:]) > 0.75


def test_the_width_gives_the_mean_its_norm():
    axes = fit_embedding(X, 20)
    found = replace(axes, landmarks=fit_landmarks(axes, X, 80, 0))
    mean = found.transform(X[:2000]).mean(axis=0)
    assert mean @ mean == np.float32(OVERLAP) or abs(mean @ mean - OVERLAP) < 1e-3


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 1e6))
def test_whatever_the_landmarks_are_no_angle_is_obtuse(seed, scale):
    rng = np.random.default_rng(seed)
    points, landmarks = rng.normal(size=(6, 4)), scale * rng.normal(size=(9, 4))
    z = nearness(points.astype(np.float32), landmarks.astype(np.float32))
    assert (z >= 0).all() and np.allclose(np.linalg.norm(z, axis=1), 1, atol=1e-5)
    assert np.linalg.norm(z[:, None] - z[None], axis=2).max() <= np.sqrt(2) + 1e-5


def test_pca_is_the_eigenbasis_with_eigenvalues_to_the_quarter():
    rows = X[:500] / np.linalg.norm(X[:500], axis=1, keepdims=True)
    found = fit_embedding(X[:500], 5)
    values = np.linalg.eigvalsh(np.cov(rows.T, bias=True))[::-1][:5]
    spread = ((rows - found.mean) @ found.axes).var(axis=0)
    assert np.allclose(spread, values * values**-0.5, rtol=1e-3)


def test_too_few_records_or_features_are_refused():
    for rows, dimension in ((10, 10), (200, 65), (10, 0)):
        with pytest.raises(SettingsError, match="dimension"):
            fit_embedding(X[:rows], dimension)
    for number in (1, 50):
        with pytest.raises(SettingsError, match="landmarks"):
            fit_landmarks(fit_embedding(X[:50], 5), X[:50], number, 0)
