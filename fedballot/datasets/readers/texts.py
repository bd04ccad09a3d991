"""Two text sets that are read from files of sentences, as TF-IDF features or as they are."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError
from fedballot.datasets.examples import Array
from fedballot.datasets.schema.texts import bytes_of

WORDS = 3000

Sentences = tuple[list[str], NDArray[np.int64]]


def tf_idf(vocabulary: Sequence[str], *texts: Sequence[str], words: int = WORDS) -> list[NDArray[np.float32]]:
    """TF-IDF with logarithmic term counts, rows of norm 1, float32 (n, words), for each list of texts.

    Parameters
    ----------
    vocabulary : texts that alone say which words count and how rare they are; they must be public.
    words : the most frequent ones are taken; fewer where there are fewer.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectoriser = TfidfVectorizer(sublinear_tf=True, max_features=words, dtype=np.float32).fit(vocabulary)
    return [vectoriser.transform(each).toarray() for each in texts]


def read_ag_news(path: Path) -> dict[str, Array]:
    """AG News as TF-IDF from `ag-news-test.csv` and `ag-news-train.csv` or `ag-news-dev.csv` in the folder of `path`.

    Raises
    ------
    DataError
        A file that is missing or holds something else: names the file and line.
    """
    return _weighed(*_ag_news(path))


def read_ag_news_texts(path: Path) -> dict[str, Array]:
    """AG News as rows of bytes, for encoders and learners that read texts; see `read_ag_news`."""
    return _as_they_are(*_ag_news(path), width=1024)


def read_sst2(path: Path) -> dict[str, Array]:
    """SST-2 as TF-IDF from `sst2-train.tsv`, and `sst2-dev.tsv` with `sst2-test.tsv` as the test split.

    Raises
    ------
    DataError
        As `read_ag_news`.
    """
    return _weighed(*_sst2(path))


def read_sst2_texts(path: Path) -> dict[str, Array]:
    """SST-2 as rows of bytes, for encoders and learners that read texts; see `read_sst2`."""
    return _as_they_are(*_sst2(path), width=320)


def _ag_news(path: Path) -> tuple[Sentences, Sentences]:
    train = path.with_name("ag-news-train.csv")
    return (
        _sentences(train if train.exists() else path.with_name("ag-news-dev.csv"), text=1, label=0, first=1),
        _sentences(path.with_name("ag-news-test.csv"), text=1, label=0, first=1),
    )


def _sst2(path: Path) -> tuple[Sentences, Sentences]:
    parts = ("train", "dev", "test")
    train, dev, test = (_sentences(path.with_name(f"sst2-{part}.tsv"), text=0, label=1) for part in parts)
    return train, (dev[0] + test[0], np.concatenate([dev[1], test[1]]))


def _weighed(train: Sentences, test: Sentences) -> dict[str, Array]:
    x_train, x_test = tf_idf(test[0], train[0], test[0])  # private texts do not choose the words
    return {"x_train": x_train, "y_train": train[1], "x_test": x_test, "y_test": test[1]}


def _as_they_are(train: Sentences, test: Sentences, *, width: int) -> dict[str, Array]:
    x_train, x_test = (bytes_of(texts, width).astype(np.float32) for texts, _ in (train, test))
    return {"x_train": x_train, "y_train": train[1], "x_test": x_test, "y_test": test[1]}


def _sentences(path: Path, *, text: int, label: int, first: int = 0) -> Sentences:
    """Texts and labels less `first` of a CSV with a header (labels from 1) or a TSV without (labels from 0)."""
    texts, labels = [], []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = (
                csv.reader(file) if path.suffix == ".csv" else csv.reader(file, "excel-tab", quoting=csv.QUOTE_NONE)
            )
            if path.suffix == ".csv":
                next(reader, None)
            for row in reader:
                if len(row) != 2 or not row[label].strip().isdigit():
                    raise DataError(f"{path}: line {reader.line_num}: {row[:3]}; expected a text and its label")
                texts.append(row[text])
                labels.append(int(row[label]) - first)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read as a list of sentences ({error})") from error
    if not texts:
        raise DataError(f"{path}: no sentences; expected at least one")
    return texts, np.array(labels, dtype=np.int64)
