from pathlib import Path

import numpy as np
import pytest

from fedballot.core.errors import DataError
from fedballot.datasets.examples import Examples, Source
from fedballot.datasets.sources import keep_groups, load, names


def test_names_have_a_line_each() -> None:
    assert {"digits", "mnist", "cifar100", "office-caltech10"} <= set(names())
    assert all(line and "\n" not in line for line in names().values())


def test_loaded_once_per_process() -> None:
    assert load("digits") is load("digits")


def test_a_misspelt_name_gets_the_nearest() -> None:
    with pytest.raises(DataError, match="dataset: 'mnits' is unknown; did you mean 'mnist'"):
        load("mnits")
    with pytest.raises(DataError, match="dataset: '' is unknown"):
        load("")  # not the current folder
    with pytest.raises(DataError, match=r"~no-such-user/x\.csv: no such file"):
        load("~no-such-user/x.csv")
    with pytest.raises(DataError, match=r"'zzz' is unknown\. Expected digits"):
        load("zzz")


@pytest.mark.parametrize("name", ["none.csv", "none.npz", "folder/none", "sites/*"])
def test_what_looks_like_a_path_is_told_as_one(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=f"{tmp_path}/.*no (such )?file"):
        load(name)


def domains() -> Source:
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    examples = Examples(x, np.array([0, 1, 0, 1, 0, 1]), np.array([2, 0, 1, 2, 0, 1]))
    return Source("set", ("a", "b"), examples, group_names=("first", "second", "third"), origin=frozenset({"set"}))


def test_groups_are_kept_in_the_order_asked_for() -> None:
    kept = keep_groups(domains(), ("third", "first"))
    assert (kept.name, kept.group_names) == ("set@third+first", ("third", "first"))
    np.testing.assert_array_equal(kept.train.x[:, 0], [0, 2, 6, 8])
    np.testing.assert_array_equal(kept.train.groups, [0, 1, 0, 1])
    np.testing.assert_array_equal(kept.train.y, [0, 1, 1, 0])
    assert kept.origin == {"set@third", "set@first"}


def test_groups_that_are_not_there_are_refused() -> None:
    for groups in (("fourth",), ("",), ("first", "first")):
        with pytest.raises(DataError, match="first, second, third"):
            keep_groups(domains(), groups)
    with pytest.raises(DataError, match="groups none"):
        load("digits@amazon")
