"""The `fedballot attack` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from fedballot.cli import terminal
from fedballot.cli.options import Assignments, Config, Json, Preset
from fedballot.core import numbers
from fedballot.core.errors import RunError, SettingsError
from fedballot.settings.layers import parse_assignments


def attack(
    method: Annotated[str, typer.Argument(help="A name from `fedballot methods`.")],
    preset: Preset = None,
    config: Config = None,
    set_: Assignments = None,
    adversary: Annotated[
        str,
        typer.Option(
            help="membership; active-server: the pool holds the records in question; property: class shares; "
            "active-client: clients that send what harms."
        ),
    ] = "membership",
    view: Annotated[
        str, typer.Option(help="server: all answers of one client; output: what the server makes of all clients'.")
    ] = "server",
    records: Annotated[
        str, typer.Option(help="Records of the attacked client; several with commas; 0: those of the experiment.")
    ] = "0",
    client: Annotated[int, typer.Option(min=0, help="Which client is attacked.")] = 0,
    poisoned: Annotated[float, typer.Option(help="active-client: largest share of clients that are malicious.")] = 0.3,
    runs: Annotated[
        int | None,
        typer.Option(
            help="Runs; 128 by default, an even number, half of them shadow runs for the others; active-client: 5."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="As many runs as fit into about two minutes.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder, whose runs count; default: attacks/METHOD-TIME.")] = None,
    json: Json = False,
) -> None:
    """Measure what leaks, or what malicious clients can do; exit code 1 if more is shown than proved."""
    from fedballot.api import attacking

    try:
        sizes = [int(word) for word in records.split(",")]
    except ValueError:
        raise SettingsError(f"--records {records}: give whole numbers, with commas between") from None
    chosen: dict[str, Any] = {"adversary": adversary, "view": view, **parse_assignments(set_ or [])}
    done = attacking.attack(
        method,
        out=out,
        records=sizes,
        client=client,
        poisoned=poisoned,
        runs=runs,
        quick=quick,
        preset=preset,
        config=config,
        **chosen,
    )
    if json:
        terminal.print_json(done.to_dict())
    else:
        from fedballot.report.attack_page import UNIT, leak_table, shares_table

        for leak in done.leaks:
            table = leak_table(leak)
            proved = "nothing" if leak.promise is None else f"ε ≤ {numbers.epsilon(leak.promise.epsilon)}"
            shown = f"ε ≥ {leak.epsilon:.2f} shown, {proved} proved ({UNIT})"
            title = f"{method}, {leak.size} records, {leak.runs} runs: {shown}"
            terminal.print_table(title, table.head, table.rows)
        if done.shares:
            table = shares_table(done.shares)
            terminal.print_table(f"{method}, the shares of its classes", table.head, table.rows)
        if done.poisoned is not None:
            from fedballot.report.poison_page import poison_table
            from fedballot.studies.attacks.poisoning import AIMS

            for aim in AIMS:
                table = poison_table(done.poisoned, aim)
                title = f"{method}, {table.caption.lower()}, {done.poisoned.runs} runs"
                terminal.print_table(title, table.head, table.rows)
        terminal.out.print(f"page: {escape(str(done.folder / 'attack.html'))}", soft_wrap=True)
    if done.contradicted:
        raise RunError("more is shown than is proved. Release nothing with this code until that is explained")
