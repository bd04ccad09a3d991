"""What was accepted in silence and gave wrong models: each ends right, or in an error that names the place."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fedballot.core.errors import DataError, SettingsError
from fedballot.datasets.federation import FederatedData, build
from fedballot.datasets.fingerprint import source_fingerprint
from fedballot.datasets.own import load_own
from fedballot.datasets.readers.files import load_path
from fedballot.datasets.schema.hints import Hints
from fedballot.datasets.schema.reading import Reading
from fedballot.datasets.sources import load
from fedballot.datasets.spec import FederationSpec


def write(path: Path, columns: tuple[str, ...], seed: int, classes: tuple[str, str] = ("no", "yes")) -> Path:
    """A table of 400 patients whose age says the class: age around 0 or 3, everything else noise."""
    drawn = np.random.default_rng(seed)
    y = drawn.integers(0, 2, 400)
    cells = {"age": drawn.normal(0, 1, 400) + 3 * y, "bp": drawn.normal(0, 1, 400), "label": np.array(classes)[y]}
    cells |= {"height": cells["bp"], "weight": cells["age"], "Unnamed: 0": np.arange(400), "": np.arange(400)}
    cells |= {"patient": drawn.permutation(4000)[:400]}
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(cells[name] for name in columns), strict=True))
    return path


def federation(private: Path, public: Path, **changes: object) -> FederatedData:
    sizes = {"public_size": 100, "test_size": 200, "clients": 4}
    return build(FederationSpec(dataset=str(private), public_dataset=str(public), **{**sizes, **changes}))


@pytest.fixture
def private(tmp_path: Path) -> Path:
    return write(tmp_path / "private.csv", ("age", "bp", "label"), seed=1)


def test_columns_are_read_by_name(private: Path, tmp_path: Path) -> None:
    """By position, a model of the private records was right on 53 % of the public ones; by name, on 93 %."""
    data = federation(private, write(tmp_path / "public.csv", ("bp", "label", "age"), seed=2))
    assert LogisticRegression().fit(data.private.x, data.private.y).score(data.test_x, data.test_y) > 0.9


def test_a_site_reads_columns_by_name(private: Path, tmp_path: Path) -> None:
    public = load(str(write(tmp_path / "public.csv", ("bp", "age", "label"), seed=2)))
    straight, turned = load_own(private, load(str(private))), load_own(private, public)
    np.testing.assert_allclose(turned.examples.x[:, ::-1].std(0), straight.examples.x.std(0), rtol=0.2)
    assert turned.extra == () and [one.column.name for one in turned.compared] == ["bp", "age"]


def test_a_renamed_column_is_an_error(private: Path, tmp_path: Path) -> None:
    public = write(tmp_path / "public.csv", ("height", "weight", "label"), seed=2)
    for read in (lambda: federation(private, public), lambda: load_own(private, load(str(public)))):
        with pytest.raises(DataError, match=r"private\.csv: no column 'height'.*found 'age', 'bp', 'label'"):
            read()


@pytest.mark.parametrize("words", [("benign", "malignant"), ("zero_risk", "risk"), ("No", "Yes")])
def test_other_class_words_are_an_error(private: Path, tmp_path: Path, words: tuple[str, str]) -> None:
    """`no, yes` against `zero_risk, risk` swapped the classes: right on 6.5 %."""
    public = write(tmp_path / "public.csv", ("age", "bp", "label"), seed=2, classes=words)
    for read in (lambda: federation(private, public), lambda: load_own(private, load(str(public)))):
        with pytest.raises(
            DataError, match=r"private\.csv: line 2, column label: '(no|yes)' is a class that"
        ) as caught:
            read()
        assert ("did you mean 'Yes'" in str(caught.value) or "did you mean 'No'" in str(caught.value)) == (
            words == ("No", "Yes")
        )


def test_class_words_of_arrays_and_names_are_compared(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32), np.arange(40) % 2
    np.savez(tmp_path / "private.npz", x=x, y=np.array(["no", "yes"])[y])
    np.savez(tmp_path / "public.npz", x=x, y=np.array(["zero_risk", "risk"])[y])
    with pytest.raises(DataError, match=r"private\.npz: row 0 has a label: 'no' is a class that the public source"):
        federation(tmp_path / "private.npz", tmp_path / "public.npz", public_size=10, test_size=10)
    np.savez(tmp_path / "digits.npz", x=np.zeros((40, 8, 8), np.uint8), y=np.arange(40) % 10 + 1)
    with pytest.raises(SettingsError, match=r"the private 'digits' '0', '1'.*expected the same words"):
        build(FederationSpec("digits", str(tmp_path / "digits.npz"), public_size=10, test_size=10))


def test_a_copy_of_the_public_file_with_other_words_has_another_fingerprint(tmp_path: Path) -> None:
    """A site with such a copy voted crosswise."""
    one, other = (
        write(tmp_path / f"{words[0]}.csv", ("age", "bp", "label"), seed=2, classes=words)
        for words in (("no", "yes"), ("yes", "no"))
    )
    renamed = write(tmp_path / "renamed.csv", ("weight", "height", "label"), seed=2)
    spec = FederationSpec("sites", str(one), public_size=100, test_size=100)
    assert build(spec).public_fingerprint != build(replace(spec, public_dataset=str(renamed))).public_fingerprint
    assert source_fingerprint(load(str(one))) != source_fingerprint(load(str(renamed)))
    three = tmp_path / "three.csv"
    three.write_text(one.read_text().replace("yes", "zes"))
    assert source_fingerprint(load(str(one))) != source_fingerprint(load(str(three)))
    assert source_fingerprint(load(str(other))) == source_fingerprint(load(str(one)))  # same cells, same words


@pytest.mark.parametrize("name", ["Unnamed: 0", "", "patient"])
def test_row_numbers_and_ids_are_no_features(private: Path, tmp_path: Path, name: str) -> None:
    """A tree on such a column was right on 99.7 % of noise."""
    source = load(str(write(tmp_path / "public.csv", (name, "age", "bp", "label"), seed=2)))
    assert source.schema is not None and [column.name for column in source.schema.columns] == ["age", "bp"]
    assert any(repr(name) in note and "left out" in note for note in source.notes)
    write(private, (name, "age", "bp", "label"), seed=1)
    own = load_own(private, source)
    assert own.extra == (name,) and own.examples.x.shape == (400, 2)


PAIRS = [
    ("Benign", "benign"), ("1", "+1"), ("True", "TRUE"), ("1", "01"), ("1", "True"), ("very low", "verylow"),
    ("caf\u00e9", "cafe\u0301"),
]  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS)
def test_spellings_of_a_class_must_be_decided(tmp_path: Path, pair: tuple[str, str]) -> None:
    path = tmp_path / "own.csv"
    path.write_text("\n".join(["age,label", *(f"{row}.5,{word}" for row, word in enumerate([*pair, "other"] * 4))]))
    with pytest.raises(DataError, match=r"own\.csv: line \d, column label: .* differ in spelling only.*--same"):
        load_path(str(path))
    joined = load_path(str(path), Reading(hints=Hints(same=(pair,))))
    assert len(joined.classes) == 2 and pair[1] in joined.classes and pair[0] not in joined.classes
    apart = load_path(str(path), Reading(hints=Hints(distinct=("label",))))
    assert set(apart.classes) == {*pair, "other"}


@pytest.mark.parametrize(
    ("labels", "place"),
    [([0.5, 1, 2, 3], "line 2"), (list(range(100)), "line 2"), ([1, 2, 2.5], "line 4")],
)
def test_a_measurement_is_no_class(tmp_path: Path, labels: list[float], place: str) -> None:
    path = tmp_path / "own.csv"
    path.write_text("\n".join(["age,label", *(f"{row}.5,{label}" for row, label in enumerate(labels))]))
    with pytest.raises(DataError, match=rf"own\.csv: {place}, column label: .* are a measurement"):
        load_path(str(path))


def test_names_are_no_classes(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("\n".join(["age,label", *(f"{row}.5,patient {row}" for row in range(40))]))
    with pytest.raises(DataError, match=r"column label: 40 different words in 40 rows are names or texts, no classes"):
        load_path(str(path))


@pytest.mark.parametrize("word", ["NA", "?", "nan"])
def test_a_missing_label_is_no_class(tmp_path: Path, word: str) -> None:
    """Of 344 penguins eleven have the sex NA, which was a third class."""
    path = tmp_path / "own.csv"
    path.write_text("\n".join(["age,label", *(f"{row}.5,{('f', 'm', word)[row % 3]}" for row in range(30))]))
    with pytest.raises(DataError, match=rf"own\.csv: line 4, column label: '{re.escape(word)}' \(10 such rows\)"):
        load_path(str(path))
    meant = load_path(str(path), Reading(hints=Hints(category=("label",))))
    assert word in meant.classes


def test_the_error_names_columns_that_may_be_the_label(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    rows = [f"{row}.5,{'ab'[row % 2]},{row % 3},{'' if row else 1}" for row in range(30)]
    path.write_text("\n".join(["age,sex,grade,gone", *rows]))
    with pytest.raises(DataError, match=r"stand in 'sex' \(2 different\), 'grade' \(3 different\)$"):
        load_path(str(path))


def test_boolean_labels_are_the_same_from_every_kind_of_file(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": [1.5, 2.5, 3.5], "label": [True, False, True]})
    frame.to_csv(tmp_path / "own.csv", index=False)
    np.savez(tmp_path / "own.npz", x=frame[["age"]].to_numpy(), y=frame["label"].to_numpy())
    files = ["own.csv", "own.npz"]
    if pytest.importorskip("pyarrow"):
        frame.to_parquet(tmp_path / "own.parquet")
        files.append("own.parquet")
    for file in files:
        source = load_path(str(tmp_path / file))
        assert source.classes == ("False", "True") and source.train.y.tolist() == [1, 0, 1]


@pytest.mark.parametrize("fill", ["1e20", "9.969209968386869e+36", "-9999", "-999"])
def test_fill_values_are_missing(tmp_path: Path, private: Path, fill: str) -> None:
    """Votes were paid for, then the server fell to chance."""
    public = write(tmp_path / "public.csv", ("age", "bp", "label"), seed=2)
    lines = public.read_text().splitlines()
    for row in range(1, 40):
        lines[row] = ",".join([fill, *lines[row].split(",")[1:]])
    public.write_text("\n".join(lines))
    source = load(str(public))
    assert source.schema is not None and source.schema.columns[0].fills == (float(fill),)
    assert any("'age'" in note and "39 of 400 rows" in note for note in source.notes)
    data = federation(private, public)
    assert np.abs(data.public_x).max() < 10
    assert LogisticRegression().fit(data.private.x, data.private.y).score(data.test_x, data.test_y) > 0.85


@pytest.mark.parametrize("fill", ["1e20", "9.969209968386869e+36", "-9999", "inf"])
def test_a_fill_value_that_only_a_client_has_is_an_error_with_its_place(
    tmp_path: Path, private: Path, fill: str
) -> None:
    lines = private.read_text().splitlines()
    lines[6] = ",".join([lines[6].split(",")[0], fill, "no"])
    private.write_text("\n".join(lines))
    public = load(str(write(tmp_path / "public.csv", ("age", "bp", "label"), seed=2)))
    with pytest.raises(DataError, match=r"private\.csv: line 7, column bp: .*"):
        load_own(private, public)
