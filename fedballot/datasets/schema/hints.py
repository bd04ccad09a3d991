"""What people say of a table before its contract is made."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from fedballot.datasets.readers.tables import Table


@dataclass(frozen=True)
class Hints:
    """What people say of a table before its contract is made.

    Attributes
    ----------
    label : the column of the classes; empty: the one that is called `label` or the like.
    text : columns whose texts are kept as they are, for encoders and learners that read texts; no other is a feature.
    id : the column that says which record, or whose, each is; never a feature.
    drop : other columns that are no features.
    category : columns whose cells are words, also where they look like numbers or text.
    missing : further words that stand for "missing".
    same : spellings of words, each with the word that is meant.
    distinct : columns whose words are all different, however alike they look.
    image_size : height and width that images are resized to; empty: they have one size.
    """

    label: str = ""
    drop: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    same: tuple[tuple[str, str], ...] = ()
    distinct: tuple[str, ...] = ()
    image_size: tuple[int, ...] = ()
    id: str = ""
    text: tuple[str, ...] = ()

    @property
    def no_label(self) -> tuple[str, ...]:
        """Columns that hold no classes, whatever they are called."""
        return tuple(filter(None, (self.id, *self.drop)))


def schema_command(table: Table, hints: Hints) -> str:
    """The command that makes a schema of this table with these hints, to which another is added."""
    pairs = [("label", hints.label), ("id", hints.id), *(("drop", name) for name in hints.drop)]
    pairs += [("category", name) for name in hints.category] + [("distinct", name) for name in hints.distinct]
    pairs += [("text", name) for name in hints.text]
    pairs += [("missing", word) for word in hints.missing]
    pairs += [("same", f"{word}={meant}") for word, meant in hints.same]
    options = "".join(f" --{option} {shlex.quote(word)}" for option, word in pairs if word)
    return f"fedballot data schema {shlex.quote(str(table.path))}{options}"
