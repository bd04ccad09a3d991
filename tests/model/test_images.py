"""Whatever images a run reads, `predict` reads: folders with classes or without, tables of paths, own kinds."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedballot.core.errors import DataError
from fedballot.model import load
from fedballot.model.export import export
from tests.command import fedballot
from tests.model_runs import VOTES, run

SIZES = {"private_size": 50, "public_size": 20, "test_size": 20, "server_model": "random-forest"}


def picture(number: int) -> Image.Image:
    """Dark or bright, of two sizes."""
    rng = np.random.default_rng(number)
    pixels = rng.integers(0, 120, (6, 7 + number % 3)) + 120 * (number % 2)
    return Image.fromarray(pixels.astype(np.uint8))


def class_of(number: int) -> str:
    return ("dark", "bright")[number % 2]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("images")
    for number in range(90):
        folder = root / "seen" / class_of(number)
        folder.mkdir(parents=True, exist_ok=True)
        picture(number).save(folder / f"{number}.png")
    return run(root / "run", **VOTES | SIZES, image_size=5, dataset=str(root / "seen"))


def lines_of(*words: object) -> list[list[str]]:
    done = fedballot("predict", *words)
    assert done.returncode == 0, done.stderr
    return list(csv.reader(io.StringIO(done.stdout)))


def test_a_folder_without_classes(trained: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    new.mkdir()
    for number in range(100, 140):
        picture(number).save(new / f"{number}.png")
    (new / "notes.txt").write_text("mine")
    head, *rows = lines_of(trained, new)
    assert head == ["file", "predicted", "bright", "dark"]
    assert [row[0] for row in rows] == [f"{number}.png" for number in range(100, 140)]
    assert np.mean([row[1] == class_of(int(row[0][:3])) for row in rows]) > 0.9
    # in class folders, in a table and from the exported file they are the same
    (tmp_path / "sorted").mkdir()
    for name in ("b", "a"):
        (tmp_path / "sorted" / name).mkdir()
    for number in range(100, 140):
        picture(number).save(tmp_path / "sorted" / "ab"[number % 2] / f"{number}.png")
    again = lines_of(trained, tmp_path / "sorted")[1:]
    assert again[0][0] == "a/100.png" and sorted((Path(row[0]).name, *row[1:]) for row in again) == [*map(tuple, rows)]
    (tmp_path / "new.csv").write_text("\n".join(["path", *(f"new/{row[0]}" for row in rows)]))
    assert lines_of(trained, tmp_path / "new.csv") == [row[1:] for row in (head, *rows)]
    export(trained, "skops", tmp_path / "model.skops")
    assert lines_of(tmp_path / "model.skops", new) == [head, *rows]


def test_what_holds_no_image_says_so(trained: Path, tmp_path: Path) -> None:
    model = load(trained)
    (tmp_path / "new").mkdir()
    with pytest.raises(DataError, match=r"new: holds no class folder; expected images"):
        model.read(tmp_path / "new")
    (tmp_path / "new" / "a.png").write_text("no image")
    with pytest.raises(DataError, match=r"a\.png: cannot be read as an image"):
        model.read(tmp_path / "new")
    with pytest.raises(
        DataError, match=r"no such file or folder; expected \.npz \(key x\), a folder of images, or a table"
    ):
        model.read(tmp_path / "none")
    assert model.read.names(tmp_path / "none") == []


def test_kinds_that_a_function_of_the_users_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_of_images.py").write_text(
        "import numpy as np\n\ndef read(path):\n    return np.load(path)['pixels']\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for number in range(90):
        folder = tmp_path / "seen" / class_of(number)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{number}.vol").open("wb") as stream:
            np.savez(stream, pixels=np.asarray(picture(3 * number % 90 + number % 2)))
    options = {"image_reader": "mine_of_images:read", "image_size": 5}
    model = load(run(tmp_path / "run", **VOTES | SIZES | options, dataset=str(tmp_path / "seen")))
    x = model.read(tmp_path / "seen" / "dark")
    assert x.shape == (45, 5, 5) and model.read.names(tmp_path / "seen" / "dark")[0] == "0.vol"
    (tmp_path / "new.csv").write_text("volume\n" + "\n".join(f"seen/dark/{number}.vol" for number in (0, 10)))
    np.testing.assert_array_equal(model.read(tmp_path / "new.csv"), x[:2])
