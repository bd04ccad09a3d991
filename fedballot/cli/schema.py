"""``fedballot data schema``: the data contract that a public file suggests, as a file that people read and edit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from fedballot.cli import terminal
from fedballot.core.errors import SettingsError

if TYPE_CHECKING:
    from fedballot.datasets.schema.contract import Column


def schema_command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The public file, folder or glob.")],
    label: Annotated[str, typer.Option(help="Column of the classes; default: `label` or the like.")] = "",
    id: Annotated[str, typer.Option(metavar="COLUMN", help="Says which record, or whose, each is; no feature.")] = "",
    drop: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Is no feature; repeatable.")] = None,
    category: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Holds words, also where they look like numbers.")
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Holds texts, which alone are kept, for an encoder.")
    ] = None,
    missing: Annotated[list[str] | None, typer.Option(metavar="WORD", help="Stands for a missing value.")] = None,
    same: Annotated[
        list[str] | None, typer.Option(metavar="WORD=MEANT", help="Another spelling of a class or category.")
    ] = None,
    distinct: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Its words are different, however alike they look.")
    ] = None,
    classes: Annotated[
        str, typer.Option(metavar="WORD,WORD", help="The classes, where the public records have no labels.")
    ] = "",
    image_size: Annotated[int, typer.Option(help="Pixels a side to which images are resized.")] = 0,
    image_reader: Annotated[str, typer.Option(help="package.module:function that reads an image file.")] = "",
    out: Annotated[Path, typer.Option(help="Where to write it.")] = Path("schema.toml"),
) -> None:
    """The contract of columns and classes that a public file suggests: look at it, edit it, give it to every site."""
    from fedballot.core.files import write_atomic
    from fedballot.datasets.fingerprint import source_fingerprint
    from fedballot.datasets.schema.hints import Hints
    from fedballot.datasets.schema.reading import Reading
    from fedballot.datasets.schema.toml import to_toml
    from fedballot.datasets.sources import load_as

    if out.exists() or out.suffix != ".toml":
        raise SettingsError(
            f"--out {out}: {'already there' if out.exists() else 'expected a .toml file'}; name another"
        )
    pairs = [word.partition("=") for word in same or []]
    for word, equals, meant in pairs:
        if not (word and equals and meant):
            raise SettingsError(f"--same {word}{equals}{meant}: expected WORD=MEANT")
    hints = Hints(
        label,
        tuple(drop or ()),
        tuple(category or ()),
        tuple(missing or ()),
        tuple((word, meant) for word, _, meant in pairs),
        tuple(distinct or ()),
        (image_size, image_size) if image_size else (),
        id,
        tuple(text or ()),
    )
    words = tuple(word.strip() for word in classes.split(",")) if classes else ()
    if words and len({*filter(None, words)}) < max(2, len(words)):
        raise SettingsError(f"--classes {classes}: expected at least two different words with commas between")
    source = load_as(file, Reading(hints=hints, image_reader=image_reader, labels=not words))
    if words and source.labelled:
        raise SettingsError(f"--classes: {file} has labels, which say what the classes are; leave it out")
    if words and source.schema:
        source = replace(source, schema=source.schema.with_classes(words))
    contract = source.schema
    if contract is None:
        raise SettingsError(f"{file}: is known by name to everybody, so it needs no schema")
    write_atomic(out, lambda stream: stream.write(to_toml(contract).encode()))
    rows = [[column.name, column.kind, _content(column)] for column in contract.columns]
    rows.append([contract.label.name, "classes", ", ".join(contract.classes)])
    terminal.print_table(file, ("column", "kind", "holds"), [[escape(cell) for cell in row] for row in rows])
    for note in source.notes:
        terminal.out.print(f"[yellow]look:[/] {escape(note)}")
    terminal.out.print(f"schema: {escape(str(out))}\nfingerprint: {source_fingerprint(source)}", soft_wrap=True)


def _content(column: Column) -> str:
    words = column.words
    if column.kind == "date":
        return f"written as {column.format or '%Y-%m-%d'}"
    if column.low is not None and column.high is not None:
        return f"{column.low:.6g} to {column.high:.6g} {column.unit}".strip()
    return ", ".join(words[:20]) + (f", … ({len(words)} in all)" if len(words) > 20 else "")
