import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from fedballot.core.errors import DataError
from fedballot.datasets.readers.tables import read_csv, read_parquet


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "own.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_csv(tmp_path: Path) -> None:
    raw = read_csv(write(tmp_path, "\ufeffa,label, group ,b\r\n1,yes,north,2.5\r\n-3e2, no,south, 4\r\n\r\n"))
    assert raw.x.dtype == np.float32
    np.testing.assert_array_equal(raw.x, [[1, 2.5], [-300, 4]])
    assert raw.labels.tolist() == ["yes", "no"] and raw.columns == ("a", "b")
    assert raw.groups is not None and raw.groups.tolist() == ["north", "south"]


def test_csv_labels_written_as_whole_decimals_are_the_integers(tmp_path: Path) -> None:
    raw = read_csv(write(tmp_path, "a,label,group\n1,2.0,-1.00\n1,2,007\n1,v1.5,1\n"))
    assert raw.labels.tolist() == ["2", "2", "v1.5"]
    assert raw.groups is not None and raw.groups.tolist() == ["-1", "007", "1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column 'label' in the header"),
        ("a;label\n1;2\n", "no column 'label' in the header .*comma-separated"),
        ("a,b\n1,2\n", r"no column 'label' in the header \(a, b\)"),
        ("label,group\n1,2\n", "no feature column"),
        ("a,a,label\n1,2,3\n", "column 'a' stands 2 times"),
        ("a,label\n", "a header but no rows"),
        ("a,label\n1,2\n3\n", "line 3: 1 cells; expected 2"),
        ("a,label\n1,2\n3,4,5\n", "line 3: 3 cells; expected 2"),
        ("a,b,label\n1,2,0\n1,x,0\n", "line 3, column b: 'x'"),
        ("a,b,label\n1,2,0\n\n,2,0\n", "line 4, column a: ''"),
        ("a,label\nnan,0\n", "line 2, column a: 'nan'"),
        ("a,label\n-inf,0\n", "line 2, column a: '-inf'"),
        ("a,label\n1e39,0\n", "line 2, column a: '1e39'"),
        ("a,label\n1,\n", "line 2, column label: empty"),
        ("a,label,group\n1,2,\n", "line 2, column group: empty"),
        ("a,label\n1,2.0\n1,0.50\n", "line 3, column label: '0.50'; expected an integer or text"),
        ('a,label\n"1,2\n', "cannot be read as CSV"),
        (b"a,label\n\xff,2\n", "UTF-8"),
    ],
)
def test_bad_csv_names_line_and_column(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DataError, match=rf"{path}: {'.*' if 'UTF' in message else ''}{message}"):
        read_csv(path)


def test_csv_and_parquet_hold_the_same_digits(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    digits = load_digits()
    columns = {f"p{i}": digits.data[:, i] for i in range(64)} | {"label": digits.target}
    pq.write_table(pa.table(columns), tmp_path / "own.parquet")
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    from_csv = read_csv(write(tmp_path, "\n".join(lines)))
    from_parquet = read_parquet(tmp_path / "own.parquet")
    np.testing.assert_array_equal(from_csv.x, digits.data)
    np.testing.assert_array_equal(from_parquet.x, digits.data)
    assert from_csv.labels.tolist() == from_parquet.labels.tolist() == list(map(str, digits.target))
    assert from_csv.columns == from_parquet.columns


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1, 2]}, "no column 'label'"),
        ({"label": [1, 2]}, "no feature column"),
        ({"a": [], "label": []}, "no rows"),
        ({"a": [1, 1e39], "label": [0, 1]}, r"row 1, column a: 1e\+39"),
        ({"a": ["1", "2"], "label": [0, 1]}, "column a has type string"),
        ({"a": [1, None], "label": [0, 1]}, "row 1, column a: null"),
        ({"a": [1, 2], "label": [0, None]}, "row 1, column label: null"),
        ({"a": [1.0, float("nan")], "label": [0, 1]}, "row 1, column a: nan"),
        ({"a": [1, 2], "label": [0.5, 1]}, "column label: row 0 is 0.5"),
        ({"a": [1, 2], "label": [[1], [2, 3]]}, "column label has type list"),
    ],
)
def test_bad_parquet_names_row_and_column(tmp_path: Path, columns: dict[str, list[object]], message: str) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "own.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(DataError, match=rf"{path}: .*{message}"):
        read_parquet(path)


def test_parquet_dictionary_labels_and_groups(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    labels = pa.array(["cat", "dog", "cat"]).dictionary_encode()
    pq.write_table(pa.table({"label": labels, "a": [True, False, True], "group": [7, 8, 7]}), tmp_path / "own.parquet")
    raw = read_parquet(tmp_path / "own.parquet")
    assert raw.labels.tolist() == ["cat", "dog", "cat"]
    assert raw.groups is not None and raw.groups.tolist() == ["7", "8", "7"]
    np.testing.assert_array_equal(raw.x, [[1], [0], [1]])


def test_damaged_parquet_and_missing_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "own.parquet"
    path.write_bytes(b"PAR1 not really")
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    with pytest.raises(DataError, match=f"{path}: cannot be read as Parquet"):
        read_parquet(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"pip install 'fedballot\[parquet\]'"):
        read_parquet(path)
