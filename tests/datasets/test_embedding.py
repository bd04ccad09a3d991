"""Embeddings: norm 1, from public records alone, one record at a time, and classes that stay together."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestCentroid

from fedballot.datasets.embedding import diffusion, fit_embedding, nearest
from fedballot.errors import SettingsError

DATA = load_digits()
X, Y = DATA.data.astype(np.float32), DATA.target


@pytest.mark.parametrize(("kind", "dimension"), [("pca", 12), ("graph", 30)])
def test_rows_have_norm_1_depend_on_themselves_and_keep_classes_apart(kind, dimension):
    found = fit_embedding(X[:900], dimension, kind)
    z = found.transform(X[900:])
    assert z.shape == (897, dimension) and z.dtype == np.float32
    assert np.allclose(np.linalg.norm(z, axis=1), 1, atol=1e-5)
    assert np.allclose(found.transform(X[900:901]), z[:1], atol=1e-5)
    assert NearestCentroid().fit(z[:400], Y[900:1300]).score(z[400:], Y[1300:]) > 0.75


def test_pca_is_the_eigenbasis_with_eigenvalues_to_the_quarter():
    rows = X[:500] / np.linalg.norm(X[:500], axis=1, keepdims=True)
    found = fit_embedding(X[:500], 5)
    values = np.linalg.eigvalsh(np.cov(rows.T, bias=True))[::-1][:5]
    spread = ((rows - found.mean) @ found.axes).var(axis=0)
    assert np.allclose(spread, values * values**-0.5, rtol=1e-3)


def test_nearest_is_exact_search():
    rng = np.random.default_rng(0)
    rows, points = rng.normal(size=(7, 3)).astype(np.float32), rng.normal(size=(40, 3)).astype(np.float32)
    rows, points = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (rows, points))
    wanted = np.argsort(((rows[:, None] - points[None]) ** 2).sum(axis=2), axis=1)[:, :5]
    assert [set(r) for r in nearest(rows, points, 5)] == [set(r) for r in wanted]
    assert nearest(rows, points[:3], 5).shape == (7, 3)


def test_diffusion_tells_two_clouds_apart():
    rng = np.random.default_rng(1)
    points = np.vstack(
        [np.array([1.0, 0, 0]) + rng.normal(0, 0.1, (60, 3)), np.array([0, 1.0, 0]) + rng.normal(0, 0.1, (60, 3))]
    )
    points = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
    first = diffusion(points, 3)[:, 0]
    assert np.sign(first[:60]).std() == 0 and np.sign(first[60:]).std() == 0 and first[0] * first[-1] < 0


def test_too_few_records_or_features_are_refused():
    for rows, dimension, kind in ((10, 10, "pca"), (200, 65, "pca"), (10, 10, "graph"), (10, 0, "pca")):
        with pytest.raises(SettingsError, match="dimension"):
            fit_embedding(X[:rows], dimension, kind)
