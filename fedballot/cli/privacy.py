"""What people ask about privacy before anything runs: `fedballot budget` and `fedballot audit`."""

import math
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
    from fedballot.privacy.audit.mechanisms import Finding
    from fedballot.privacy.guarantee import Guarantee
    from fedballot.studies.budget import Plan
    from fedballot.studies.spending import Spending

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
        Path | None, typer.Option(metavar="FILE", help="Where to draw the plan of votes (.png, .svg or .pdf).")
    ] = None,
) -> None:
    """Plan without running: what a run costs, whom it protects, and for votes how much noise the budget needs."""
    if out is not None:
        from fedballot.report.canvas import check_picture

        check_picture(out)
    from fedballot.api import planning

    facts = {"classes": classes, "records": records, "features": features, "negatives": negatives, "weights": weights}
    known = {name: value for name, value in facts.items() if value is not None}
    planned = planning.budget(method, preset=preset, budget=budget_, facts=known, **parse_assignments(set_ or []))
    figure = planned.figure()
    if out is not None:
        if figure is None:
            raise SettingsError(f"--out {out}: there is a figure of noisy votes only; leave it out")
        from fedballot.report.canvas import write_picture

        write_picture(figure, out)
    words = [guarantee.worded() for guarantee in planned.guarantees]
    plan, spent = planned.plan, planned.spending
    if json and plan is None:
        terminal.print_json({"method": method, **spent.to_dict(), "guarantees": words})
    elif json and plan is not None:
        picture = {} if out is None else {"picture": str(out)}
        plain = {**plan.to_dict(), "spending": spent.to_dict(), "guarantees": words, **picture}
        terminal.print_json({"method": method, "clients": planned.clients, **plain})
    elif plan is None:
        _print_spending(spent, f"{method}, planned")
        _print_guarantees(planned.guarantees, planned.guarantee)
    else:
        _print_plan(plan, f"{method}, planned", planned.clients, budgeted=planned.aimed)
        if spent.runs is not None:
            terminal.out.print(f"runs that the budget pays for: {numbers.count(spent.runs)}")
        _print_guarantees(planned.guarantees, next(one for one in planned.guarantees if one.unit == plan.unit))
        if out is not None:
            terminal.out.print(f"picture: {escape(str(out))}")


def _print_spending(spent: "Spending", title: str) -> None:
    rows = [[f"{part.name}: {part.mechanism}", part.cost] for part in spent.parts]
    rows.append(["answers of a client in a run", numbers.count(spent.releases)])
    rows += [
        [f"ε of a run for one {charge.unit} ({charge.adjacency})", numbers.epsilon(charge.epsilon)]
        for charge in spent.charges
    ]
    rows.append(["δ", f"{numbers.delta(spent.delta)}, accountant: {spent.accountant}"])
    if spent.runs is not None:
        rows.append(["runs that the budget pays for", numbers.count(spent.runs)])
    terminal.print_table(title, ("", ""), rows)


def _print_guarantees(guarantees: "Sequence[Guarantee]", own: "Guarantee") -> None:
    terminal.out.print(f"[bold]In words:[/bold] {escape(own.sentence())}")
    if note := adjacency_note([guarantee.to_dict() for guarantee in guarantees]):
        terminal.out.print(escape(note))
    for warning in own.warnings():
        terminal.warn(warning)


