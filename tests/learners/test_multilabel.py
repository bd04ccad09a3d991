"""Learners of several labels: unknown ones are not trained on, every loss teaches, files come back."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.datasets import make_multilabel_classification

from fedballot.core.errors import SettingsError
from fedballot.core.metrics import auc_per_class, mean_of
from fedballot.learners.objectives import Abstain
from fedballot.learners.registry import make_learner

X, Y = make_multilabel_classification(700, 20, n_classes=5, n_labels=2, random_state=0)
X, Y = (X / 10).astype(np.float32), Y.astype(np.int8)
NAMES = ["logistic-regression", *(["mlp-torch", "linear-torch"] if find_spec("torch") else [])]


def make(name, **changes):
    known = {"n_classes": 5, "input_shape": (20,), "seed": 1, "epochs": 40, "batch_size": 32, "lr": 5e-3}
    return make_learner(name, **known | {"multi_label": True} | changes)


def auc(learner) -> float:
    return mean_of(auc_per_class(Y[500:], learner.predict_logits(X[500:])))


@pytest.mark.parametrize("name", NAMES)
def test_unknown_labels_are_not_trained_on(name):
    holes = Y[:500].copy()
    holes[np.random.default_rng(0).random(holes.shape) < 0.3] = -1
    assert auc(make(name).fit(X[:500], holes)) > 0.75  # .84 to .88 seen
    opposite = np.where(holes == -1, Y[:500], -1).astype(np.int8)
    both = make(name).fit(np.concatenate([X[:500], X[:500]]), np.concatenate([holes, opposite]))
    assert auc(both) > 0.75


@pytest.mark.parametrize("name", NAMES)
def test_a_label_that_nobody_knows_or_that_is_always_the_same_gives_finite_logits(name):
    y = Y[:100].copy()
    y[:, 1], y[:, 2], y[:, 3] = -1, 1, 0
    logits = make(name).fit(X[:100], y).predict_logits(X[:9])
    assert logits.shape == (9, 5) and np.isfinite(logits).all()
    assert logits[:, 2].mean() > logits[:, 3].mean() + 1
    everything_unknown = make(name).fit(X[:9], np.full((9, 5), -1, np.int8))
    assert np.isfinite(everything_unknown.predict_logits(X[:9])).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("loss", ["l2", "mae", "binary"])
def test_every_loss_teaches(name, loss):
    logits = np.where(Y[:500] == 1, 3.0, -3.0).astype(np.float32)
    targets = logits if loss != "binary" else np.clip(Y[:500], 0.05, 0.95).astype(np.float32)
    assert auc(make(name).distill(X[:500], targets, loss=loss)) > 0.75


@pytest.mark.parametrize("name", NAMES)
def test_a_file_comes_back(name, tmp_path):
    learner = make(name, epochs=2).fit(X[:100], Y[:100])
    learner.save(tmp_path / "model")
    again = make(name, seed=5).load(tmp_path / "model")
    assert again.predict_logits(X).tobytes() == learner.predict_logits(X).tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_wrong_labels_are_refused(name):
    for y in (Y[:9, :4], Y[:8], Y[:9] + 1, Y[:0]):
        with pytest.raises(SettingsError):
            make(name).fit(X[: 9 if len(y) else 0], y)
    with pytest.raises(SettingsError, match="several labels takes no objective, so not Abstain"):
        make(name).fit(X[:9], Y[:9], objective=Abstain(X[:5]))


def test_the_auc_of_a_label_counts_known_records_of_both_kinds_only():
    truth = np.array([[1, 1, -1], [0, 1, -1], [1, -1, 0], [-1, 1, 1]])
    scores = np.array([[0.9, 1, 1], [0.1, 1, 0], [0.2, 1, 0.3], [0.0, 1, 0.2]])
    assert auc_per_class(truth, scores) == [1.0, None, 0.0]
    assert mean_of([1.0, None, 0.0]) == 0.5
    assert mean_of([None]) is None
