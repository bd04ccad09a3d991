"""The classifier of scikit-learn: its rules, real runs behind it, and what it promises."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

import fedballot as fb
from fedballot.core.errors import SettingsError

X, Y = load_digits(return_X_y=True)
WORDS = np.array([f"digit {number}" for number in range(10)])[Y]
SURE = {"abstain": False, "vote_fraction": 1.0}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path_factory.mktemp("cache")))


def test_clients_with_their_own_records_teach_a_server_of_public_ones(tmp_path: Path) -> None:
    parts = [slice(0, 300), slice(300, 700), slice(700, 900)]
    model = fb.FederatedClassifier("private-knn-fl", epsilon=8, out=tmp_path / "run")
    model.fit([X[p] for p in parts], [WORDS[p] for p in parts], public=X[900:1300], test=(X[1300:], WORDS[1300:]))
    assert model.score(X[1300:], WORDS[1300:]) == pytest.approx(model.result_.accuracy, abs=0.02)
    assert model.score(X[1300:], WORDS[1300:]) > 0.7 and set(model.predict(X)) <= set(WORDS)
    assert model.guarantee_.unit == "record" and model.guarantee_.epsilon <= 8
    assert model.result_.values["data"]["client_sizes"] == [300, 400, 200]
    assert fb.load(tmp_path / "run").accuracy == model.result_.accuracy and (tmp_path / "run" / "report.html").exists()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X[:99]), model.predict(X[:99]))


def test_it_keeps_the_rules_that_tools_rely_on() -> None:
    model = fb.FederatedClassifier("pate-fl", epsilon=float("inf"), clients=3, settings=SURE)
    quick = clone(model).set_params(client_model="knn", server_model="knn")
    scores = cross_val_score(quick, X[:1200], Y[:1200], cv=2)
    assert scores.min() > 0.5  # of 150 records a client
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X[:300], Y[:300])
    assert model.n_features_in_ == 64 and model.predict_proba(X[:5]).shape == (5, 10)
    with pytest.raises(ValueError, match="64 features"):
        model.predict(X[:, :9])
    assert not model.guarantee_.claimed


@pytest.mark.parametrize(
    ("given", "fitted", "words"),
    [
        ({}, {"X": [X, X], "y": [Y, Y]}, "need a public pool"),
        ({"epsilon": -1}, {"X": X, "y": Y}, "epsilon=-1"),
        ({"method": "pate"}, {"X": X, "y": Y}, "did you mean 'pate-fl'"),
        ({"method": "private-knn-fl", "client_model": "knn"}, {"X": X, "y": Y}, "has no setting 'client_models'"),
        ({}, {"X": X, "y": np.zeros(len(X))}, "one class"),
        ({}, {"X": X, "y": Y, "test": (X[:2], [0, 77])}, "77"),
    ],
)
def test_bad_input_is_named(given: dict[str, Any], fitted: dict[str, Any], words: str) -> None:
    with pytest.raises((SettingsError, ValueError), match=words):
        fb.FederatedClassifier(**given).fit(**fitted)


def test_columns_of_frames_are_taken_by_name_and_rows_are_not_paired_by_place() -> None:
    """Swapped in the public pool alone they made .47 of .83."""
    pd = pytest.importorskip("pandas")
    names = [f"pixel {number}" for number in range(64)]
    frame, classes = pd.DataFrame(X, columns=names), pd.Series(WORDS)
    parts = [slice(0, 300), slice(300, 700)]
    model = fb.FederatedClassifier("private-knn-fl", epsilon=float("inf"))
    shuffled = names[::-1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(
            [frame.iloc[parts[0]], frame[shuffled].iloc[parts[1]]],
            [classes.iloc[part] for part in parts],
            public=frame[shuffled].iloc[900:1300],
            test=(frame[shuffled].iloc[1300:], classes.iloc[1300:]),
        )
        assert model.score(frame.iloc[1300:], classes.iloc[1300:]) > 0.8
    assert list(model.feature_names_in_) == names
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[shuffled])
    with pytest.raises(ValueError, match="has no column 'pixel 3'"):
        model.fit([frame, frame.drop(columns="pixel 3")], [classes, classes], public=frame)
    with pytest.raises(ValueError, match="do not go together"):
        model.fit([frame, X], [classes, WORDS], public=frame)
    with pytest.raises(SettingsError, match="the indices of records and classes differ"):
        model.fit(frame, classes.sample(frac=1, random_state=0))


@pytest.mark.slow
def test_scikit_learn_s_own_checks() -> None:
    quick = dict.fromkeys(("client_model", "server_model"), "sklearn.naive_bayes:GaussianNB")
    model = fb.FederatedClassifier("pate-fl", epsilon=float("inf"), clients=3, settings=SURE, **quick)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(model, on_fail=None)
    assert {one["check_name"]: one["exception"] for one in found if one["status"] == "failed"} == {}
    assert sum(one["status"] == "passed" for one in found) > 40
