"""How a user's own files are to be read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fedballot.datasets.readers.pictures import ImageSpec
from fedballot.datasets.schema.contract import Schema
from fedballot.datasets.schema.hints import Hints


@dataclass(frozen=True)
class Reading:
    """How a user's own files are to be read; of no effect on other data sets.

    Attributes
    ----------
    schema : the contract; None: inferred from what is read. One without classes takes them from what is read.
    hints : for a contract that is inferred.
    labels : whether classes must stand in what is read; else its records may have none, and count as unknown (-1).
    image_reader : see `ImageSpec.reader`; no part of the contract, as each party runs its own.
    """

    schema: Schema | None = None
    hints: Hints = field(default_factory=Hints)
    image_reader: str = ""
    labels: bool = True

    def images(self, schema: Schema | None = None) -> ImageSpec:
        """How images are read: as ``schema`` or the reading's own says, or as the hints do."""
        schema = schema or self.schema
        if schema is None:
            return ImageSpec(self.hints.image_size, 0, self.image_reader)
        return ImageSpec(schema.image_size, schema.channels, self.image_reader)

    def through(self, schema: Schema | None, classes: bool = True) -> Reading:
        """Reading other records of the same kind; ``classes``: whether theirs are the same, too."""
        if schema is None:
            return replace(self, labels=True)
        return replace(self, labels=True, schema=schema if classes else schema.with_classes(()))


PLAIN = Reading()
