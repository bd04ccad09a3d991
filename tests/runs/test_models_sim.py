"""Four clients with four kinds of model, boosted ones among them, on a real table; models that are refused in time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from fedballot.core.errors import SettingsError
from fedballot.core.progress import Silent
from fedballot.core.setting import build
from fedballot.methods.registry import get_method
from fedballot.sim import simulate

for package in ("xgboost", "lightgbm", "catboost"):
    pytest.importorskip(package)

KINDS = ("xgboost(max_depth=3, n_estimators=40)", "lightgbm", "sim_models:scaled_svc(C=2.0)", "random-forest")
OTHERS = ("catboost(depth=4)", "sklearn.naive_bayes:GaussianNB", "knn(n_neighbors=3)", "xgboost")
FACTORY = """
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC


def scaled_svc(C):
    return make_pipeline(StandardScaler(), SVC(C=C))
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "sim_models.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(tmp_path)
    data = load_breast_cancer()
    np.savez(tmp_path / "cancer.npz", x=data.data.astype(np.float32), y=data.target.astype(np.int64))
    return tmp_path / "cancer.npz"


def settings(method: str, table: Path, **over: Any) -> Any:
    given = {"dataset": str(table), "clients": 4, "private_size": 240, "public_size": 180, "test_size": 149}
    return build(get_method(method).settings, given, {"workers": 2, "engine": "local"}, over)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "kinds", "server", "own"),
    [
        ("pate-fl", KINDS, "catboost(depth=4)", {"epsilon": "inf", "student": "argmax", "noise_seed": 1}),
        ("fedkd", OTHERS, "xgboost(n_estimators=60, max_depth=3)", {"noise_seed": 1}),
        ("fedmd", KINDS, None, {"rounds": 2}),
    ],
)
def test_four_kinds_of_model_make_a_good_server(
    method: str, kinds: tuple[str, ...], server: str | None, own: dict[str, Any], table: Path, tmp_path: Path
) -> None:
    models = {"client_models": list(kinds), **({"server_model": server} if server else {})}
    chosen = settings(method, table, **models, **own)
    result = simulate(method, chosen, tmp_path / "run", resume=False, progress=Silent())
    assert result["clients"]["answered"] == result["clients"]["asked"]
    assert not list((tmp_path / "run").glob("clients/*/errors.txt"))
    metrics = result["metrics"]
    assert min(metrics["accuracy_per_client"]) > 0.8 and len(metrics["accuracy_per_client"]) == 4  # a constant: 0.63
    if server:
        assert metrics["server_accuracy"] > 0.85 and metrics["label_accuracy"] > 0.85
        again = simulate(method, chosen, tmp_path / "again", resume=False, progress=Silent())
        same = [(tmp_path / run / "server-model-0").read_bytes() for run in ("run", "again")]
        assert again["metrics"] == metrics and len(set(same[0])) > 1
    assert {"xgboost-cpu", "xgboost"} & {*result["versions"]} and "lightgbm" in result["versions"]


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ({"client_models": "knn,xgboost(max_depth=-1)"}, r"learner 'xgboost\(max_depth=-1\)' failed when tried"),
        ({"client_models": "knn(k=3)"}, "learner 'knn\\(k=3\\)' has no parameter 'k'.*Allowed: .*n_neighbors"),
        ({"server_model": "sklearn.svm:SVC(kernel='none')"}, "failed when tried .*The 'kernel' parameter of SVC"),
        ({"server_model": "xgboost(4)"}, "cannot be read; expected NAME"),
    ],
)
def test_a_model_that_cannot_work_ends_the_run_before_anything_is_charged(
    models: dict[str, str], words: str, table: Path, tmp_path: Path
) -> None:
    chosen = settings("pate-fl", table, **{"client_models": "knn", "server_model": "knn", "epsilon": "inf", **models})
    with pytest.raises(SettingsError, match=words):
        simulate("pate-fl", chosen, tmp_path / "run", resume=False, progress=Silent())
    assert not (tmp_path / "run").exists()
