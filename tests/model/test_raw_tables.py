"""A table as it comes (words, dates, gaps) goes through the run's schema and preparation, wherever the model goes."""

import csv
import io
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedballot.core.errors import DataError
from fedballot.model import load
from fedballot.model.export import export
from fedballot.runs.engine import federated_data
from fedballot.runs.results import load_result
from fedballot.settings.parts import CommonSettings
from tests.command import fedballot
from tests.model_runs import FOREST, VOTES, in_a_new_process, resolved, run

SIZES = {"private_size": 300, "public_size": 150, "test_size": 100}


def patients(n: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    age, city = rng.integers(20, 90, n).astype(float), rng.choice(["Bern", "Köln", "São Paulo"], n)
    seen = pd.to_datetime("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, n), unit="D")
    risk = (age > 55) + (city == "Bern") + rng.normal(0, 0.2, n)
    frame = pd.DataFrame({"age": age, "city": city, "seen": seen.strftime("%Y-%m-%d"), "smoker": rng.random(n) < 0.3})
    for name in ("age", "city", "seen"):
        frame.loc[rng.random(n) < 0.1, name] = np.nan
    return frame.assign(weight=rng.normal(70, 9, n), label=np.where(risk > 1.0, "ill", "well"))


@pytest.fixture(scope="module", params=[FOREST, "mlp-torch"])
def moved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Any]:
    """A run's folder in another place than it was made in, without the file that it learned from."""
    if request.param == "mlp-torch":
        pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("table")
    patients().to_csv(folder / "table.csv", index=False)
    values = VOTES | SIZES | {"server_model": request.param, "dataset": str(folder / "table.csv")}
    run(folder / "run", **values)
    settings = resolved(**values)
    assert isinstance(settings, CommonSettings)
    data = federated_data(settings)
    (folder / "table.csv").unlink()
    shutil.move(folder / "run", folder / "elsewhere")
    return folder / "elsewhere", "skops" if request.param == FOREST else "torch", data


def said(command: Callable[..., CompletedProcess[str]], *words: object) -> tuple[list[str], np.ndarray]:
    done = command("predict", *words)
    assert done.returncode == 0, done.stderr
    lines = list(csv.reader(io.StringIO(done.stdout)))[1:]
    return [line[0] for line in lines], np.array([line[1:] for line in lines], dtype=float)


def test_a_fresh_process_predicts_a_raw_file_as_the_run_did(moved, tmp_path):
    folder, form, data = moved
    frame = patients()
    shuffled = frame.drop(columns="label").assign(patient=range(len(frame)))
    shuffled[np.random.default_rng(0).permutation(shuffled.columns)].to_csv(tmp_path / "new.csv", index=False)
    words, p = said(in_a_new_process, folder, tmp_path / "new.csv")
    # the run's test records are among those of the file, to the last bit, and its accuracy is theirs
    model = load(folder)
    cells = model.read(tmp_path / "new.csv")
    place = {row.tobytes(): number for number, row in enumerate(data.preparation(cells))}
    rows = [place[row.tobytes()] for row in np.ascontiguousarray(data.test_x)]
    right = np.array(words)[rows] == frame["label"].to_numpy()[rows]
    assert right.mean() == load_result(folder)["metrics"]["server_accuracy"]
    export(folder, form, tmp_path / "model")
    words_of_file, p_of_file = said(fedballot, tmp_path / "model", tmp_path / "new.csv")
    assert words_of_file == words
    np.testing.assert_array_equal(p_of_file, p)


@pytest.mark.parametrize("suffix", ["parquet", "tsv", "csv.gz"])
def test_another_kind_of_file_is_the_same(moved, tmp_path, suffix):
    frame, model = patients(40), load(moved[0])
    path = tmp_path / f"new.{suffix}"
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    frame.to_csv(tmp_path / "new.csv", index=False)
    np.testing.assert_array_equal(model.read(path), model.read(tmp_path / "new.csv"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"city": "Koln"}, "line 2, column city: 'Koln' is a category that .* did you mean 'Köln'"),
        ({"age": 43 * 365}, "line 2, column age: '15695'; outside .* Another unit"),
        ({"seen": "yesterday"}, "line 2, column seen: 'yesterday'; expected a date"),
    ],
)
def test_what_does_not_fit_is_named(moved, tmp_path, change, message):
    patients(40).astype(object).assign(**change).to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(DataError, match=message):
        load(moved[0]).read(tmp_path / "new.csv")


def test_missing_columns_are_named(moved, tmp_path):
    patients(40).drop(columns=["age", "seen"]).to_csv(tmp_path / "new.csv", index=False)
    done = fedballot("predict", moved[0], tmp_path / "new.csv")
    assert done.returncode == 2 and "no column 'age' nor 'seen'" in done.stderr


def test_a_model_without_its_preparation_is_refused(moved, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(moved[0], folder)
    (folder / "preparation.skops").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"preparation.skops: no preparation of a table's cells, or a damaged one"):
        load(folder)
    (folder / "preparation.skops").unlink()
    with pytest.raises(DataError, match=r"preparation.skops"):
        load(folder)


def test_the_card_says_what_a_column_holds(moved, tmp_path):
    text = export(moved[0], moved[1], tmp_path / "model").read_text()
    assert "`city`: category" in text and "`São Paulo`" in text and "`seen`: date" in text and "`age`: number" in text


def test_images_that_a_table_names(tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    (tmp_path / "img").mkdir()
    lines = []
    for number in range(90):
        pixels = rng.integers(0, 120, (6, 7)) + 120 * (number % 2)
        Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "img" / f"{number}.png")
        lines.append(f"img/{number}.png,{('dark', 'bright')[number % 2]}")
    (tmp_path / "table.csv").write_text("\n".join(["file,label", *lines]))
    sizes = {"private_size": 50, "public_size": 20, "test_size": 20, "image_size": 5, "epsilon": "inf"}
    folder = run(tmp_path / "run", **VOTES | sizes, server_model=FOREST, dataset=str(tmp_path / "table.csv"))
    model = load(folder)
    assert model.shape == (5, 5) and model.columns == ()
    (tmp_path / "new.csv").write_text("file\n" + "\n".join(line.partition(",")[0] for line in lines[:40]))
    words = model.predict(model.read(tmp_path / "new.csv"))
    assert (words == [line.partition(",")[2] for line in lines[:40]]).mean() > 0.9
    (tmp_path / "new.csv").write_text("file\nimg/none.png")
    with pytest.raises(DataError, match=r"line 2, column file: 'img/none.png': no such file"):
        model.read(tmp_path / "new.csv")
    (tmp_path / "new.csv").write_text("age\n4")
    with pytest.raises(DataError, match="no column 'file'; found 'age'"):
        model.read(tmp_path / "new.csv")
