"""The contract as a file, what is read through it, and what is fitted on the public records."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedballot.core.errors import DataError, SettingsError
from fedballot.datasets.federation import build
from fedballot.datasets.fingerprint import source_fingerprint
from fedballot.datasets.own import load_own
from fedballot.datasets.readers.tables import read_table
from fedballot.datasets.schema.apply import read_through
from fedballot.datasets.schema.contract import Column, Schema
from fedballot.datasets.schema.prepare import fit_preparation
from fedballot.datasets.schema.reading import Reading
from fedballot.datasets.schema.toml import read_schema, to_toml
from fedballot.datasets.sources import load, load_as
from fedballot.datasets.spec import FederationSpec

HEADER = "id,age,sex,smoker,seen,note,label"
LINES = [
    f"{7 * row + 3},{40.5 + row if row % 7 else ''},{'mf'[row % 2]},{row % 3 == 0},20{10 + row % 9}-03-01,"
    f"patient {row} is fine,{('ill', 'well')[row % 2]}"
    for row in range(60)
]


def table(path: Path, lines: list[str] = LINES, header: str = HEADER) -> Path:
    path.write_text("\n".join([header, *lines]), encoding="utf-8")
    return path


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    contract = load(str(table(tmp_path / "public.csv"))).schema
    assert contract is not None
    return contract


def test_every_kind_is_inferred(schema: Schema) -> None:
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds == {"age": "number", "sex": "category", "smoker": "boolean", "seen": "date"}
    assert set(dict(schema.excluded)) == {"id", "note"} and schema.classes == ("ill", "well")


def test_a_contract_is_the_same_when_it_is_read_back(schema: Schema, tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(to_toml(schema), encoding="utf-8")
    assert read_schema(path) == schema and read_schema(path).digest == schema.digest
    strange = replace(
        schema,
        label=Column('a "b"\n', "category", words=("é\\", "x"), same=(("X", "x"),)),
        columns=(Column("", unit="mg/dl", low=0.0, high=1e300, fills=(-9.0,), missing="refuse"), *schema.columns),
        scale="none",
        categories="ordinal",
        excluded=(),
        image_size=(8, 9),
        channels=3,
    )
    path.write_text(to_toml(strange), encoding="utf-8")
    assert read_schema(path) == strange and strange.digest != schema.digest


def test_the_digest_is_of_all_that_matters(schema: Schema) -> None:
    column = schema.columns[0]
    changes = [
        replace(schema, label=replace(schema.label, words=("well", "ill"))),
        replace(schema, columns=schema.columns[::-1]),
        replace(schema, columns=(replace(column, unit="months"), *schema.columns[1:])),
        replace(schema, columns=(replace(column, high=1.0), *schema.columns[1:])),
        replace(schema, missing=("",)),
        replace(schema, scale="none"),
    ]
    assert len({schema.digest, *(one.digest for one in changes)}) == 7
    assert replace(schema, excluded=()).digest == schema.digest


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("scale =", "scalee =", "unknown key 'scalee'; did you mean 'scale'"),
        ('kind = "date"', 'kind = "day"', "columns.seen.kind = 'day'; expected one of number"),
        ('words = ["ill", "well"]', 'words = ["ill"]', "label.words = ['ill']; expected at least two"),
        ('words = ["f", "m"]', "", "columns.sex.words = None; expected the words of a category"),
        ('missing = "fill"', 'missing = "drop"', "missing = 'drop'; expected one of fill, refuse"),
        ("range = [", "range = [1, 2, ", "columns.age.range = [1, 2, "),
        ('column = "label"', 'column = "age"', "'age': a feature and something else"),
        ('words = ["ill", "well"]', 'words = ["ill", "well"]\nsame = {ILL = "sick"}', "label.same.ILL = 'sick'"),
        ("[label]", "[label", "not valid TOML"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(schema: Schema, tmp_path: Path, old: str, new: str, words: str) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(to_toml(schema).replace(old, new))
    with pytest.raises(DataError, match=re.escape(words)) as caught:
        read_schema(path)
    assert str(path) in str(caught.value)


def test_columns_in_any_order_and_extra_ones(schema: Schema, tmp_path: Path) -> None:
    straight = read_through(schema, read_table(table(tmp_path / "one.csv")))
    lines = [",".join([*line.split(",")[::-1], "9"]) for line in LINES]
    turned = read_through(
        schema, read_table(table(tmp_path / "two.csv", lines, ",".join([*HEADER.split(",")[::-1], "extra"])))
    )
    np.testing.assert_array_equal(straight.x, turned.x)
    np.testing.assert_array_equal(straight.y, turned.y)
    assert turned.extra == ("note", "id", "extra")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({1: "old"}, "line 5, column age: 'old'; expected a number"),
        ({1: "40000"}, "line 5, column age: '40000'; outside "),
        ({2: "M"}, "line 5, column sex: 'M' is a category that the public source does not know; did you mean 'm'"),
        ({3: "maybe"}, "line 5, column smoker: 'maybe'; expected a boolean"),
        ({4: "yesterday"}, "line 5, column seen: 'yesterday'; expected a date"),
        ({6: "wel"}, "line 5, column label: 'wel' is a class that the public source does not know; did you mean"),
        ({6: ""}, "line 5, column label: empty"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(
    schema: Schema, tmp_path: Path, change: dict[int, str], words: str
) -> None:
    lines = list(LINES)
    lines[3] = ",".join(change.get(place, cell) for place, cell in enumerate(lines[3].split(",")))
    with pytest.raises(DataError, match=re.escape(f"own.csv: {words}")):
        read_through(schema, read_table(table(tmp_path / "own.csv", lines)))


def test_a_missing_value_is_filled_or_refused(schema: Schema, tmp_path: Path) -> None:
    own = read_table(table(tmp_path / "own.csv"))
    assert np.isnan(read_through(schema, own).x[0, 0])
    strict = replace(schema, columns=tuple(replace(column, missing="refuse") for column in schema.columns))
    with pytest.raises(DataError, match=r"own\.csv: line 2, column age: ''; missing, which the schema refuses"):
        read_through(strict, own)


def test_text_and_other_dates_where_the_schema_says_so(tmp_path: Path) -> None:
    label = Column("label", "category", words=("a", "b"))
    schema = Schema(label, (Column("day", "date", format="%d.%m.%Y"), Column("note", "text")))
    path = table(tmp_path / "own.csv", ["02.01.1970,red fox,a", "01.01.1970,blue,b"], "day,note,label")
    rows = read_through(schema, read_table(path))
    assert rows.x[:, 0].tolist() == [1, 0] and rows.x.shape == (2, 257)
    assert ((rows.x[:, 1:] > 0).sum(1) == [2, 1]).all()
    assert fit_preparation(schema, rows.x)(rows.x).shape == (2, 257)


def test_what_models_see(schema: Schema, tmp_path: Path) -> None:
    """Median for a missing number, mean 0, a number for each word of a category, nothing for a missing one."""
    lines = list(LINES)
    lines[1] = lines[1].replace(",f,", ",,")
    raw = read_through(schema, read_table(table(tmp_path / "own.csv", lines))).x
    x = fit_preparation(schema, raw)(raw)
    assert x.shape == (60, 5) and x.dtype == np.float32 and np.isfinite(x).all()  # age, seen, smoker, two of sex
    np.testing.assert_allclose(x[:, :2].mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(x[:, :2].std(0), 1, atol=1e-5)
    median = np.nanmedian(raw[:, 0])
    filled = np.where(np.isnan(raw[:, 0]), median, raw[:, 0])
    np.testing.assert_allclose(x[:, 0], (filled - filled.mean()) / filled.std(), atol=1e-5)
    assert x[1, 3:].tolist() == [0, 0] and x[0, 3:].tolist() == [0, 1]
    plain = replace(schema, scale="none", categories="ordinal")
    assert fit_preparation(plain, raw)(raw)[0].tolist() == [median, raw[0, 3], 1, 1]


def test_only_public_records_are_fitted(tmp_path: Path) -> None:
    """Also where all records come from one file: private ones that change move nobody else's numbers."""
    path = table(tmp_path / "all.csv")
    spec = FederationSpec(str(path), public_size=20, test_size=20, clients=2)
    before = build(spec)
    drawn = build(replace(spec, schema=""))
    assert before.preparation is not None and drawn is before
    private = np.concatenate(before.parts)
    lines = [
        ",".join([*line.split(",")[:1], "55.5", *line.split(",")[2:]]) if row in private and row % 7 else line
        for row, line in enumerate(LINES)
    ]
    contract = tmp_path / "schema.toml"
    contract.write_text(to_toml(before.schema))  # type: ignore[arg-type]
    after = build(replace(spec, dataset=str(table(tmp_path / "changed.csv", lines)), schema=str(contract)))
    assert after.preparation is not None and after.preparation.digest == before.preparation.digest
    np.testing.assert_array_equal(after.public_x, before.public_x)
    np.testing.assert_array_equal(after.test_x, before.test_x)
    assert after.public_fingerprint == before.public_fingerprint
    assert (after.private.x[private] != before.private.x[private]).any()


