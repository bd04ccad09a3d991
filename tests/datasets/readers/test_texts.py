"""Sentences become features whose words come from public texts alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedballot.core.errors import DataError
from fedballot.datasets.readers.texts import tf_idf
from fedballot.datasets.sources import load


def test_words_and_their_rarity_come_from_the_public_texts_alone() -> None:
    public = ["a good film", "a bad film", "a long film"]
    first, same = tf_idf(public, ["good film", "secret"], public)
    other, _ = tf_idf(public, ["good film", "another secret word"], public)
    assert first.shape == (2, 4) and first.dtype == np.float32
    assert np.array_equal(first[0], other[0])
    assert not first[1].any()  # a word that no public text has
    assert first[0].max() == first[0][2]  # "good" is rarer than "film"
    assert np.allclose(np.linalg.norm(same, axis=1), 1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDBALLOT_DATA", str(tmp_path))
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "cache"))
    load.cache_clear()
    rows = ['1,"Peace, at last"', "2,cup final", "3,shares fall", "4,new chip"]
    for part in ("dev", "test"):
        (tmp_path / f"ag-news-{part}.csv").write_text("label,content\n" + "\n".join(rows) + "\n")
    for part in ("train", "dev", "test"):
        (tmp_path / f"sst2-{part}.tsv").write_text('a "good film\t1\na dull film\t0\n')
    return tmp_path


def test_both_text_sets_are_read_from_their_files(folder: Path) -> None:
    news, reviews = load("ag-news"), load("sst2")
    assert news.train.y.tolist() == [0, 1, 2, 3] and news.test is not None
    assert reviews.train.y.tolist() == [1, 0] and reviews.test is not None and len(reviews.test) == 4
    assert news.train.x.shape == (4, 9)


def test_a_full_training_split_is_preferred(folder: Path) -> None:
    (folder / "ag-news-train.csv").write_text("label,content\n" + "1,peace\n" * 9)
    assert len(load("ag-news").train) == 9


@pytest.mark.parametrize("line", ["no label here", "a film\tgood", "a\tb\t1"])
def test_a_line_that_is_no_sentence_with_a_label_is_named(folder: Path, line: str) -> None:
    (folder / "sst2-dev.tsv").write_text(f"a film\t1\n{line}\n")
    with pytest.raises(DataError, match=r"sst2-dev\.tsv: line 2"):
        load("sst2")


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "ag-news-dev.csv").unlink()
    with pytest.raises(DataError, match=r"ag-news-dev\.csv"):
        load("ag-news")
