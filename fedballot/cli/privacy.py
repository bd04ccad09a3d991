"""What people ask about privacy before anything runs: `fedballot budget` and `fedballot audit`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from fedballot.cli import terminal
from fedballot.cli.options import Assignments, Json
from fedballot.core import numbers
from fedballot.core.errors import RunError, SettingsError
from fedballot.privacy.words import adjacency_note
from fedballot.settings.layers import parse_assignments

if TYPE_CHECKING:
    from fedballot.privacy.guarantee import Guarantee
    from fedballot.studies.budget import Plan

Method = Annotated[str, typer.Argument(help="A name from `fedballot methods`.")]


def budget(
    method: Method,
    preset: Annotated[str | None, typer.Option(help="Start from a preset.")] = None,
    set_: Assignments = None,
    budget_: Annotated[
        float | None, typer.Option("--budget", help="Epsilon of a ledger: how many such runs does it pay for?")
    ] = None,
    classes: Annotated[int | None, typer.Option(help="Classes, where the noise depends on them.")] = None,
    records: Annotated[int | None, typer.Option(help="Records of a client, where it depends on them.")] = None,
    features: Annotated[int | None, typer.Option(help="Width of frozen features, or of their embedding.")] = None,
    negatives: Annotated[int | None, typer.Option(help="Public records that score heads are trained against.")] = None,
    weights: Annotated[int | None, typer.Option(help="Numbers in the model that is shared.")] = None,
    json: Json = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A page (.html), a table (.csv, .tex, .md) or, of votes, a picture."),
    ] = None,
) -> None:
    """Plan without running: what a run costs, whom it protects, and for votes how much noise the budget needs."""
    if out is not None:
        from fedballot.report.canvas import PICTURES, check_picture
        from fedballot.report.tables import FORMATS

        check_picture(out, (".html", *FORMATS, *PICTURES))
    from fedballot.api import planning
    from fedballot.report import budget_page

    facts = {"classes": classes, "records": records, "features": features, "negatives": negatives, "weights": weights}
    known = {name: value for name, value in facts.items() if value is not None}
    planned = planning.budget(method, preset=preset, budget=budget_, facts=known, **parse_assignments(set_ or []))
    if out is not None:
        planned.write(out)
    words = [guarantee.worded() for guarantee in planned.guarantees]
    plan, spent = planned.plan, planned.spending
    if json and plan is None:
        terminal.print_json({"method": method, **spent.to_dict(), "guarantees": words})
    elif json and plan is not None:
        picture = {} if out is None else {"picture": str(out)}
        plain = {**plan.to_dict(), "spending": spent.to_dict(), "guarantees": words, **picture}
        terminal.print_json({"method": method, "clients": planned.clients, **plain})
    elif plan is None:
        table = budget_page.spending_table(spent)
        terminal.print_table(f"{method}, planned", table.head, table.rows)
        _print_guarantees(planned.guarantees, planned.guarantee)
    else:
        _print_plan(plan, f"{method}, planned", planned.clients, budgeted=planned.aimed)
        if spent.runs is not None:
            terminal.out.print(f"runs that the budget pays for: {numbers.count(spent.runs)}")
        _print_guarantees(planned.guarantees, next(one for one in planned.guarantees if one.unit == plan.unit))
    if out is not None and not json:
        terminal.out.print(f"written: {escape(str(out))}")


def _print_guarantees(guarantees: "Sequence[Guarantee]", own: "Guarantee") -> None:
    from fedballot.privacy.guarantee import for_some

    terminal.out.print(f"[bold]In words:[/bold] {escape(own.sentence())}")
    for one in for_some(guarantees, own):
        terminal.out.print(escape(one.sentence()))
    if note := adjacency_note([guarantee.to_dict() for guarantee in guarantees]):
        terminal.out.print(escape(note))
    for warning in own.warnings():
        terminal.warn(warning)


def _print_plan(plan: "Plan", title: str, clients: int, *, budgeted: bool) -> None:
    from fedballot.report import budget_page

    table = budget_page.plan_table(plan, clients, aimed=budgeted)
    terminal.print_table(title, table.head, table.rows)
    table = budget_page.accountants_table(plan)
    rows = [[cells[0].replace(" (", "\n("), *cells[1:]] for cells in table.rows]
    terminal.print_table("the same by each accountant", table.head, rows)
    for words in budget_page.doubts(plan):
        terminal.warn(words)


def audit(
    method: Method,
    claim: Annotated[float, typer.Option(help="Epsilon of the one release that is audited; 1 or less.")] = 1.0,
    runs: Annotated[int, typer.Option(help="Releases in each of two worlds; of real clients 4,000.")] = 20_000,
    json: Json = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for audit.json, audit.html and audit.png.")
    ] = None,
) -> None:
    """Try to refute what a method claims, from its own releases; exit code 1 if that succeeds."""
    from fedballot.api import planning
    from fedballot.core.files import write_json
    from fedballot.report import audit_page

    if out is not None and out.exists() and not out.is_dir():
        raise SettingsError(f"--out {out}: is a file; give a folder")
    report = planning.audit(method, claim=claim, runs=runs)
    plain = report.to_dict()
    if out is not None:
        from fedballot.report.audit_plot import audit_figure
        from fedballot.report.canvas import write_picture
        from fedballot.report.study import write_study

        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "audit.json", plain)
        write_picture(audit_figure(report), out / "audit.png")
        write_study(audit_page.audit_page(report), out / "audit.html")
    if json:
        terminal.print_json(plain)
    else:
        table = audit_page.audit_table(report)
        rows = [[*cells[:-1], cells[-1].replace("contradicted", "[red]contradicted[/red]")] for cells in table.rows]
        title = f"{method}: {report.runs:,} runs, ε at δ = {numbers.delta(report.delta)}"
        terminal.print_table(title, table.head, rows)
        terminal.out.print("ε is towards whoever sees the release, under the adjacency of the method's guarantee.")
        if out is not None:
            terminal.out.print(f"page: {escape(str(out / 'audit.html'))}   picture: {escape(str(out / 'audit.png'))}")
    if not report.passed:
        failed = [one for one in report.layers if not one.finding.passed]
        wrong = ", ".join(f"{one.finding.layer} ({one.release}, {one.part})" for one in failed)
        raise RunError(f"the claim is contradicted by: {wrong}. Release nothing with this code until that is explained")
