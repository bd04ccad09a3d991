"""A run's model as a product: predictions for new files, exports that load in a fresh process, and the card."""

import csv
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine

from fedballot.core.errors import DataError, SettingsError
from fedballot.model import load
from fedballot.model.export import export
from fedballot.runs.engine import federated_data
from fedballot.runs.results import load_result
from tests.command import fedballot
from tests.model_runs import FOREST, VOTES, in_a_fresh_process, resolved, run

WORDS = np.array(["red, dry", "white", 'the "third"'])
COLUMNS = [name.replace("/", " or ") for name in load_wine().feature_names]
X, Y = load_wine(return_X_y=True)
Make = Callable[..., Path]


def written(path: Path, x: np.ndarray, names: list[str], labels: np.ndarray | None = None) -> Path:
    with path.open("w", newline="") as stream:
        lines = csv.writer(stream)
        lines.writerow([*names, *([] if labels is None else ["label"])])
        for row, values in enumerate(x):
            lines.writerow([*values, *([] if labels is None else [labels[row]])])
    return path


# eight votes under the least noise, drawn from a seed
WINE = {
    **VOTES,
    "clients": 8,
    "noise_seed": 1,
    "private_size": 80,
    "public_size": 60,
    "test_size": 30,
    "server_model": FOREST,
}
DIGITS = {
    **VOTES,
    "dataset": "digits",
    "private_size": 600,
    "public_size": 200,
    "test_size": 200,
    "server_model": "cnn-small",
    "server_epochs": 3,
}


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wine")
    path = written(folder / "wine.csv", X, COLUMNS, WORDS[Y])
    return run(folder / "run", dataset=str(path), **WINE)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    return run(tmp_path_factory.mktemp("digits") / "run", **DIGITS)


def test_a_run_predicts_class_words_as_well_as_its_result_says(wine):
    model = load(wine)
    assert set(model.classes) == set(WORDS) and model.columns == tuple(COLUMNS)
    said, p = model.predict(X), model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert (said == WORDS[Y]).mean() > 0.85
    np.testing.assert_array_equal(said, np.array(model.classes)[p.argmax(axis=1)])


def test_columns_are_taken_by_name_in_any_order_and_others_left_out(wine, tmp_path):
    model = load(wine)
    order = np.random.default_rng(0).permutation(len(COLUMNS))
    path = written(
        tmp_path / "new.csv",
        np.column_stack([np.arange(len(X)), X[:, order]]),
        ["patient", *(COLUMNS[index] for index in order)],
    )
    np.testing.assert_allclose(model.predict_proba(model.read(path)), model.predict_proba(X), atol=1e-6)


def test_predict_writes_words_and_probabilities_and_never_over_a_file(wine, tmp_path):
    path, out = written(tmp_path / "new.csv", X[:5], COLUMNS), tmp_path / "said.csv"
    first = fedballot("predict", wine, path)
    assert first.returncode == 0, first.stderr
    lines = list(csv.reader(io.StringIO(first.stdout)))
    model = load(wine)
    assert lines[0] == ["predicted", *model.classes] and len(lines) == 6
    assert [line[0] for line in lines[1:]] == model.predict(X[:5]).tolist()
    np.testing.assert_allclose(np.array([line[1:] for line in lines[1:]], float), model.predict_proba(X[:5]), atol=1e-5)
    assert fedballot("predict", wine, path, "--out", out).returncode == 0 and out.read_text() == first.stdout
    out.write_text("mine")
    again = fedballot("predict", wine, path, "--out", out)
    assert again.returncode == 2 and "is there already" in again.stderr and out.read_text() == "mine"
    assert fedballot("predict", wine, path, "--out", out, "--force").returncode == 0 and out.read_text() == first.stdout