def test_sites_and_server_see_the_same_numbers(tmp_path: Path) -> None:
    public = table(tmp_path / "public.csv")
    server = build(FederationSpec("sites", str(public), public_size=20, test_size=20, clients=2))
    simulated = build(
        FederationSpec(
            str(table(tmp_path / "own.csv", LINES[:30])), str(public), public_size=20, test_size=20, clients=2
        )
    )
    own = load_own(tmp_path / "own.csv", load(str(public)))
    assert server.preparation is not None and simulated.preparation is not None
    assert server.preparation.digest == simulated.preparation.digest
    np.testing.assert_array_equal(own.examples.x, simulated.private.x)
    assert own.examples.x.shape[1:] == server.public_x.shape[1:] == server.private.x.shape[1:]


def test_a_sites_version_does_not_hang_on_what_the_public_file_was_fitted_to(schema: Schema, tmp_path: Path) -> None:
    path = tmp_path / "public2.csv"
    other = table(path, [line.replace("2010", "2011") for line in LINES])
    one, two = load(str(tmp_path / "public.csv")), load_as(str(other), Reading(schema))
    own = table(tmp_path / "own.csv", LINES[:30])
    assert load_own(own, one).fingerprint == load_own(own, two).fingerprint
    assert source_fingerprint(one) != source_fingerprint(two)


