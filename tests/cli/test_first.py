"""``fedballot try DATA``: the first run on one's own data."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_breast_cancer, load_digits

from fedballot.cli.first import _decided, plan_first
from fedballot.cli.main import main
from fedballot.core.errors import DataError
from fedballot.runs.engine import federated_data


def write_table(path: Path, label: str = "diagnosis") -> Path:
    """The breast cancer of scikit-learn, as pandas writes it with its index."""
    data = load_breast_cancer(as_frame=True)
    frame = data.frame.drop(columns="target")
    frame[label] = data.target.map({0: "malignant", 1: "benign"})
    frame.to_csv(path)
    return path


def write_images(root: Path) -> Path:
    """Digits as pictures of two sizes, a folder for each class."""
    data = load_digits()
    for number, (image, label) in enumerate(zip(data.images[:120], data.target[:120], strict=True)):
        folder = root / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray((image * 15).astype(np.uint8))
        picture.resize((16 + number % 2, 16)).save(folder / f"{number}.png")
    return root


@pytest.fixture
def call(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["fedballot", *words])
        with pytest.raises(SystemExit) as end:
            main()
        shown = capsys.readouterr()
        return int(end.value.code or 0), " ".join(shown.out.split()), " ".join(shown.err.split())

    return run


@pytest.mark.slow
def test_one_command_and_the_path_are_enough(call, tmp_path):
    write_table(tmp_path / "cancer.csv", "target")
    code, out, error = call("try", "cancer.csv", "--out", "first")
    assert code == 0, error
    assert "column 'target': benign (357), malignant (212)" in out
    assert "569: 227 for 11 clients, 228 public, 114 to test on" in out
    assert "ε = 4.3, δ = 0.001, for each client with all its data" in out
    assert "column '' is left out" in out and "column '' is left out" not in error
    assert "a client alone" in out and "server, pate-fl" in out and "all records pooled" in out
    results = {name: json.loads((tmp_path / "first" / name / "result.json").read_text()) for name in RUNS}
    assert results["pate-fl"]["metrics"]["server_accuracy"] > 0.8  # .91 to .94 seen
    assert results["pate-fl"]["guarantees"][0]["epsilon"] <= 4.3
    assert results["centralized"]["metrics"]["server_accuracy"] > 0.9
    assert "Clients alone, federated, pooled" in (tmp_path / "first" / "pate-fl" / "report.html").read_text()
    # the file that it leaves makes the same run, as it says
    command = f"run pate-fl --config {Path('first') / 'settings.toml'} --set epsilon=inf"
    assert command in out
    code, _, error = call(*command.split(), "--out", "again", "--quiet")
    assert code == 0, error
    again = json.loads((tmp_path / "again" / "result.json").read_text())
    assert again["settings"]["clients"] == 11
    # all clients voted and there is no noise: their votes stand
    assert again["metrics"]["label_accuracy"] >= again["metrics"]["noisy_label_accuracy"] - 0.01


RUNS = ("pate-fl", "standalone", "centralized")


def test_what_is_set_by_hand_stays(tmp_path):
    write_table(tmp_path / "cancer.csv")
    given = {"label": "diagnosis", "clients": "5", "epsilon": "inf", "server-model": "knn"}
    plan = plan_first("pate-fl", {"dataset": str(tmp_path / "cancer.csv")}, given)
    assert plan.settings["pate-fl"].clients == plan.settings["standalone"].clients == 5
    assert plan.chosen["pate-fl"]["epsilon"] == "inf" and "epsilon" not in plan.chosen["standalone"]
    assert plan.chosen["centralized"]["server_model"] == "knn"
    assert plan.chosen["poll"]["clients"] == 5 and "epsilon" not in plan.chosen["poll"]


def test_public_records_of_their_own(tmp_path):
    rows = write_table(tmp_path / "all.csv").read_text().splitlines()
    for name, lines in (("a", rows[1:100]), ("b", rows[100:200]), ("c", rows[200:400])):
        (tmp_path / f"{name}.csv").write_text("\n".join([rows[0], *lines]))
    (tmp_path / "public.csv").write_text("\n".join([rows[0], *rows[400:]]))
    where = {"dataset": str(tmp_path / "?.csv"), "public_dataset": str(tmp_path / "public.csv")}
    settings = plan_first("pate-fl", where, {"label": "diagnosis"}).settings["pate-fl"]
    assert (settings.clients, settings.partition) == (3, "by-group")
    assert (settings.private_size, settings.public_size, settings.test_size) == (399, 113, 57)


def test_a_folder_with_a_public_file_is_enough(tmp_path, monkeypatch):
    rows = write_table(tmp_path / "all.csv").read_text().splitlines()
    for name, lines in (("a", rows[1:100]), ("b", rows[100:200]), ("c", rows[200:400]), ("public", rows[400:])):
        (tmp_path / "sites").mkdir(exist_ok=True)
        (tmp_path / "sites" / f"{name}.csv").write_text("\n".join([rows[0], *lines]))
    plan = plan_first("pate-fl", {"dataset": str(tmp_path / "sites")}, {"label": "diagnosis"})
    settings = plan.settings["pate-fl"]
    assert settings.public_dataset == str(tmp_path / "sites" / "public.csv")
    assert (settings.clients, settings.partition, settings.private_size) == (3, "by-group", 399)
    assert (settings.public_size, settings.test_size) == (113, 57)
    federated_data(settings)  # which refuses what is in two of them
    monkeypatch.chdir(tmp_path)
    again = plan_first("pate-fl", {"dataset": "sites"}, {"label": "diagnosis"}).settings["pate-fl"]
    assert again.private_size == 399 and len(federated_data(again).parts) == 3
    (tmp_path / "sites" / "public.csv").rename(tmp_path / "sites" / "d.csv")
    settings = plan_first("pate-fl", {"dataset": str(tmp_path / "sites")}, {"label": "diagnosis"}).settings["pate-fl"]
    assert (settings.clients, settings.public_dataset) == (4, "")
    with pytest.raises(DataError, match="no column 'label'"):
        plan_first("pate-fl", {"dataset": str(tmp_path / "sites")}, {})


def test_public_records_without_labels_test_nothing(tmp_path):
    rows = write_table(tmp_path / "all.csv").read_text().splitlines()
    (tmp_path / "train.csv").write_text("\n".join(rows[:401]))
    (tmp_path / "pool.csv").write_text("\n".join(row.rpartition(",")[0] for row in [rows[0], *rows[401:]]))
    where = {"dataset": str(tmp_path / "train.csv"), "public_dataset": str(tmp_path / "pool.csv")}
    plan = plan_first("pate-fl", where, {"label": "diagnosis"})
    for settings in plan.settings.values():
        assert (settings.public_labels, settings.test_source) == ("ignored", "private")
        assert (settings.private_size, settings.public_size, settings.test_size) == (320, 169, 80)
    data = federated_data(plan.settings["pate-fl"])
    assert (data.public_y == -1).all() and data.records == 320
    (records,) = [words for name, words in _decided("pate-fl", plan) if name == "records"]
    assert records.endswith("80 to test on, which are private ones: the public ones have no labels")
    with pytest.raises(DataError, match="public_labels=known"):
        federated_data(
            plan_first("pate-fl", where, {"label": "diagnosis", "public_labels": "known"}).settings["pate-fl"]
        )


def test_images_of_many_sizes_are_resized(tmp_path):
    plan = plan_first("pate-fl", {"dataset": str(write_images(tmp_path / "digits"))}, {})
    assert plan.chosen["pate-fl"]["image_size"] == 64 and plan.private.train.x.shape == (120, 64, 64)
    assert (
        plan_first("pate-fl", {"dataset": str(tmp_path / "digits")}, {"image_size": "20"}).private.train.x.shape[1]
        == 20
    )


@pytest.mark.parametrize("pattern", ["digits.csv", "digits*.csv"])
def test_images_of_many_sizes_that_a_table_names_are_resized(tmp_path, pattern):
    images = sorted(write_images(tmp_path / "digits").glob("*/*.png"))
    lines = [f"{path.relative_to(tmp_path)},{path.parent.name}" for path in images]
    (tmp_path / "digits.csv").write_text("\n".join(["path,digit", *lines]))
    (tmp_path / "digits-2.csv").write_text("\n".join(["path,digit", *lines[::-1]]))
    plan = plan_first("pate-fl", {"dataset": str(tmp_path / pattern), "label": "digit"}, {})
    assert plan.chosen["pate-fl"]["image_size"] == 64 and plan.private.train.x.shape[1:] == (64, 64)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["cancer.csv"], "no column 'label' in the header"),
        (["cancer.csv"], "Few different words or whole numbers stand in 'diagnosis' (2 different)"),
        (["cancer.csv", "--label", "diagnose"], "no column 'diagnose'; did you mean 'diagnosis'?"),
        (["cancer.csv", "--label", "mean radius"], "are a measurement"),
        (["cancer.csv", "--label", "diagnosis", "--set", "clients=900"], "lower min_size or clients"),
        (["cancer.csv", "--label", "diagnosis", "--set", "clinets=9"], "did you mean 'clients'?"),
        (["few.csv"], "20 records are too few for a federation; expected at least 50"),
        (["header.csv"], "a header but no rows"),
        (["empty.csv"], "empty; expected a header and a row at least"),
        (["one.csv"], "every row has the label 'x'; expected at least two classes"),
        (["nowhere.csv"], "no such file or folder"),
        (["cancer.csv", "--method", "pate"], "did you mean 'pate-fl'?"),
        (["cancer.csv", "--out", "."], "is not empty; name another folder"),
    ],
)
def test_what_cannot_be_tried_says_why_and_writes_nothing(call, tmp_path, words, told):
    write_table(tmp_path / "cancer.csv")
    (tmp_path / "few.csv").write_text("a,label\n" + "1,x\n2,y\n" * 10)
    (tmp_path / "one.csv").write_text("a,label\n" + "1,x\n2,x\n" * 40)
    (tmp_path / "header.csv").write_text("a,label\n")
    (tmp_path / "empty.csv").write_text("")
    code, _, error = call("try", *words)
    assert code == 2 and told in error, error
    assert not (tmp_path / "runs").exists()


def test_sizes_that_do_not_fit_name_the_command_that_chooses(call, tmp_path):
    write_table(tmp_path / "cancer.csv", "label")
    code, _, error = call("run", "pate-fl", "--set", "dataset=cancer.csv", "--set", "client_models=knn")
    assert code == 2 and "exceed the 569 records" in error and "`fedballot try FILE` chooses sizes" in error


def test_the_settings_file_is_toml_that_a_run_reads(tmp_path):
    from fedballot.cli.first import _toml

    chosen = {"pate-fl": {"dataset": 'a "b"\\c.csv', "clients": 3, "abstain": False, "client_models": ["knn"]}}
    assert tomllib.loads(_toml(chosen)) == chosen


def test_a_suggested_command_works_as_it_stands(call, tmp_path):
    rows = write_table(tmp_path / "cancer.csv").read_text().splitlines()
    folder = tmp_path / "of mine"
    folder.mkdir()
    (folder / "case.csv").write_text("\n".join([*rows[:-1], rows[-1].replace("benign", "Benign")]))
    code, _, error = call("try", "of mine/case.csv", "--label", "diagnosis", "--set", "clients=900")
    assert code == 2 and "differ in spelling only" in error
    command = error.partition("fedballot data ")[2].partition(", or,")[0]
    code, _, error = call("data", *shlex.split(command))
    assert code == 0, error
    # the schema goes in beside, and what stands in the way is now another thing
    words = ("try", "of mine/case.csv", "--schema", "schema.toml", "--set", "clients=900")
    assert "lower min_size or clients" in call(*words)[2]
