"""Tables as people have them: separators, decimal commas, encodings, packed files, and what is wrong with a file."""

from __future__ import annotations

import gzip
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from fedballot.core.errors import DataError
from fedballot.datasets.readers.files import load_path
from fedballot.datasets.readers.tables import read_table


def write(folder: Path, text: str | bytes, name: str = "own.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_csv(tmp_path: Path) -> None:
    source = load_path(str(write(tmp_path, "\ufeffa,label, group ,b\r\n1,yes,north,2.5\r\n-3e2, no,south, 4\r\n\r\n")))
    assert source.train.x.dtype == np.float32
    np.testing.assert_array_equal(source.train.x, [[1, 2.5], [-300, 4]])
    assert source.classes == ("no", "yes") and source.train.y.tolist() == [1, 0]
    assert source.group_names == ("north", "south")
    assert source.schema is not None and [column.name for column in source.schema.columns] == ["a", "b"]


def test_labels_written_as_whole_decimals_are_the_integers(tmp_path: Path) -> None:
    source = load_path(str(write(tmp_path, "a,label,group\n1,2.0,-1.00\n1,2,007\n1,v1.5,1\n")))
    assert source.classes == ("2", "v1.5") and source.train.y.tolist() == [0, 0, 1]
    assert source.group_names == ("-1", "007", "1")


ROWS = [("größe", "klasse"), ("1.5", "süd"), ("-2.25", "nord"), ("1000.125", "süd")]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("packed", ["", ".gz", ".zip"])
def test_however_a_table_is_written(tmp_path: Path, separator: str, encoding: str, packed: str) -> None:
    comma = separator == ";"  # as a German spreadsheet does
    lines = [separator.join([a.replace(".", ",") if comma and at else a, b]) for at, (a, b) in enumerate(ROWS)]
    content = "\r\n".join(["label".join(lines[0].rsplit("klasse", 1)), *lines[1:]]).encode(encoding)
    name = f"own.{'tsv' if separator == chr(9) else 'csv'}"
    path = tmp_path / f"{name}{packed}"
    if packed == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, content)
            archive.writestr(f"__MACOSX/._{name}", b"\x00")
    else:
        path.write_bytes(gzip.compress(content) if packed else content)
    source = load_path(str(path))
    assert source.schema is not None and source.schema.columns[0].name == "größe"
    np.testing.assert_array_equal(source.train.x, [[1.5], [-2.25], [1000.125]])
    assert source.classes == ("nord", "süd") and source.train.y.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty; expected a header"),
        ("a,b\n1,2\n", r"no column 'label' in the header \(a, b\); .*--label"),
        ("label,group\n1,2\n2,2\n", "no feature column"),
        (
            "a,a,label\n1,2,3\n",
            "column 'a' stands 2 times in the header; expected once. Where the first line is a record",
        ),
        ("a,label\n", "a header but no rows"),
        ("a,label\n1,2\n3\n", "line 3: 1 cells; expected 2"),
        ("a,label\n1,2\n3,4,5\n", "line 3: 3 cells; expected 2"),
        ("a,b,label\n1,2,0\n1,2,0\n1,x,1\n", "line 4, column b: 'x' is no number, as 2 other cells are.*--missing 'x'"),
        ("a,label\n-inf,0\n1,1\n", "line 2, column a: '-inf'; expected a finite"),
        ("a,label\n1e39,0\n1,1\n", "line 2, column a: '1e39'; expected a finite"),
        ("a,label\n1,\n", "line 2, column label: empty"),
        ('a,label\n"1\n2",x\n\n2,\n', "line 5, column label: empty"),
        ("a,label,group\n1,2,\n1,3,n\n", "line 2, column group: empty"),
        ("a,label\n1,2.0\n1,0.50\n", "line 3, column label: '0.50'; expected an integer or text"),
        ('a,label\n"1,2\n', "cannot be read as a table"),
        (b"a,label\n\x00,2\n", "holds zero bytes"),
        ("a,label\n1,x\n2,x\n", "every row has the label 'x'"),
        ('a,label\n"1,234",x\n5,y\n6,z\n', "line 2, column a: '1,234' is no number"),
    ],
)
def test_bad_csv_names_line_and_column(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DataError, match=rf"{path}: {message}"):
        load_path(str(path))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("own.csv.gz", b"no", "cannot be read"),
        ("own.csv.zip", b"no", "cannot be read"),
        ("own.parquet", b"PAR1 not really", "cannot be read as Parquet"),
        ("own.feather", b"no", "cannot be read as Feather"),
    ],
)
def test_damaged_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    with pytest.raises(DataError, match=f"{tmp_path / name}: {message}"):
        load_path(str(write(tmp_path, content, name)))