def test_parquet_and_npz(wine, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    model = load(wine)
    pq.write_table(pa.table({name: X[:, place] for place, name in enumerate(COLUMNS)}), tmp_path / "new.parquet")
    np.savez(tmp_path / "new.npz", x=X)
    for name in ("new.parquet", "new.npz"):
        np.testing.assert_allclose(model.predict_proba(model.read(tmp_path / name)), model.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize(
    ("names", "rows", "message"),
    [
        (COLUMNS[1:], X[:2, 1:], "no column 'alcohol'"),
        (["proline", *COLUMNS[1:]], X[:2], "header; expected once|no column 'alcohol'"),
        ([*COLUMNS, COLUMNS[0]], np.column_stack([X[:2], X[:2, 0]]), "stands 2 times"),
        (COLUMNS, [["much", *X[0, 1:]]], "line 2, column alcohol: 'much'; expected a number"),
        (COLUMNS, [X[0, 1:]], "12 cells; expected 13|Expected 12 fields|13 cells"),
    ],
)
def test_files_that_do_not_fit_are_refused_with_the_place(wine, tmp_path, names, rows, message):
    path = written(tmp_path / "bad.csv", rows, names)
    with pytest.raises(DataError, match=message):
        load(wine).read(path)


def test_records_that_do_not_fit_are_refused(wine, tmp_path):
    model = load(wine)
    with pytest.raises(DataError, match=r"shape \(12,\), but the model takes \(13,\)"):
        model.predict(X[:, :12])
    with pytest.raises(DataError, match="not finite"):
        model.predict(np.full((1, 13), np.inf))
    np.savez(tmp_path / "bad.npz", x=X[:, :3])
    with pytest.raises(DataError, match="expected key x"):
        model.read(tmp_path / "bad.npz")
    with pytest.raises(DataError, match="no such file"):
        model.read(tmp_path / "none.csv")


SAYS = (
    "import json, sys, numpy as np; from fedballot.model import load; m = load(sys.argv[1]); x = np.load(sys.argv[2]);"
    "print(json.dumps([list(m.classes), m.predict(x).tolist(), m.predict_proba(x).tolist(), 'torch' in sys.modules]))"
)


def test_a_skops_file_says_the_same_in_a_fresh_process_and_is_one_of_skops(wine, tmp_path):
    out = tmp_path / "model.skops"
    assert export(wine, "skops", out) == tmp_path / "model.skops.md"
    np.save(tmp_path / "x.npy", X)
    model = load(wine)
    classes, words, p, torch = in_a_fresh_process(SAYS, out, tmp_path / "x.npy")
    assert tuple(classes) == model.classes and words == model.predict(X).tolist() and not torch
    np.testing.assert_allclose(p, model.predict_proba(X), atol=1e-7)
    from skops import io as skops

    strange = skops.get_untrusted_types(file=out)
    assert all(name.startswith("sklearn.") for name in strange)
    estimator = skops.load(out, trusted=strange)["estimator"]
    preparation = skops.loads(zipfile.ZipFile(out).read("fedballot-part-1"), trusted=["numpy.dtype"])
    said = estimator.predict(preparation.transform(X.astype("float32")).astype("float32"))
    assert [model.classes[index] for index in said] == words


def test_a_torch_file_says_the_same_in_a_fresh_process_and_is_one_of_safetensors(digits, tmp_path):
    from safetensors.numpy import load_file

    out, x = tmp_path / "model.safetensors", load_digits().images.astype(np.uint8)
    export(digits, "torch", out)
    model = load(digits)
    x = x[:40] if x.shape[1:] == model.shape else np.zeros((40, *model.shape), np.uint8)
    np.save(tmp_path / "x.npy", x)
    classes, words, p, _ = in_a_fresh_process(SAYS, out, tmp_path / "x.npy")
    assert tuple(classes) == model.classes and words == model.predict(x).tolist()
    np.testing.assert_allclose(p, model.predict_proba(x), atol=1e-6)
    weights = load_file(out)
    for name, value in load_file(digits / "server-model-0").items():
        np.testing.assert_array_equal(weights[name], value)


@pytest.mark.parametrize("server_model", [FOREST, "mlp-torch"])
def test_a_model_of_two_learners_stays_one(tmp_path, server_model):
    if server_model == "mlp-torch":
        pytest.importorskip("torch")
    path = written(tmp_path / "wine.csv", (X - X.mean(0)) / X.std(0), COLUMNS, WORDS[Y])
    values = WINE | {"server_model": server_model, "passes": 2, "server_epochs": 2}
    folder = run(tmp_path / "run", dataset=str(path), **values)
    assert len(json.loads((folder / "model.json").read_text())["files"]) == 2
    out = tmp_path / "model"
    export(folder, "skops" if server_model == FOREST else "torch", out)
    x = ((X - X.mean(0)) / X.std(0)).astype(np.float32)
    np.testing.assert_allclose(load(out).predict_proba(x), load(folder).predict_proba(x), atol=1e-6)
    out.write_bytes(out.read_bytes()[:-200])
    with pytest.raises(DataError):
        load(out).predict_proba(x)


def test_a_folder_that_is_not_there_is_not_made(wine, tmp_path):
    out = tmp_path / "no such" / "p.csv"
    (tmp_path / "records.csv").write_text("1,2\n")
    for words in (("predict", wine, tmp_path / "records.csv"), ("export", wine)):
        done = fedballot(*words, "--out", out)
        told = " ".join(done.stderr.split())
        assert done.returncode == 2 and f"make it with: mkdir -p '{out.parent}'" in told, done.stderr
    assert not out.parent.exists()


def test_what_cannot_be_exported_says_why_and_what_there_is_is_kept(wine, digits, tmp_path):
    for folder, form, other in ((wine, "torch", "skops"), (digits, "skops", "torch")):
        with pytest.raises(SettingsError, match=f"cannot be written as {form}: use --format {other}"):
            export(folder, form, tmp_path / "model")
    (tmp_path / "model.md").write_text("mine")
    with pytest.raises(SettingsError, match="is there already"):
        export(wine, "skops", tmp_path / "model")
    assert not (tmp_path / "model").exists() and (tmp_path / "model.md").read_text() == "mine"
    export(wine, "skops", tmp_path / "model", force=True)
    assert "# model" in (tmp_path / "model.md").read_text()
    wrong = fedballot("export", wine, "--format", "pickle", "--out", tmp_path / "x")
    assert wrong.returncode == 2 and "allowed are skops, torch, onnx" in wrong.stderr


def test_the_card_says_what_the_model_is_and_is_not(wine, tmp_path):
    text = export(wine, "skops", tmp_path / "wine.skops").read_text()
    result = load_result(wine)
    for heading in ("## Data", "## Measures", "## Privacy", "## What it is not for"):
        assert heading in text
    first = result["guarantees"][0]
    for words in (first["sentence"], first["unit"], first["adjacency"], first["view"], first["trust"], first["status"]):
        assert " ".join(words.split()) in text
    assert "`alcohol`" in text and "`red, dry`" in text and result["data"]["fingerprint"][:16] in text
    assert f"{100 * result['metrics']['server_accuracy']:.1f}" in text
    assert "nan" not in text.lower().split() and "None" not in text


def test_the_servers_features_are_fitted_again_on_the_public_records(tmp_path):
    path = written(tmp_path / "wine.csv", X, COLUMNS, WORDS[Y])
    values = WINE | {"server_features": "standardise", "server_model": "logistic-regression"}
    folder = run(tmp_path / "run", dataset=str(path), **values)
    assert (load(folder).predict(X) == WORDS[Y]).mean() > 0.6  # labels under noise
    with pytest.raises(SettingsError, match="the features standardise, which a file cannot hold"):
        export(folder, "skops", tmp_path / "model.skops")
    written(path, X + 1, COLUMNS, WORDS[Y])
    with pytest.raises(DataError, match="put the run's public records in their place"):
        load(folder)


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("fedauxfdp-sum", {"epsilon": 8.0, "server_model": "logistic-regression"}),
        ("fedauxfdp", {"embedding": "pca", "epsilon": 8.0, "server_model": "logistic-regression"}),
        ("fedaux-f", {"server_model": FOREST}),
        ("fedd-p", {"extractor": "hog", "epsilon": 8.0, "server_model": "logistic-regression"}),
    ],
)
def test_a_student_of_frozen_features_says_of_records_what_the_run_measured(tmp_path, method, more):
    small = {"dataset": "digits", "private_size": 600, "public_size": 300, "test_size": 200, "clients": 3}
    folder = run(tmp_path / "run", method, **small, **more)
    data = federated_data(resolved(method, **small, **more))
    said = load(folder).predict(data.test_x)
    right = (said == np.array(data.classes)[data.test_y]).mean()
    assert right == pytest.approx(load_result(folder)["metrics"]["server_accuracy"], abs=1e-9)
    with pytest.raises(SettingsError, match="frozen features, which a file cannot hold"):
        export(folder, "skops", tmp_path / "model.skops")


