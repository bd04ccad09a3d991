"""What people ask about privacy before anything runs: `fedballot budget` and `fedballot audit`."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from fedballot.cli import terminal
from fedballot.core import numbers
from fedballot.core.errors import RunError, SettingsError
from fedballot.privacy.guarantee import adjacency_note
from fedballot.settings.layers import load_preset, parse_assignments, preset_layers, resolve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedballot.privacy.audit.mechanisms import Finding
    from fedballot.studies.budget import Plan

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Method = Annotated[str, typer.Argument(help="A name from `fedballot methods`.")]


def budget(
    method: Method,
    epsilon: Annotated[float | None, typer.Option(help="The budget: solve the noise for it.")] = None,
    sigma: Annotated[float | None, typer.Option(help="The noise on each sum, in votes.")] = None,
    queries: Annotated[int | None, typer.Option(help="Public records that clients vote on.")] = None,
    votes: Annotated[int | None, typer.Option(help="Most votes of one client.")] = None,
    vote_fraction: Annotated[float | None, typer.Option(help="The same as a share of the queries.")] = None,
    clients: Annotated[int | None, typer.Option(help="Number of clients.")] = None,
    delta: Annotated[
        float | None, typer.Option(help="Added to e^epsilon times any probability; keep it below 1/n.")
    ] = None,
    unit: Annotated[str | None, typer.Option(help="Whom the budget protects: client or record.")] = None,
    preset: Annotated[str | None, typer.Option(help="Start from a preset.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one setting.")] = None,
    json: Json = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Where to draw the plan.")] = None,
) -> None:
    """Plan without running: noise for a budget, a budget for noise, and how many votes either allows."""
    from fedballot.methods.registry import all_methods, get_method, settings_types
    from fedballot.settings.voting import PateSettings, VotingSettings, mechanism
    from fedballot.studies import budget as planning

    found = get_method(method)
    kind = found.settings
    if not issubclass(kind, VotingSettings):
        able = ", ".join(name for name, one in all_methods().items() if issubclass(one.settings, VotingSettings))
        raise SettingsError(
            f"method {method!r} has no noisy votes to plan (it protects {found.protects}); there are some in: {able}"
        )
    if votes is not None and vote_fraction is not None:
        raise SettingsError("--votes and --vote-fraction say the same in two ways: give one of them")
    if out is not None and (out.suffix.lower() != ".png" or not out.parent.is_dir()):
        raise SettingsError(f"--out {out}: must be a .png file in a folder that exists")
    asked = {
        "queries": queries,
        "public_size": queries,  # a plan reads no data: the pool is as large as it must be
        "vote_fraction": vote_fraction,
        "clients": clients,
        "delta": delta,
        "unit": unit,
    }
    preset_says = preset_layers(load_preset(preset), found.name, settings_types(found)) if preset else []
    values = {key: value for key, value in asked.items() if value is not None} | parse_assignments(set_ or [])
    if epsilon is None and sigma is None and not any({"epsilon", "sigma"} & {*one} for one in [*preset_says, values]):
        raise SettingsError(
            "nothing to plan for: give --epsilon (the noise is solved) or --sigma (epsilon is worked out)"
        )
    values |= {key: value for key, value in (("epsilon", epsilon), ("sigma", sigma)) if value is not None}
    chosen = resolve(found.name, settings_types(found), preset=preset, values=values)
    assert isinstance(chosen, VotingSettings)  # as its type is
    if votes is not None:
        if not isinstance(chosen, PateSettings):
            raise SettingsError(f"--votes {votes}: clients of {method} vote on every query; leave it out")
        if not 1 <= votes <= chosen.query_count:
            raise SettingsError(f"--votes {votes}: must lie between 1 and the number of queries, {chosen.query_count}")
        chosen = replace(chosen, vote_fraction=votes / chosen.query_count)
    noisy = mechanism(chosen)
    if noisy is None:
        raise SettingsError("epsilon=inf is no budget: give a finite --epsilon, or --sigma")
    target = chosen.epsilon if epsilon is not None or not chosen.sigma else None
    plan = planning.make_plan(noisy, chosen.delta, chosen.unit, target)
    guarantees = noisy.guarantees(chosen.delta, secure=chosen.secure_aggregation, clients=chosen.clients)
    if out is not None:
        from fedballot.report.budget_plot import planning_figure

        _draw(planning_figure(plan), out)
    if json:
        picture = {} if out is None else {"picture": str(out)}
        words = [guarantee.worded() for guarantee in guarantees]
        terminal.print_json(
            {"method": method, "clients": chosen.clients, **plan.to_dict(), "guarantees": words, **picture}
        )
        return
    _print_plan(plan, f"{method}, planned", chosen.clients, budgeted=target is not None)
    own = next(guarantee for guarantee in guarantees if guarantee.unit == plan.unit)
    terminal.out.print(f"[bold]In words:[/bold] {escape(own.sentence())}")
    if note := adjacency_note([guarantee.to_dict() for guarantee in guarantees]):
        terminal.out.print(escape(note))
    for warning in own.warnings():
        _warn(warning)
    if out is not None:
        terminal.out.print(f"picture: {escape(str(out))}")


def _print_plan(plan: "Plan", title: str, clients: int, *, budgeted: bool) -> None:
    from fedballot.studies.budget import ROUTES

    noisy, own = plan.noisy, plan.row(plan.unit, "exact")
    full = "votes" if noisy.k is None else f"full votes of {noisy.k} neighbours"
    colluding = f", {noisy.colluders} of which may collude" if noisy.colluders else ""
    rows = [
        ["clients", f"{numbers.count(clients)}; at least {numbers.count(noisy.contributors)} must answer{colluding}"],
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
        _warn(f"the budget is exceeded: take σ ≥ {_noise(own.sigma)}{fewer}")
    if plan.at_smallest_noise:
        _warn("the noise cannot be smaller: each client's integer share must have σ ≥ 2. Ask more for the same budget")


def audit(
    method: Method,
    claim: Annotated[float, typer.Option(help="Epsilon of the one release that is audited; 1 or less.")] = 1.0,
    runs: Annotated[int, typer.Option(help="Releases in each of two worlds; of real clients 4,000.")] = 20_000,
    json: Json = False,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for audit.json and audit.png.")] = None,
) -> None:
    """Try to refute what a method claims, from its own releases; exit code 1 if that succeeds."""
    from fedballot.core.files import write_json
    from fedballot.studies.audit import audit_method

    if out is not None and out.exists() and not out.is_dir():
        raise SettingsError(f"--out {out}: is a file; give a folder")
    report = audit_method(method, claim, runs, terminal.watcher(quiet=False))
    plain = report.to_dict()
    if out is not None:
        from fedballot.report.audit_plot import audit_figure

        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "audit.json", plain)
        _draw(audit_figure(report), out / "audit.png")
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


def _draw(figure: "Figure", path: Path) -> None:
    from fedballot.report.canvas import style

    with style(white=True):
        figure.savefig(path)


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


def _warn(words: str) -> None:
    terminal.err.print(f"[yellow]warning:[/yellow] {escape(words)}", soft_wrap=True)