def test_a_zip_with_two_tables(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "own.csv.zip", "w") as archive:
        for name in ("a.csv", "b.csv"):
            archive.writestr(name, "a,label\n1,0\n")
    with pytest.raises(DataError, match=r"holds 2 files \(a.csv, b.csv\); expected one table"):
        load_path(str(tmp_path / "own.csv.zip"))


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_csv_and_other_kinds_hold_the_same_digits(tmp_path: Path, kind: str) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    digits = load_digits()
    frame = pd.DataFrame(digits.data, columns=[f"p{i}" for i in range(64)]).assign(label=digits.target)
    getattr(frame, f"to_{kind}")(tmp_path / f"own.{kind}")
    frame.to_csv(tmp_path / "own.csv", index=False)
    one, other = (load_path(str(tmp_path / f"own.{suffix}")) for suffix in ("csv", kind))
    np.testing.assert_array_equal(one.train.x, digits.data)
    np.testing.assert_array_equal(other.train.x, digits.data)
    assert one.train.y.tolist() == other.train.y.tolist() == digits.target.tolist()
    assert one.schema == other.schema


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1, 2]}, "no column 'label'"),
        ({"label": [1, 2]}, "no feature column"),
        ({"a": [], "label": []}, "no rows"),
        ({"a": [1, 1e39], "label": [0, 1]}, r"row 2, column a: .*1e\+39"),
        ({"a": [1, 2], "label": [0, None]}, "row 2, column label: empty"),
        ({"a": [1, 2], "label": [0.5, 1]}, "row 1, column label: '0.5'"),
        ({"a": [1, 2], "label": [[1], [2, 3]]}, "column label holds lists"),
    ],
)
def test_bad_parquet_names_row_and_column(tmp_path: Path, columns: dict[str, list[object]], message: str) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "own.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(DataError, match=rf"{path}: .*{message}"):
        load_path(str(path))


def test_parquet_dictionaries_booleans_and_a_pandas_index(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    frame = pd.DataFrame({"label": ["cat", "dog", "cat"], "a": [True, False, True], "group": [7, 8, 7]})
    frame["label"] = frame["label"].astype("category")
    frame.index = pd.Index([5.5, 6.5, 7.5], name="depth")
    frame.to_parquet(tmp_path / "own.parquet")
    source = load_path(str(tmp_path / "own.parquet"))
    assert source.classes == ("cat", "dog") and source.group_names == ("7", "8")
    assert source.schema is not None
    assert [(column.name, column.kind) for column in source.schema.columns] == [("depth", "number"), ("a", "boolean")]
    np.testing.assert_array_equal(source.train.x, [[5.5, 1], [6.5, 0], [7.5, 1]])


@pytest.mark.parametrize("kind", ["tsv", "csv.gz", "csv.zip", "parquet", "feather", "xlsx", "german.csv"])
def test_every_kind_of_file_and_of_column_is_the_same(tmp_path: Path, kind: str) -> None:
    """Numbers with gaps, words, truths with gaps, dates, ids: one schema and the same cells from each."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip({"xlsx": "openpyxl"}.get(kind, "pyarrow"), reason="needs its library")
    rng = np.random.default_rng(0)
    days = pd.to_datetime("2015-03-01") + pd.to_timedelta(rng.integers(0, 900, 60), unit="D")
    frame = pd.DataFrame(
        {
            "patient": 1000 + rng.permutation(60),
            "age": rng.integers(20, 90, 60) / 4,
            "sex": rng.choice(["f", "m"], 60),
            "smoker": rng.random(60) < 0.3,
            "seen": days,
            "label": rng.choice(["ill", "wéll"], 60),
        }
    )
    frame["smoker"] = frame["smoker"].astype("boolean")
    for name in ("age", "sex", "smoker", "seen"):
        frame.loc[rng.random(60) < 0.1, name] = pd.NA
    frame.to_csv(tmp_path / "plain.csv", index=False)
    path = tmp_path / f"own.{kind}"
    if kind == "xlsx":
        frame.to_excel(path, index=False)
    elif kind in ("parquet", "feather"):
        getattr(frame, f"to_{kind}")(path)
    elif kind == "german.csv":
        frame.to_csv(path, index=False, sep=";", decimal=",", encoding="cp1252")
    else:
        frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    plain, other = load_path(str(tmp_path / "plain.csv")), load_path(str(path))
    assert plain.schema is not None and other.schema == plain.schema
    kinds = {column.name: column.kind for column in plain.schema.columns}
    assert kinds == {"age": "number", "sex": "category", "smoker": "boolean", "seen": "date"}
    np.testing.assert_array_equal(other.train.x, plain.train.x)
    np.testing.assert_array_equal(other.train.y, plain.train.y)


def test_excel(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl", reason="needs openpyxl")
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.5, None, 3], "label": ["yes", "no", "yes"]})
    frame.to_excel(tmp_path / "own.xlsx", index=False)
    source = load_path(str(tmp_path / "own.xlsx"))
    np.testing.assert_array_equal(source.train.x, [[1.5], [np.nan], [3]])
    assert source.train.y.tolist() == [1, 0, 1]
    assert read_table(tmp_path / "own.xlsx").where(0).endswith("own.xlsx: row 2")


@pytest.mark.parametrize(
    ("name", "package"), [("own.parquet", "pyarrow"), ("own.feather", "pyarrow"), ("own.xlsx", "openpyxl")]
)
def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DataError, match=f"{name}: .* needs {package}; run pip install 'fedballot"):
        load_path(str(write(tmp_path, b"", name)))


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "sep=\t"])
def test_a_first_line_of_excels_names_the_separator(tmp_path: Path, first: str) -> None:
    sign = first.strip('"')[-1]
    (tmp_path / "own.csv").write_text("\r\n".join([first, f"a,x{sign}label", f"1,5{sign}p", f"2,5{sign}q"]), newline="")
    table = read_table(tmp_path / "own.csv")
    assert list(table.frame.columns) == ["a,x", "label"] and table.frame["a,x"].tolist() == ["1,5", "2,5"]
    assert table.decimal_comma and table.where(1).endswith("line 4")
    (tmp_path / "own.csv").write_text(f"{first}\na{sign}b\n1\n2{sign}3\n")
    with pytest.raises(DataError, match="line 3: 1 cells; expected 2"):
        read_table(tmp_path / "own.csv")
