"""Options that several commands have."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Assignments = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one setting.")]
