"""How a user's own files are to be read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fedballot.datasets.schema.contract import Schema
from fedballot.datasets.schema.infer import Hints


@dataclass(frozen=True)
class Reading:
    """How a user's own files are to be read; of no effect on other data sets.

    Attributes
    ----------
    schema : the contract; None: inferred from what is read. One without classes takes them from what is read.
    hints : for a contract that is inferred.
    """

    schema: Schema | None = None
    hints: Hints = field(default_factory=Hints)

    def through(self, schema: Schema | None, classes: bool = True) -> Reading:
        """Reading other records of the same kind; ``classes``: whether theirs are the same, too."""
        if schema is None:
            return self
        return replace(self, schema=schema if classes else schema.with_classes(()))


PLAIN = Reading()
