"""Files are whole or absent."""

import numpy as np
import pytest

from fedballot.core.errors import DataError
from fedballot.core.files import read_arrays, read_json, write_arrays, write_atomic, write_json


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, {"a": float("nan")})

    def breaks(stream):
        stream.write(b"half")
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError):
        write_atomic(path, breaks)
    assert read_json(path) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["value.json"]


def test_a_file_has_the_mode_that_open_would_give_it(tmp_path):
    write_json(tmp_path / "value.json", 1)
    (tmp_path / "plain").touch()
    assert (tmp_path / "value.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_damage_is_named(tmp_path):
    path = tmp_path / "value.json"
    path.write_text('{"a": ')
    with pytest.raises(DataError, match=r"value\.json: not valid JSON"):
        read_json(path)
    with pytest.raises(DataError, match=r"none\.json"):
        read_json(tmp_path / "none.json")


def test_arrays_round_trip_and_damage_is_named(tmp_path):
    path = tmp_path / "a.npz"
    write_arrays(path, {"x": np.arange(1000)})
    assert np.array_equal(read_arrays(path)["x"], np.arange(1000))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"a\.npz"):
        read_arrays(path)


def test_objects_are_not_unpickled(tmp_path):
    path = tmp_path / "o.npz"
    np.savez(path, x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError):
        read_arrays(path)
