"""``fedballot data``: what a data set holds, and how a partition of it looks."""

from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from click import Context
from rich.markup import escape
from typer.core import TyperGroup

from fedballot.cli import terminal
from fedballot.cli.options import Assignments, Json
from fedballot.cli.schema import schema_command
from fedballot.settings import layers


class _DataGroup(TyperGroup):
    """`fedballot data NAME` is short for `fedballot data show NAME`."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Put the command in front of what is none."""
        return super().parse_args(ctx, args if args and args[0] in self.commands else ["show", *args])


data_app = typer.Typer(
    cls=_DataGroup, help="What a data set holds, and how a partition of it looks; see also `schema`."
)
data_app.command("schema")(schema_command)


@data_app.command("show")
def data(
    name: Annotated[str | None, typer.Argument(help="A built-in name, a file, a folder or a glob.")] = None,
    preset: Annotated[str | None, typer.Option(help="Show the partition of this preset.")] = None,
    set_: Assignments = None,
    schema: Annotated[str, typer.Option(help="The schema through which a file is read.")] = "",
    label: Annotated[str, typer.Option(help="Without a schema: column of the classes.")] = "",
    image_reader: Annotated[str, typer.Option(help="package.module:function that reads an image file.")] = "",
    out: Annotated[Path | None, typer.Option(help="Where to write the picture (.png, .svg or .pdf).")] = None,
    json: Json = False,
) -> None:
    """What a data set holds, and how a partition of it looks, as a table and a picture; `data schema FILE` makes the
    contract of a federation's data."""
    from fedballot.datasets import describe as about
    from fedballot.datasets import sources
    from fedballot.datasets.schema.hints import Hints
    from fedballot.datasets.schema.reading import Reading
    from fedballot.datasets.schema.toml import read_schema

    if out is not None:
        from fedballot.report.canvas import check_picture

        check_picture(out)
    if name is None and preset is None and not set_:
        rows = [[known, text] for known, text in sources.names().items()]
        if json:
            terminal.print_json([{"name": known, "about": text} for known, text in rows])
        else:
            terminal.print_table("", ("data set", "what it is"), rows)
        return
    title = name or preset
    if preset or set_:
        from fedballot.methods.registry import settings_types
        from fedballot.runs.engine import federation_spec
        from fedballot.settings.parts import CommonSettings

        more = {"schema": schema, "label": label, "image_reader": image_reader}
        values = {
            **({"dataset": name} if name else {}),
            **{key: word for key, word in more.items() if word},
            **layers.parse_assignments(set_ or []),
        }
        kinds: dict[str, type[CommonSettings]] = {**settings_types(), "data": CommonSettings}
        resolved = layers.resolve("data", kinds, preset=preset, values=values)
        title = title or resolved.dataset
        found = about.describe(federation_spec(resolved))
    else:
        reading = Reading(read_schema(schema) if schema else None, Hints(label), image_reader, labels=not schema)
        found = about.describe(sources.load_as(str(name), reading))
    if json:
        terminal.print_json(found)
    else:
        terminal.print_table(str(title), ("", ""), _data_rows(found))
    if json and out is None:
        return
    import numpy as np

    from fedballot.core.files import check_ours
    from fedballot.report.canvas import write_picture
    from fedballot.report.plots import class_figure, partition_figure

    # of a pattern such as 'sites/*.csv' the folder's name: a file called *.png is dangerous to delete
    parts = [part for part in Path(str(title)).parts if re.search(r"\w", part) and not glob.has_magic(part)]
    picture = out or Path(f"{Path(parts[-1]).stem if parts else 'data'}.png")
    if "partition" in found:
        figure = partition_figure(np.array(found["partition"]["counts"]), found["classes"])
    else:
        figure = class_figure(np.array(found["train"]["per_class"]), found["classes"])
    check_ours(picture)
    write_picture(figure, picture)
    if not json:
        terminal.out.print(f"picture: {escape(str(picture))}")


def _data_rows(found: dict[str, Any], prefix: str = "") -> list[list[str]]:
    """The description of a data set as rows, nested keys joined; long lists are cut with their length told."""
    rows: list[list[str]] = []
    for key, value in found.items():
        if key == "counts" or value in (None, {}, []):
            continue
        if isinstance(value, dict):
            rows += _data_rows(value, f"{prefix}{key} ")
        elif isinstance(value, list):
            more = f", … ({len(value)} in all)" if len(value) > 20 else ""
            rows.append([f"{prefix}{key}", ", ".join(map(str, value[:20])) + more])
        else:
            rows.append([f"{prefix}{key}", str(value)])
    return rows