def _print_plan(plan: "Plan", title: str, clients: int, *, budgeted: bool) -> None:
    from fedballot.studies.budget import ROUTES

    noisy, own = plan.noisy, plan.row(plan.unit, "exact")
    full = "votes" if noisy.k is None else f"full votes of {noisy.k} neighbours"
    colluding = f", {noisy.colluders} of which may collude" if noisy.colluders else ""
    rows = [
        ["clients", f"{numbers.count(clients)}; at least {numbers.count(noisy.min_clients)} must answer{colluding}"],
        [
            "votes",
            f"at most {numbers.count(noisy.max_votes)} of each client, on {numbers.count(noisy.queries)} queries",
        ],
        ["noise on each sum", f"σ = {_noise(noisy.sigma)} {full}"],
        ["share of each client", f"σ = {_noise(noisy.share_sigma)} votes"],
        [
            "ε for one whole client (zero-out)",
            numbers.epsilon(plan.row("client", "exact").epsilon),
        ],
        [
            "ε for one record (replace-one)",
            numbers.epsilon(plan.row("record", "exact").epsilon),
        ],
        [
            "ε towards the server (replace-one)",
            f"{numbers.epsilon(plan.server_epsilon)}, if it sees each answer by itself: without secure aggregation "
            "it must be trusted to add them up",
        ],
        ["δ", numbers.delta(plan.delta)],
    ]
    if budgeted:
        kept = "kept" if plan.fits else "EXCEEDED"
        rows.append(["budget", f"ε = {numbers.epsilon(plan.target)} for one {plan.unit}: {kept}"])
    terminal.print_table(title, ("", ""), rows)
    table = [
        [
            f"{row.unit}\n({'zero-out' if row.unit == 'client' else 'replace-one'})",
            ROUTES[row.route],
            numbers.epsilon(row.epsilon),
            _noise(row.sigma),
            "–" if row.route == "exact" else numbers.percent(row.saved),
            numbers.count(row.votes),
            numbers.count(row.queries),
        ]
        for row in plan.rows
    ]
    columns = (
        "protects",
        "accountant",
        f"ε at σ = {_noise(noisy.sigma)}",
        f"σ for ε = {numbers.epsilon(plan.target)}",
        "noise that ours saves",
        "most votes within ε",
        "= queries",
    )
    terminal.print_table("the same by each accountant", columns, table)
    if not plan.fits:
        fewer = f", or at most {numbers.count(own.votes)} of the votes" if own.votes else ""
        terminal.warn(f"the budget is exceeded: take σ ≥ {_noise(own.sigma)}{fewer}")
    if plan.at_smallest_noise:
        terminal.warn(
            "the noise cannot be smaller: each client's integer share must have σ ≥ 2. Ask more for the same budget"
        )


def audit(
    method: Method,
    claim: Annotated[float, typer.Option(help="Epsilon of the one release that is audited; 1 or less.")] = 1.0,
    runs: Annotated[int, typer.Option(help="Releases in each of two worlds; of real clients 4,000.")] = 20_000,
    json: Json = False,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for audit.json and audit.png.")] = None,
) -> None:
    """Try to refute what a method claims, from its own releases; exit code 1 if that succeeds."""
    from fedballot.api import planning
    from fedballot.core.files import write_json

    if out is not None and out.exists() and not out.is_dir():
        raise SettingsError(f"--out {out}: is a file; give a folder")
    report = planning.audit(method, claim=claim, runs=runs)
    plain = report.to_dict()
    if out is not None:
        from fedballot.report.audit_plot import audit_figure
        from fedballot.report.canvas import write_picture

        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "audit.json", plain)
        write_picture(audit_figure(report), out / "audit.png")
    if json:
        terminal.print_json(plain)
    else:
        rows = [
            [
                layer.release,
                layer.part,
                layer.finding.layer,
                _claimed(layer.finding),
                _found(layer.finding),
                "stands" if layer.finding.passed else "[red]contradicted[/red]",
            ]
            for layer in report.layers
        ]
        columns = ("release", "part", "layer", "claim", "found", "the claim")
        title = f"{method}: {report.runs:,} runs, ε at δ = {numbers.delta(report.delta)}"
        terminal.print_table(title, columns, rows)
        terminal.out.print("ε is towards whoever sees the release, under the adjacency of the method's guarantee.")
        if out is not None:
            terminal.out.print(f"picture: {escape(str(out / 'audit.png'))}")
    if not report.passed:
        failed = [one for one in report.layers if not one.finding.passed]
        wrong = ", ".join(f"{one.finding.layer} ({one.release}, {one.part})" for one in failed)
        raise RunError(f"the claim is contradicted by: {wrong}. Release nothing with this code until that is explained")


def _claimed(finding: "Finding") -> str:
    what, _ = finding.about
    if what in ("ε", "δ"):
        return f"{what} ≤ {(numbers.epsilon if what == 'ε' else numbers.delta)(finding.claim)}"
    return f"{what} {'≤' if what == 'Δ' else '='} {finding.claim:.5g}"


def _found(finding: "Finding") -> str:
    _, what = finding.about
    return f"p = {finding.found:.2g}" if what == "p" else f"{what} ≥ {finding.found:.3g}"


def _noise(value: float) -> str:
    """A standard deviation, rounded up: less noise than needed is no option."""
    return f"{math.ceil(value * 1000 * (1 - 1e-12)) / 1000:,.3f}"
