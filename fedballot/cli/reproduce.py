"""The `fedballot reproduce` command."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fedballot.cli import terminal
from fedballot.cli.options import Jobs, Json
from fedballot.core import numbers
from fedballot.core.errors import RunError


def reproduce_command(
    name: Annotated[str | None, typer.Argument(help="A row; without one, all are listed.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Runs; default: as many as are stored.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the runs; default: rows/NAME.")] = None,
    jobs: Jobs = 1,
    json: Json = False,
) -> None:
    """Run a row of the results pages again and say how it differs; call it again to go on where it stopped."""
    if name is None:
        _list(json)
        return
    with terminal.watching("reading the row") as progress:
        from fedballot.api.reproducing import run_row
        from fedballot.studies.rows import stored_row

        found = run_row(stored_row(name), seeds, out, jobs, progress)
    if json:
        terminal.print_json(found.to_dict())
    else:
        table = found.table()
        terminal.print_table(table.caption, table.head, table.rows)
        terminal.out.print(escape(table.note), soft_wrap=True)
        terminal.out.print(f"row: {found.runs.folder / 'row.md'}   {found.runs.folder / 'row.json'}", soft_wrap=True)
    if failed := found.runs.failed:
        raise RunError(f"{len(failed)} runs failed (the first: {failed[0]}); call again to retry them")


def _list(json: bool) -> None:
    from fedballot.studies.rows import StoredRow, stored_rows

    def written(row: StoredRow) -> list[str]:
        spread = "" if row.spread is None else f" ± {row.spread:.1f}"
        stored = "–" if row.accuracy is None else f"{row.accuracy:.1f}{spread}"
        published = "; ".join(f"{who} {accuracy:g}" for who, accuracy in (row.published or {}).items())
        time = "–" if row.minutes is None else numbers.seconds(60 * row.minutes)
        memory = "–" if row.memory_gb is None else f"{row.memory_gb:g}{numbers.NBSP}GB"
        takes = f"{row.seeds} × {time}, {memory}"
        return [row.name, row.about, takes, stored, published]

    rows = list(stored_rows().values())
    if json:
        terminal.print_json([dataclasses.asdict(row) for row in rows])
    else:
        columns = ("row", "what", "takes", "stored, %", "published, %")
        terminal.print_table("", columns, [written(row) for row in rows])