def test_a_preparation_is_stored_without_pickle(schema: Schema, tmp_path: Path) -> None:
    import skops.io

    raw = read_through(schema, read_table(table(tmp_path / "own.csv"))).x
    prepare = fit_preparation(schema, raw)
    prepare.save(tmp_path / "preparation.skops")
    again = skops.io.load(tmp_path / "preparation.skops", trusted=["numpy.dtype"])
    np.testing.assert_array_equal(again.transform(raw).astype(np.float32), prepare(raw))


def test_label_id_and_drop_without_a_schema_file(tmp_path: Path) -> None:
    """An id is no feature and nobody's group; the column `group` says who holds a record, and is no feature either."""
    lines = [f"p{row % 4},{row % 3},{row / 7},{row % 2},{('ill', 'well')[row % 2]}" for row in range(60)]
    path = table(tmp_path / "own.csv", lines, "patient,group,age,leak,diagnosis")
    spec = FederationSpec(
        dataset=str(path), label="diagnosis", id="patient", drop="leak", clients=3, partition="by-group",
        private_size=30, public_size=15, test_size=15,
    )  # fmt: skip
    data = build(spec)
    assert data.schema is not None and [column.name for column in data.schema.columns] == ["age"]
    assert dict(data.schema.excluded) == {"patient": "an id", "leak": "named as no feature"}
    assert data.group_names == ("0", "1", "2") and data.classes == ("ill", "well")
    for wrong, words in (
        ({"id": "patientt"}, "no column 'patientt'; did you mean 'patient'"),
        ({"id": "diagnosis"}, "column 'diagnosis' holds the classes, so it is neither an id nor dropped"),
        ({"drop": "leak,diagnosis"}, "column 'diagnosis' holds the classes"),
    ):
        with pytest.raises(DataError, match=words):
            build(replace(spec, **wrong))
    (tmp_path / "schema.toml").write_text(to_toml(data.schema))
    with pytest.raises(SettingsError, match="leave out label, id, drop and image_size"):
        FederationSpec(dataset=str(path), schema=str(tmp_path / "schema.toml"), id="patient")


def test_a_private_file_needs_no_id(tmp_path: Path) -> None:
    lines = [f"{row % 9},{row / 7},{('ill', 'well')[row % 2]}" for row in range(60)]
    public = table(tmp_path / "public.csv", lines, "patient,age,label")
    private = table(tmp_path / "private.csv", [line.partition(",")[2] for line in lines], "age,label")
    spec = FederationSpec(
        dataset=str(private), public_dataset=str(public), id="patient", clients=2, public_size=30, test_size=30
    )
    assert build(spec).public_x.shape == (30, 1)


def test_images_stand_alone_in_a_schema(schema: Schema, tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(to_toml(replace(schema, columns=(*schema.columns, Column("file", "image")), excluded=())))
    with pytest.raises(DataError, match=r"columns.file holds images and is not the only one"):
        read_schema(path)


@pytest.mark.parametrize(("words", "rows", "kept"), [(105, 21_000, True), (105, 5_000, False), (600, 90_000, False)])
def test_many_words_are_a_category_where_each_stands_often(tmp_path, words, rows, kept):
    """The destinations of 337,000 flights are 105."""
    path = tmp_path / "own.csv"
    path.write_text("size,dest,label\n" + "".join(f"{row}.5,D{row % words},{row % 2}\n" for row in range(rows)))
    source = load(str(path))
    assert ("dest" in [column.name for column in source.schema.columns]) is kept
    assert any("'dest' is left out" in note for note in source.notes) is not kept
