"""`import fedballot as fb`, as a researcher in a notebook uses it: objects in, objects out, real runs."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import fedballot as fb
from fedballot.api.objects import as_settings, data_name, model_name
from fedballot.api.result import guarantee_of
from fedballot.core.errors import DataError, RunError, SettingsError
from fedballot.learners.registry import make_learner
from fedballot.privacy.guarantee import SELF, Guarantee, secure_aggregation
from tests.inprocess import RunnerHere

X, Y = load_wine(return_X_y=True)
CENTROIDS = "sklearn.neighbors:NearestCentroid"  # .93 to .97 seen, and fitted in no time
SMALL: dict[str, Any] = {
    "private_size": 80,
    "public_size": 60,
    "test_size": 30,
    "clients": 8,
    "client_models": CENTROIDS,
    "server_model": CENTROIDS,
    "abstain": False,
    "vote_fraction": 1.0,
    "epsilon": 100.0,
    "workers": 1,
}


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    before = os.environ.get("FEDBALLOT_CACHE")
    os.environ["FEDBALLOT_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    os.environ.pop("FEDBALLOT_CACHE")
    if before is not None:
        os.environ["FEDBALLOT_CACHE"] = before


@pytest.fixture(autouse=True)
def _studies_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedballot.studies.sweep.Runner", RunnerHere)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> fb.Result:
    return fb.run("pate-fl", dataset=(X, Y), out=tmp_path_factory.mktemp("runs") / "wine", progress=False, **SMALL)


def test_a_run_on_arrays_is_a_result_that_says_what_it_is(result: fb.Result) -> None:
    assert result.status == "done" and result.accuracy is not None and result.accuracy > 0.7
    assert result.accuracy == result.metrics["server_accuracy"]
    assert result.guarantee is not None and result.guarantee.epsilon <= 100 and result.guarantee.unit == "client"
    assert result.guarantee.sentence() == result.values["guarantees"][0]["sentence"]
    assert "accuracy" in str(result) and "ε = " in str(result) and "client" in str(result)
    assert result.report().read_text().startswith("<!doctype html>")
    assert result.release.labels is not None and len(result.release.labels) == 60
    again = fb.load(result.folder)
    assert again.values == result.values


def test_it_predicts(tmp_path: Path) -> None:
    drawn = {**SMALL, "noise_seed": 1}
    result = fb.run("pate-fl", dataset=(X, Y), out=tmp_path / "r", progress=False, page=False, **drawn)
    words = result.predict(X)
    assert (words == Y.astype(str)).mean() > 0.8
    assert result.predict_proba(X).shape == (len(X), 3)


def test_it_is_a_row_of_a_frame_with_what_was_changed(result: fb.Result) -> None:
    (row,) = result.to_frame().to_dict("records")
    assert row["clients"] == 8 and row["accuracy"] == result.accuracy and row["guarantee"] == "proved"
    assert "seed" not in row  # at its default


def test_it_is_taken_up_where_it_is_and_refused_where_it_is_not_asked_for(result: fb.Result) -> None:
    before = (result.folder / "release.npz").read_bytes()
    again = fb.run("pate-fl", dataset=(X, Y), out=result.folder, resume=True, progress=False, page=False, **SMALL)
    assert again.accuracy == result.accuracy and (result.folder / "release.npz").read_bytes() == before
    with pytest.raises(SettingsError, match="--resume"):
        fb.run("pate-fl", dataset=(X, Y), out=result.folder, progress=False, **SMALL)


def test_frames_one_for_each_client_with_words_and_gaps(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    data = load_breast_cancer(as_frame=True)
    frame = data.frame.drop(columns="target").iloc[:, :6]
    frame["label"] = np.where(data.target == 1, "benign", "malignant")
    frame["side"] = np.where(np.arange(len(frame)) % 3, "left", "right")
    frame.iloc[::7, 0] = np.nan
    parts = [frame.iloc[start::4].iloc[:80] for start in range(3)]
    more = {name: value for name, value in SMALL.items() if name not in ("clients", "private_size")}
    more["epsilon"] = "inf"
    public = frame.iloc[3::4]
    quiet = {"progress": False, "page": False}
    done = fb.run("pate-fl", dataset=parts, public_dataset=public, out=tmp_path / "r", **quiet, **more)
    assert done.settings["clients"] == 3 and done.settings["partition"] == "by-group"
    assert done.values["data"]["client_sizes"] == [80, 80, 80]
    words = done.predict(frame.drop(columns="label"))
    assert set(words) <= {"benign", "malignant"} and (words == frame["label"]).mean() > 0.8
    assert isinstance(done.to_frame(), pd.DataFrame)


def test_objects_are_kept_once_for_their_owner_alone() -> None:
    first, again = (as_settings({"dataset": (X, Y)})["dataset"] for _ in range(2))
    assert first == again and stat.S_IMODE(os.stat(first).st_mode) == 0o600
    assert as_settings({"dataset": (X + 1, Y)})["dataset"] != first
    several = as_settings({"dataset": [(X, Y), (X, Y)], "clients": 9})
    assert several["clients"] == 9 and several["partition"] == "by-group"  # what is given stands


def test_a_named_index_is_a_column_and_rows_are_not_paired_by_place(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": [50.5, 60.5, 70.5], "label": ["a", "b", "a"]})
    assert Path(data_name("dataset", frame.set_index("age"))).read_text().startswith("age,label\n50.5,a")
    assert Path(data_name("dataset", frame.iloc[[2, 0]])).read_text() == "age,label\n70.5,a\n50.5,a\n"
    with pytest.raises(fb.SettingsError, match="the indices of records and classes differ"):
        data_name("dataset", (frame[["age"]], frame["label"].iloc[[2, 0, 1]]))


def test_what_is_no_number_is_a_sentence(result: fb.Result) -> None:
    with pytest.raises(fb.DataError, match="could not convert string to float: 'm'; give words"):
        result.predict(np.array([["m"] * 13], dtype=object))
    with pytest.raises(fb.DataError, match="no such file"):
        result.model.read("nowhere.npz")


def test_models_as_objects_are_written_as_names_that_make_them_again() -> None:
    assert model_name("server_model", SVC(C=3.0)) == "sklearn.svm:SVC(C=3.0)"
    assert model_name("server_model", LogisticRegression) == "sklearn.linear_model:LogisticRegression"
    assert model_name("server_model", np.float64) == "numpy:float64"  # refused when it is looked up
    name = model_name("server_model", make_pipeline(StandardScaler(), SVC(C=3.0)))
    assert name == model_name("server_model", make_pipeline(StandardScaler(), SVC(C=3.0)))
    assert name != model_name("server_model", make_pipeline(StandardScaler(), SVC(C=4.0)))
    made = make_learner(name, n_classes=3, input_shape=(13,), seed=0, device="cpu", epochs=1, batch_size=8, lr=0.1).fit(
        X.astype(np.float32), Y
    )
    assert (made.predict_logits(X.astype(np.float32)).argmax(axis=1) == Y).mean() > 0.95


def test_a_run_with_models_as_objects(tmp_path: Path) -> None:
    models = [make_pipeline(StandardScaler(), LogisticRegression(C=0.5)), RandomForestClassifier(n_estimators=30)]
    server = RandomForestClassifier(n_estimators=30, max_depth=5)
    values = {**SMALL, "client_models": models, "server_model": server, "epsilon": "inf"}
    done = fb.run("pate-fl", dataset=(X, Y), out=tmp_path / "r", progress=False, page=False, **values)
    assert done.settings["server_model"] == "sklearn.ensemble:RandomForestClassifier(max_depth=5, n_estimators=30)"
    assert done.accuracy is not None and done.accuracy > 0.8
    assert done.predict(X).shape == (len(X),)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"dataset": 3.5}, "dataset: a float; expected a name, a path, a data frame"),
        ({"dataset": (X, Y[:-1])}, "178 records with 177 labels"),
        ({"dataset": []}, "holds nothing; expected data of one kind"),
        ({"server_model": object()}, "no model; give a name"),
        ({"server_model": lambda: None}, "in a function, where"),
        ({"epsilom": 3}, "did you mean 'epsilon'"),
        ({"clients": -1}, "must be at least 1"),
    ],
)
def test_bad_input_is_named_before_anything_is_written(tmp_path: Path, values: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        fb.run("pate-fl", out=tmp_path / "r", progress=False, **values)
    assert not (tmp_path / "r").exists()
    with pytest.raises(DataError, match="is not a folder"):
        fb.load(tmp_path / "r")


def test_runs_side_by_side(result: fb.Result, tmp_path: Path) -> None:
    alone = {name: SMALL[name] for name in ("private_size", "public_size", "test_size", "clients", "workers")}
    quiet = {"progress": False, "page": False}
    other = fb.run("standalone", dataset=(X, Y), out=tmp_path / "alone", client_models=CENTROIDS, **quiet, **alone)
    both = fb.compare([result, other.folder])
    frame = both.to_frame()
    assert list(frame["method"]) == ["pate-fl", "standalone"] and frame["accuracy"].between(0, 1).all()
    assert any("Without a finite ε" in note for note in both.notes)
    assert both.write(tmp_path / "c.html").stat().st_size > 5000
    assert both.figure().axes


def test_a_grid_goes_on_where_it_stopped_and_names_what_failed(tmp_path: Path) -> None:
    fixed = {**SMALL, "dataset": (X, Y)}
    del fixed["epsilon"]
    grid = fb.sweep("pate-fl", out=tmp_path / "s", epsilon=[50, 100.0], progress=False, **fixed)
    frame = grid.to_frame()
    assert list(frame["epsilon"]) == sorted(frame["epsilon"]) and len(grid.results) == 2 and not grid.failed
    assert json.loads((tmp_path / "s" / "sweep.json").read_text())[0]["seeds"] == 1
    before = [one.stat().st_mtime_ns for one in sorted(tmp_path.glob("s/*/result.json"))]
    fb.sweep("pate-fl", out=tmp_path / "s", epsilon=[50, 100.0], progress=False, **fixed)
    assert [one.stat().st_mtime_ns for one in sorted(tmp_path.glob("s/*/result.json"))] == before
    for settings, words in (({"epsilon": [1]}, "several values"), ({"epsilon": [1, 1]}, "twice")):
        with pytest.raises(SettingsError, match=words):
            fb.sweep("pate-fl", out=tmp_path / "t", progress=False, **{**fixed, **settings})
    with pytest.raises((RunError, SettingsError)):
        fb.sweep("pate-fl", out=tmp_path / "u", progress=False, **{**fixed, "epsilon": 9, "public_size": [60, 10_000]})


def test_a_budget_is_planned_without_a_run() -> None:
    planned = fb.budget("pate-fl", budget=10.0, epsilon=1.0, clients=100)
    assert planned.guarantee.epsilon <= 1 and planned.runs is not None and planned.runs >= 10
    assert planned.figure() is not None and set(planned.to_frame()["unit"]) == {"client", "record"}
    records = fb.budget("fedauxfdp", facts={"classes": 10, "features": 64, "records": 100, "negatives": 100})
    assert records.plan is None and records.figure() is None and records.guarantee.unit == "record"
    with pytest.raises(SettingsError, match="classes"):
        fb.budget("fedauxfdp")


@pytest.mark.slow
def test_an_audit_of_a_sound_method_stands() -> None:
    report = fb.audit("pate-fl", runs=2000, seed=1, progress=False)
    assert report.passed and report.lower_bound <= 1


@pytest.mark.parametrize("trust", [SELF, secure_aggregation(5, 2)])
def test_a_guarantee_comes_back_from_its_plain_values(trust: Any) -> None:
    one = Guarantee("votes", "client", "zero-out", float("inf"), 0.0, "server's view", trust, "none", "exact", n=3)
    assert guarantee_of(one.worded()) == one


def test_all_names_are_there() -> None:
    assert {*fb.__all__} <= {*dir(fb)}
    for name in fb.__all__:
        assert getattr(fb, name) is not None


class Tell(fb.Callback):
    """Hears all and says nothing."""


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"callbacks": Tell()}, r"expected a list, such as callbacks=\[Tell\(\)\]"),
        ({"callbacks": [Tell]}, "Tell is a class; give one of it"),
        ({"callbacks": [print]}, r"print> is no fedballot.Callback"),
        ({"track": 3}, "track=3: expected names"),
        ({"track": ["csv", "cvs"]}, "track=cvs: must be one of csv"),
    ],
)
def test_what_cannot_listen_is_refused_before_anything_is_written(
    tmp_path: Path, values: dict[str, Any], words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        fb.run("pate-fl", dataset=(X, Y), out=tmp_path / "r", progress=False, **SMALL, **values)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"methods": "pate-fl"}, r"methods='pate-fl': expected a list of one or more, such as methods=\['pate-fl'\]"),
        ({"epsilon": 2}, r"epsilon=2: expected a list .*epsilon=\[2\]"),
        ({"epsilon": []}, r"epsilon=\[\]: expected a list"),
        ({"ceiling": "centralized"}, "ceiling='centralized': expected a list"),
        ({"track": [1]}, r"track=\[1\]: expected names"),
        ({"epsilon": [1, float("nan")]}, "epsilon"),
    ],
)
def test_a_frontier_without_a_list_is_refused_in_words(tmp_path: Path, values: dict[str, Any], words: str) -> None:
    given = {"methods": ["pate-fl"], "epsilon": [1], "out": tmp_path / "f", "progress": False}
    with pytest.raises(SettingsError, match=words):
        fb.frontier(**given | values)
    assert not (tmp_path / "f").exists()


@pytest.mark.slow
def test_a_frontier_without_noise_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fixed = {name: value for name, value in SMALL.items() if name != "epsilon"}
    asked: dict[str, Any] = {"ceiling": (), "trials": 1, "seeds": 1, "progress": False, "dataset": (X, Y), **fixed}
    done = fb.frontier(["pate-fl"], epsilon=[100, float("inf")], track=["csv"], **asked)
    assert done.folder == Path("frontiers/own") and (done.folder / "frontier.html").exists()
    first, second = json.loads((done.folder / "frontier.json").read_text())["spots"]
    assert first["epsilon"] == 100 and second["epsilon"] is second["measured"]["epsilon"] is None
    assert second["measured"]["values"] == {"epsilon": "inf"} and second["measured"]["accuracy"] > 0.5
    assert len([*done.folder.glob("pate-fl/*/track.csv")]) == 2
    with pytest.raises(SettingsError, match="settings differ from the run's own: clients"):
        fb.frontier(["pate-fl"], epsilon=[100], **asked | {"clients": 3})


@pytest.mark.slow
def test_a_frontier_from_python_has_a_page_and_a_row_for_each_spot(tmp_path: Path) -> None:
    fixed = {name: value for name, value in SMALL.items() if name != "epsilon"}
    done = fb.frontier(
        ["pate-fl"], epsilon=[100.0], ceiling=(), trials=1, seeds=1, out=tmp_path / "f", progress=False, track="csv",
        dataset=(X, Y), **fixed
    )  # fmt: skip
    (row,) = done.to_frame().to_dict("records")
    assert row["method"] == "pate-fl" and row["asked_epsilon"] == 100 and 0 < row["epsilon"] <= 100
    assert not done.failed and done.figure() is not None and len(list(tmp_path.glob("f/pate-fl/*/track.csv"))) == 1
    page = (tmp_path / "f" / "frontier.html").read_text()
    assert "fedballot frontier --methods pate-fl --epsilon 100" in page
    with pytest.raises(SettingsError, match="it has no epsilon"):
        fb.frontier(["standalone"], epsilon=[1], out=tmp_path / "g", progress=False)