def test_a_student_of_the_images_themselves_needs_no_features_and_fits_in_a_file(tmp_path):
    small = {"dataset": "digits", "private_size": 600, "public_size": 300, "test_size": 200, "clients": 3}
    told = {"epsilon": 50.0, "student_reads": "records", "server_model": "logistic-regression"}
    for students in (1, 2):
        folder = run(tmp_path / f"{students}", "fedauxfdp-sum", **small, **told, students=students)
        assert sorted(file.name for file in folder.glob("server-*")) == [f"server-model-{n}" for n in range(students)]
        data = federated_data(resolved("fedauxfdp-sum", **small, **told))
        right = (load(folder).predict(data.test_x) == np.array(data.classes)[data.test_y]).mean()
        assert right == load_result(folder)["metrics"]["server_accuracy"] > 0.8
        export(folder, "skops", tmp_path / f"{students}.skops")
        probabilities = load(folder).predict_proba(data.test_x[:9])
        assert np.array_equal(load(tmp_path / f"{students}.skops").predict_proba(data.test_x[:9]), probabilities)


def test_shared_weights_and_pooled_models_predict_too(tmp_path):
    pytest.importorskip("torch")
    small = {"dataset": "digits", "private_size": 600, "public_size": 100, "test_size": 200, "clients": 3}
    for method, more in (
        ("fedavg", {"client_models": "linear-torch", "rounds": 2, "epochs": 2, "min_clients": 3}),
        ("centralized", {"server_model": "logistic-regression"}),
    ):
        folder = run(tmp_path / method, method, **small, **more)
        model, x = load(folder), load_digits().images
        assert model.classes == tuple("0123456789")
        x = x.astype(np.uint8) if len(model.shape) == 2 else x.reshape(-1, 64)
        assert model.predict_proba(x[:5]).shape == (5, 10)


