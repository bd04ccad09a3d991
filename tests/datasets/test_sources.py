from pathlib import Path

import pytest

from fedballot.datasets.sources import load, names
from fedballot.errors import DataError


def test_names_have_a_line_each() -> None:
    assert {"digits", "mnist", "cifar100", "office-caltech10"} <= set(names())
    assert all(line and "\n" not in line for line in names().values())


def test_loaded_once_per_process() -> None:
    assert load("digits") is load("digits")


def test_a_misspelt_name_gets_the_nearest() -> None:
    with pytest.raises(DataError, match="dataset: 'mnits' is unknown; did you mean 'mnist'"):
        load("mnits")
    with pytest.raises(DataError, match="'zzz' is unknown. Expected digits"):
        load("zzz")


@pytest.mark.parametrize("name", ["none.csv", "none.npz", "folder/none", "sites/*"])
def test_what_looks_like_a_path_is_told_as_one(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=f"{tmp_path}/.*no (such )?file"):
        load(name)
