"""XGBoost, LightGBM and CatBoost, for real: alone, in pipelines, with gaps in the labels, in their own formats."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits

from fedballot.core import skops_io
from fedballot.core.errors import DataError, SettingsError
from fedballot.learners.registry import make_learner

for package in ("xgboost", "lightgbm", "catboost"):
    pytest.importorskip(package)

NAMES = ["xgboost", "lightgbm", "catboost"]
CANCER = load_breast_cancer()
ROWS = np.random.default_rng(0).permutation(len(CANCER.target))
X, Y = CANCER.data.astype(np.float32)[ROWS], CANCER.target.astype(np.int64)[ROWS]
DIGITS = load_digits()
FACTORIES = """
from sklearn.ensemble import VotingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def piped(library, trees=20):
    from importlib import import_module

    kinds = {"xgboost": "XGBClassifier", "lightgbm": "LGBMClassifier", "catboost": "CatBoostClassifier"}
    model = getattr(import_module(library), kinds[library])(n_estimators=trees)
    return make_pipeline(StandardScaler(), model)


def voting(library):
    return VotingClassifier([("one", piped(library)[-1]), ("two", piped(library)[-1])], voting="soft")
"""


@pytest.fixture(autouse=True)
def _factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "boosted_factories.py").write_text(FACTORIES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "boosted_factories", raising=False)
    monkeypatch.chdir(tmp_path)


def make(name: str, **over: Any) -> Any:
    given = {"n_classes": 2, "input_shape": (30,), "seed": 3, "epochs": 1, "batch_size": 8, "lr": 0.1}
    return make_learner(name, **given | over)


@pytest.mark.parametrize("name", [*NAMES, *(f"boosted_factories:piped(library={name!r})" for name in NAMES)])
def test_it_learns_a_real_table_and_comes_back_from_its_file(name: str, tmp_path: Path) -> None:
    one = make(name).fit(X[:350], Y[:350])
    said = one.predict_logits(X[350:])
    assert (said.argmax(axis=1) == Y[350:]).mean() > 0.92  # a constant has 0.63
    for path in (tmp_path / "model", tmp_path / "again"):
        one.save(path)
        one = make(name, seed=5).load(path)
        assert one.predict_logits(X[350:]).tobytes() == said.tobytes()
    assert [path.name for path in tmp_path.iterdir() if "catboost" in path.name] == []  # which likes to leave files
    soft = np.eye(2, dtype=np.float32)[Y[:350]] * 0.9 + 0.05
    flipped = make(name).distill(X[:350], 1 - soft, weights=np.arange(350, dtype=np.float32) + 1)
    assert (flipped.predict_logits(X[350:]).argmax(axis=1) != Y[350:]).mean() > 0.9


@pytest.mark.parametrize("name", NAMES)
def test_the_file_holds_the_library_s_own_format_and_no_type_that_is_not_trusted(name: str, tmp_path: Path) -> None:
    make(name).fit(X[:100], Y[:100]).save(tmp_path / "model")
    content = (tmp_path / "model").read_bytes()
    assert skops_io.get_untrusted_types(data=content) == []
    model = skops_io.loads(content, trusted=[])["estimator"]["model"].tobytes()
    assert model[: {"xgboost": 1, "lightgbm": 4, "catboost": 4}[name]] in (b"{", b"tree", b"CBM1")


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_another_model_or_a_damaged_one_is_refused(name: str, tmp_path: Path) -> None:
    one = make(f"{name}(n_estimators=5)").fit(X[:100], Y[:100])
    one.save(tmp_path / "model")
    with pytest.raises(DataError, match="saved by a learner whose learner is"):
        make(f"{name}(n_estimators=6)").load(tmp_path / "model")
    state = skops_io.loads((tmp_path / "model").read_bytes(), trusted=[])
    state["estimator"]["model"] = state["estimator"]["model"][:40]
    (tmp_path / "model").write_bytes(skops_io.dumps(state))
    with pytest.raises(DataError, match="holds no fitted classifier"):
        make(f"{name}(n_estimators=5)").load(tmp_path / "model")


@pytest.mark.parametrize("name", [*NAMES, "boosted_factories:voting(library='xgboost')"])
def test_labels_may_have_gaps(name: str, tmp_path: Path) -> None:
    rows = np.isin(DIGITS.target, (0, 7))
    x, y = DIGITS.data[rows].astype(np.float32), DIGITS.target[rows].astype(np.int64)
    one = make(name, n_classes=10, input_shape=(64,)).fit(x[:200], y[:200])
    one.save(tmp_path / "model")
    said = make(name, n_classes=10, input_shape=(64,)).load(tmp_path / "model").predict_logits(x[200:])
    assert said.shape == (len(x) - 200, 10) and (said.argmax(axis=1) == y[200:]).mean() > 0.95
    unseen = np.setdiff1d(np.arange(10), (0, 7))
    assert (said[:, unseen] < -20).all()


@pytest.mark.parametrize("name", NAMES)
def test_few_records_one_class_and_records_that_are_all_alike_train(name: str) -> None:
    for x, y in ((X[:2], [0, 1]), (X[:5], [1] * 5), (X[:1].repeat(4, axis=0), [0, 1, 0, 1])):
        said = make(name).fit(x, np.array(y)).predict_logits(x)
        assert said.shape == (len(x), 2) and np.isfinite(said).all()


@pytest.mark.parametrize("name", NAMES)
def test_several_labels_per_record(name: str, tmp_path: Path) -> None:
    labels = np.stack([Y, 1 - Y, np.full(len(Y), -1)], axis=1)
    one = make(f"{name}(n_estimators=20)", n_classes=3, multi_label=True).fit(X[:300], labels[:300])
    one.save(tmp_path / "model")
    said = make(f"{name}(n_estimators=20)", n_classes=3, multi_label=True).load(tmp_path / "model")
    said = said.predict_logits(X[300:])
    assert (said[:, 0] > 0).astype(int).tolist() == (said[:, 1] < 0).astype(int).tolist()
    assert ((said[:, 0] > 0) == Y[300:]).mean() > 0.9
    assert np.ptp(said[:, 2]) == 0  # nobody knows the third


@pytest.mark.parametrize("name", NAMES)
def test_parameters_reach_the_library_and_unknown_ones_are_refused(name: str) -> None:
    stump, deep = (make(f"{name}(max_depth={depth}, n_estimators=9)").fit(X[:300], Y[:300]) for depth in (1, 6))
    assert len(np.unique(stump.predict_logits(X).round(4), axis=0)) < len(
        np.unique(deep.predict_logits(X).round(4), axis=0)
    )
    with pytest.raises(
        SettingsError, match=r"no parameter 'max_dept'; did you mean 'max_depth'\? Allowed: .*max_depth"
    ):
        make(f"{name}(max_dept=3)")


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_is_the_run_s_unless_it_is_a_parameter(name: str) -> None:
    rows = {"xgboost": "subsample=0.5", "lightgbm": "subsample=0.5, subsample_freq=1", "catboost": "subsample=0.5"}
    more = ", bootstrap_type='Bernoulli'" if name == "catboost" else ""
    text = f"{name}({rows[name]}, n_estimators=9{more})"
    said = [make(text, seed=seed).fit(X[:200], Y[:200]).predict_logits(X).tobytes() for seed in (1, 1, 2)]
    assert said[0] == said[1] != said[2]
    text = text[:-1] + ", random_state=4)"
    said = [make(text, seed=seed).fit(X[:200], Y[:200]).predict_logits(X).tobytes() for seed in (1, 2)]
    assert said[0] == said[1]


def test_a_missing_library_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedballot.learners.registry.importlib.util.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"learner 'xgboost' needs xgboost: pip install 'fedballot\[boosting\]'"):
        make("xgboost")
