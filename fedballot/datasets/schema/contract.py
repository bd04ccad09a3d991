"""The contract of a federation's data: what its columns and classes are, the same for everybody."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Literal

Kind = Literal["number", "category", "boolean", "date", "text", "image"]
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "?")
TEXT_FEATURES = 256  # of one column of kind text


@dataclass(frozen=True)
class Column:
    """A column of everybody's table.

    Attributes
    ----------
    unit : for people; every site compares it with what its own file holds.
    low, high : range of a number; a value outside is an error. None: any.
    fills : numbers that stand for "missing", such as -9999.
    words : of a category, in this order; of the label, the classes.
    same : other spellings, each with the word that is meant.
    mark : of a number, what stands in its cells beside it: `%` in every one, or the sign of a currency.
    bytes : of a text, how much of it (UTF-8) is kept as it is, for learners that read texts; 0: hashed words.
    format : of a date, as `strftime` writes it; empty: ISO 8601.
    missing : "fill": with the public median, or as a category of its own; "refuse": a missing value is an error.
    """

    name: str
    kind: Kind = "number"
    unit: str = ""
    low: float | None = None
    high: float | None = None
    fills: tuple[float, ...] = ()
    words: tuple[str, ...] = ()
    same: tuple[tuple[str, str], ...] = ()
    format: str = ""
    missing: Literal["fill", "refuse"] = "fill"
    mark: str = ""
    bytes: int = 0

    @property
    def width(self) -> int:
        """Numbers that a record has of it before they are prepared."""
        return (self.bytes or TEXT_FEATURES) if self.kind == "text" else 1


@dataclass(frozen=True)
class Schema:
    """What everybody's records are: a table's columns, or, of images and arrays, the classes alone.

    Attributes
    ----------
    label : the column of the classes; of images and arrays, its words alone.
    columns : features, in the order in which models see them; or one of kind image, which holds the files' paths.
    excluded : columns that are no features, each with the reason.
    missing : words that stand for "missing" in every column.
    scale : whether numbers are brought to the mean 0 and deviation 1 of the public records.
    categories : whether a category becomes a number for each word, or the number of the word.
    image_size : height and width that images are resized to; empty: they must have one size.
    channels : 1 for grey images, 3 for colour; 0: no images, or whatever the public ones are.
    """

    label: Column
    columns: tuple[Column, ...] = ()
    excluded: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = MISSING
    scale: Literal["standardise", "none"] = "standardise"
    categories: Literal["one-hot", "ordinal"] = "one-hot"
    image_size: tuple[int, ...] = ()
    channels: int = 0

    @property
    def width(self) -> int:
        """Numbers of a table's record before they are prepared."""
        return sum(column.width for column in self.columns)

    @property
    def classes(self) -> tuple[str, ...]:
        """Class words; class ``i`` is the ``i``-th."""
        return self.label.words

    @property
    def image(self) -> str:
        """The column with the paths of images; empty where records are no images, or lie in folders by class."""
        return self.columns[0].name if self.columns and self.columns[0].kind == "image" else ""

    @property
    def tabular(self) -> bool:
        """Whether a record is a row of cells, of which numbers are made."""
        return bool(self.columns) and not self.image

    @property
    def digest(self) -> str:
        """By which two parties know that their contracts are the same; why a column is left out is no part of it.

        Empty where a contract says no more than the array itself: unnamed features, classes 0 to n-1.
        """
        if not self.columns and self.classes == tuple(map(str, range(len(self.classes)))):
            return ""
        values = dataclasses.asdict(dataclasses.replace(self, excluded=()))
        for column in (values["label"], *values["columns"]):
            for name in ("mark", "bytes"):  # contracts without them are those of versions that knew none
                if not column[name]:
                    del column[name]
        text = json.dumps(values, sort_keys=True, ensure_ascii=False)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    def with_classes(self, words: tuple[str, ...]) -> Schema:
        """The same records with other classes."""
        return dataclasses.replace(self, label=dataclasses.replace(self.label, words=words, same=()))
