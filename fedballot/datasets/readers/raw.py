"""What a reader takes from one file, before labels of several files are brought to one numbering."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedballot.datasets.examples import Array

Texts = NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class Raw:
    """Checked rows with their labels (and natural ids) as text.

    Attributes
    ----------
    x : as `Examples.x`.
    labels, groups : text (n,); labels are empty where a file has none and may do so.
    columns : names of the features, empty where they have none.
    test : rows and labels of the file's own test split.
    persons : whose record each is (n,), where the file was read with a column that says so.
    """

    x: Array
    labels: Texts
    groups: Texts | None = None
    columns: tuple[str, ...] = ()
    test: tuple[Array, Texts] | None = None
    persons: Texts | None = None