def test_a_folder_without_a_model_and_damaged_files_are_refused(wine, tmp_path):
    with pytest.raises(DataError, match=r"has no model.json"):
        load(tmp_path)
    (tmp_path / "model.json").write_text('{"format": "other"}')
    with pytest.raises(DataError, match="no description of a model"):
        load(tmp_path)
    for content in (b"", b"\x08\x00\x00\x00\x00\x00\x00\x00[1,2,3] ", b"PK\x05\x06" + bytes(18), b"x" * 99):
        (tmp_path / "broken").write_bytes(content)
        with pytest.raises(DataError, match=r"broken|safetensors"):
            load(tmp_path / "broken")
    with pytest.raises(DataError, match="cannot be read"):
        load(tmp_path / "nothing")


MIXED = ("age", "sex", "since", "smoker", "note")


def mixed_rows(n: int, seed: int) -> list[dict[str, Any]]:
    """Records with a number that is missing now and then, a category, a date, a boolean and a text."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(n):
        ill, year = bool(rng.integers(2)), int(rng.integers(2000, 2020))
        age = "" if number % 9 == 0 else round(float(rng.normal(70 if ill else 40, 8)), 1)
        sex, note = "fmd"[int(rng.integers(3))], "short of breath" if ill else "no complaints at all"
        since = f"{year}-0{int(rng.integers(1, 10))}-11"
        row = {"age": age, "sex": sex, "since": since, "smoker": str(bool(rng.integers(2))), "note": note}
        rows.append({**row, "label": "ill" if ill else "well"})
    return rows


def as_csv(path: Path, rows: list[dict[str, Any]], names: Sequence[str]) -> Path:
    with path.open("w", newline="") as stream:
        lines = csv.DictWriter(stream, names, extrasaction="ignore")
        lines.writeheader()
        lines.writerows(rows)
    return path


@pytest.mark.parametrize("server_model", [FOREST, "mlp-torch"])
def test_a_table_of_words_dates_and_gaps_is_read_as_in_the_run_wherever_the_model_goes(tmp_path, server_model):
    if server_model == "mlp-torch":
        pytest.importorskip("torch")
    pd = pytest.importorskip("pandas")
    (tmp_path / "at").mkdir()
    source = as_csv(tmp_path / "at" / "table.csv", mixed_rows(200, 0), (*MIXED, "label"))
    more = {"server_model": server_model, "server_epochs": 40}  # after 5 a network may be right .8 of the time
    folder = run(tmp_path / "at" / "run", dataset=str(source), **(WINE | more))
    out = tmp_path / "model"
    export(folder, "torch" if server_model == "mlp-torch" else "skops", out)
    rows = mixed_rows(60, 1)
    new = as_csv(tmp_path / "new.csv", [{"id": place, **row} for place, row in enumerate(rows)], ("id", *MIXED[::-1]))
    expected = load(folder).predict_proba(load(folder).read(new))
    assert (load(folder).predict(load(folder).read(new)) == [row["label"] for row in rows]).mean() > 0.8
    (tmp_path / "at").rename(tmp_path / "moved")  # neither run nor table are where they were
    code = (
        "import json, sys; from pathlib import Path; from fedballot.model import load;"
        "new, *models = map(Path, sys.argv[1:]); models = [*map(load, models)];"
        "print(json.dumps([[m.predict_proba(m.read(new)).tolist(), m.columns] for m in models]))"
    )
    places = (tmp_path / "moved" / "run", out)
    for where, (said, columns) in zip(places, in_a_fresh_process(code, new, *places), strict=True):
        np.testing.assert_allclose(said, expected, atol=1e-6)
        assert tuple(columns) == MIXED
        np.testing.assert_allclose(load(where).predict_proba(pd.read_csv(new)), expected, atol=1e-6)
    for change, message in (
        ({"sex": "x"}, "line 2, column sex: 'x' is a category that"),
        ({"age": "old"}, "line 2, column age: 'old'; expected a number"),
        ({"since": "soon"}, "line 2, column since: 'soon'; expected a date"),
    ):
        bad = as_csv(tmp_path / "bad.csv", [{**rows[0], **change}], MIXED)
        with pytest.raises(DataError, match=message):
            load(out).read(bad)
    with pytest.raises(DataError, match="no column 'sex'"):
        load(out).read(as_csv(tmp_path / "bad.csv", rows, ("age", "since", "smoker", "note")))
