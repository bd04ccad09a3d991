"""A client's ledger from the command line: what is in it, its limit, its data, copies of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.markup import escape

from fedballot.cli import terminal
from fedballot.core import numbers
from fedballot.core.errors import DataError, RunError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedballot.privacy.ledger import Ledger

T = TypeVar("T")

ledger_app = typer.Typer(no_args_is_help=True, help="A client's privacy ledger: what was spent, and what is left.")

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
LedgerPath = Annotated[Path, typer.Argument(metavar="FILE_OR_FOLDER", help="ledger.jsonl, or the folder it is in.")]


@ledger_app.command("show")
def ledger_show(path: LedgerPath, json: Json = False) -> None:
    """Every line with its cost and what was spent by then; what all of it means, and what is left."""
    from fedballot.studies.ledger_view import epsilon_words, view

    ledger = _open(path)
    found = view(ledger)
    if json:
        terminal.print_json(found.to_dict())
        return
    account = found.account
    title = f"{account.client}: {account.unit} level, {account.adjacency}, δ = {numbers.delta(account.delta)}"
    rows = [
        [entry.time, entry.what, escape(entry.request), entry.cost, epsilon_words(entry.spent)]
        for entry in found.entries
    ]
    terminal.print_table(escape(title), ("time (UTC)", "line", "request", "what it costs", "ε spent so far"), rows)
    terminal.print_table("", ("", ""), [[name, escape(words)] for name, words in found.summary()])


@ledger_app.command("verify")
def ledger_verify(path: LedgerPath, json: Json = False) -> None:
    """Check the chain of lines and every stored release; exit code 1 names the line that is wrong."""
    try:
        ledger = _open(path)
        lines, head = ledger.verify(), ledger.head
    except DataError as error:
        raise RunError(str(error)) from error
    if json:
        terminal.print_json({"path": str(ledger.path), "whole": True, "lines": lines, "head": head})
    else:
        terminal.out.print(f"{escape(str(ledger.path))}: {lines} lines, all whole", soft_wrap=True)
        terminal.out.print(
            f"head: {head} (note it elsewhere: it shows whether the ledger was rewritten)", soft_wrap=True
        )


@ledger_app.command("budget")
def ledger_budget(
    path: LedgerPath,
    epsilon: Annotated[float | None, typer.Option(help="The new limit; without it, the present one is shown.")] = None,
    raise_: Annotated[bool, typer.Option("--raise", help="Allow a limit above the present one.")] = False,
    json: Json = False,
) -> None:
    """Show or set the limit. Every change is a line of the ledger."""
    from fedballot.studies.ledger_view import view

    ledger = _open(path)
    present = ledger.account.epsilon
    if raise_ and (epsilon is None or epsilon <= present):
        raise SettingsError(f"--raise needs an --epsilon above the present limit, {present:g}")
    if epsilon is not None and epsilon > present and not raise_:
        raise SettingsError(
            f"--epsilon {epsilon:g} is above the present limit, {present:g}: more may then be learned about "
            f"{ledger.account.client} than was agreed; add --raise if that was decided"
        )
    if epsilon is not None and epsilon != present:
        try:
            ledger.set_budget(epsilon)
        except OSError as error:
            raise RunError(f"{ledger.path}: cannot be written, so the limit stays {present:g}: {error}") from error
    found = view(ledger)
    if json:
        terminal.print_json({key: value for key, value in found.to_dict().items() if key != "entries"})
        return
    changes = [[entry.time, entry.cost] for entry in found.entries if entry.what in ("opened", "limit")]
    terminal.print_table("limits", ("time (UTC)", "limit"), changes)
    terminal.print_table("", ("", ""), [[name, escape(words)] for name, words in found.summary()])
    if found.spent > found.account.epsilon:
        terminal.err.print(
            "[yellow]warning:[/yellow] more is spent than the limit allows: nothing more will be released",
            soft_wrap=True,
        )


@ledger_app.command("carry-over")
def ledger_carry_over(
    site_file: Annotated[Path, typer.Argument(metavar="SITE.TOML", help="The site's file.")],
    note: Annotated[str, typer.Option(help="What has changed in the data, for whoever reads the ledger later.")],
) -> None:
    """Go on with another version of a site's data: what was spent on the population stays spent."""
    from fedballot.deploy.check import carry_over

    version = carry_over(site_file, note)
    terminal.out.print(f"{version.records} records, {version.fingerprint}: noted", soft_wrap=True)


@ledger_app.command("backup")
def ledger_backup(
    path: LedgerPath,
    destination: Annotated[Path, typer.Argument(metavar="DEST", help="The copy's folder, which must not exist.")],
) -> None:
    """Copy a ledger with all its releases, whole and verified, also while it is in use."""
    from fedballot.privacy.ledger.copies import back_up

    ledger = _open(path)
    lines = _writing(destination, "there is no copy", lambda: back_up(ledger, destination.absolute()))
    terminal.out.print(f"{escape(str(destination))}: {lines} lines, all whole", soft_wrap=True)


@ledger_app.command("restore")
def ledger_restore(
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="A whole copy; FOLDER itself if it lies there.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the ledger is to be.")],
    accept_spent: Annotated[
        bool, typer.Option("--accept-spent", help="Do it, and charge all that may be missing from the backup.")
    ] = False,
    lost_head: Annotated[
        list[str] | None, typer.Option(help="A head of the ledger that is gone, as the site's log names it.")
    ] = None,
    limit: Annotated[float, typer.Option(min=0, help="Its limit, if ever above what the backup knows.")] = 0.0,
    delta: Annotated[float, typer.Option(min=0, max=1, help="The delta of its statement, likewise.")] = 0.0,
) -> None:
    """Put a backup back: what was released since it was made is charged at the worst that the limit allowed."""
    from fedballot.privacy.ledger.restore import plan_restoration, restore
    from fedballot.studies.ledger_view import restoration_words

    _open(backup)
    plan = plan_restoration(backup.absolute(), folder.absolute(), heads=lost_head or [], limit=limit, delta=delta)
    for words in restoration_words(plan):
        terminal.err.print(escape(words), soft_wrap=True)
    if not accept_spent:
        raise SettingsError("nothing was changed; if this is what you want, add --accept-spent")
    aside = _writing(folder, "nothing was restored", lambda: restore(plan))
    if aside:
        terminal.err.print(f"what was in {escape(str(folder))} is now in {escape(str(aside))}", soft_wrap=True)
    terminal.out.print(f"{escape(str(folder))}: {_open(folder).verify()} lines, all whole", soft_wrap=True)


def _writing(folder: Path, failed: str, write: "Callable[[], T]") -> "T":
    """What `write` returns; an error of the disk becomes one that names the folder and says what failed."""
    try:
        return write()
    except OSError as error:
        raise RunError(f"{folder}: cannot be written: {error.strerror or error}; {failed}") from error


def _open(path: Path) -> "Ledger":
    """The ledger at a path.

    Raises
    ------
    SettingsError
        If there is none.
    DataError
        If it cannot be read or is not whole.
    """
    from fedballot.privacy.ledger import Ledger

    folder = path.parent if path.name == "ledger.jsonl" and not path.is_dir() else path
    if not (folder / "ledger.jsonl").is_file():
        inside = folder / "ledger"
        hint = f"; try {inside}" if (inside / "ledger.jsonl").is_file() else "; a client's is named ledger.jsonl"
        raise SettingsError(f"{path}: there is no ledger here{hint}")
    try:
        return Ledger(folder)
    except OSError as error:
        raise DataError(f"{folder / 'ledger.jsonl'}: cannot be read as a ledger: {error}") from error
