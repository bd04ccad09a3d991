"""What a data set is once it is loaded: labelled examples, and a source of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedballot.datasets.schema.contract import Schema

Array = NDArray[Any]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Examples:
    """Labelled examples.

    Attributes
    ----------
    x : uint8 (n, h, w) or (n, h, w, 3) for images, float32 (n, d) for features; may be a read-only memory map.
    y : int64 (n,), class indices; multi-label: int8 (n, L), see `multilabel`.
    groups : int64 (n,) or None; the natural id of each record (writer, site, file, domain).
    """

    x: Array
    y: Array
    groups: Indices | None = None

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, eq=False)
class Source:
    """A data set as loaded.

    Attributes
    ----------
    name : the built-in name, or the absolute path or pattern.
    classes : names of the classes; class `i` is `classes[i]`.
    train, test : examples; `test` is None where the set has no standard split.
    group_names : name of each group id, empty without groups.
    margin : empty pixels around a centred digit, 0 where the digit fills its frame, None for any other picture.
    origin : what the records were taken from; two sources that share an origin may hold the same records.
    schema : the contract of a user's own files. Of a table, `x` holds its cells as the contract numbers them, NaN where
        one is missing; `schema.prepare` makes a model's numbers of them.
    notes : what was decided about the files, for people.
    """

    name: str
    classes: tuple[str, ...]
    train: Examples
    test: Examples | None = None
    group_names: tuple[str, ...] = ()
    margin: int | None = None
    origin: frozenset[str] = frozenset()
    schema: Schema | None = None
    notes: tuple[str, ...] = ()

    @property
    def labelled(self) -> bool:
        """Whether the class of any record is known."""
        return bool((self.train.y >= 0).any())
