"""The page of a plan: what a run would cost, whom it protects, and for votes how much noise the budget needs."""

import math
from collections.abc import Sequence

from fedballot.core import numbers
from fedballot.privacy.guarantee import Guarantee, for_some
from fedballot.privacy.words import adjacency_note, meaning, tone
from fedballot.report.budget_plot import panel_figures, subtitle
from fedballot.report.plot import drawn
from fedballot.report.study import Study
from fedballot.report.tables import Table
from fedballot.report.view import Headline
from fedballot.studies.budget import ROUTES, Plan
from fedballot.studies.spending import Spending


def budget_page(
    method: str, plan: Plan | None, spent: Spending, guarantees: Sequence[Guarantee], clients: int, *, aimed: bool
) -> Study:
    """What the page says; the arguments are those of `fedballot.api.planning.Budget`."""
    own = guarantees[0] if plan is None else next(one for one in guarantees if one.unit == plan.unit)
    stated = own.to_dict()
    headlines = [
        Headline(f"ε for one {charge.unit}", numbers.epsilon(charge.epsilon), charge.adjacency)
        for charge in spent.charges
    ]
    headlines.append(Headline("δ", numbers.delta(spent.delta), f"accountant: {spent.accountant}"))
    if plan is not None:
        headlines.append(Headline("Noise on each sum", f"σ {noise(plan.noisy.sigma)}", "standard deviation, in votes"))
    if spent.runs is not None:
        headlines.append(
            Headline("Runs within the budget", numbers.count(spent.runs), "of a ledger that holds nothing yet")
        )
    caption = "The dot is the plan, the line its target; where a curve meets the line is what that accountant asks for."
    plots = (
        []
        if plan is None
        else [
            drawn(
                one.title, figure, f"budget-{one.name}", f"ε against {one.label}.", f"{one.note}. {caption}", pdf=True
            )
            for one, figure in panel_figures(plan)
        ]
    )
    note = adjacency_note([one.to_dict() for one in guarantees])
    notes = [note] if note else []
    if plan is not None:
        notes.append(subtitle(plan))
    notes += [one.sentence() for one in for_some(guarantees, own)]
    tables = (
        [spending_table(spent)] if plan is None else [plan_table(plan, clients, aimed=aimed), accountants_table(plan)]
    )
    return Study(
        kind="Plan",
        title=method,
        lede=f"What a run of {method} with {numbers.count(clients)} clients would cost, planned from its settings "
        "alone: nothing was read, trained or released.",
        headlines=tuple(headlines),
        warnings=(*own.warnings(), *(doubts(plan) if plan else ())),
        quote=(tone(stated), own.sentence()),
        plots=tuple(plots),
        tables=tuple(tables),
        notes=(*notes, f"The sentence speaks of {meaning(stated)}."),
    )


def spending_table(spent: Spending) -> Table:
    """What each part of an answer costs, and what a run charges."""
    rows = [(f"{part.name}: {part.mechanism}", part.cost) for part in spent.parts]
    rows.append(("answers of a client in a run", numbers.count(spent.releases)))
    rows += [
        (f"ε of a run for one {charge.unit} ({charge.adjacency})", numbers.epsilon(charge.epsilon))
        for charge in spent.charges
    ]
    rows.append(("δ", f"{numbers.delta(spent.delta)}, accountant: {spent.accountant}"))
    if spent.runs is not None:
        rows.append(("runs that the budget pays for", numbers.count(spent.runs)))
    return Table("budget", "What a run costs", ("", ""), tuple(rows), texts=(0, 1))


def plan_table(plan: Plan, clients: int, *, aimed: bool) -> Table:
    """Clients, votes, noise, and whom it protects."""
    noisy = plan.noisy
    full = "votes" if noisy.k is None else f"full votes of {noisy.k} neighbours"
    colluding = f", {noisy.colluders} of which may collude" if noisy.colluders else ""
    rows = [
        ("clients", f"{numbers.count(clients)}; at least {numbers.count(noisy.min_clients)} must answer{colluding}"),
        (
            "votes",
            f"at most {numbers.count(noisy.max_votes)} of each client, on {numbers.count(noisy.queries)} queries",
        ),
        ("noise on each sum", f"σ = {noise(noisy.sigma)} {full}"),
        ("share of each client", f"σ = {noise(noisy.share_sigma * (noisy.k or 1) / noisy.ballot)} votes"),
        ("ε for one whole client (zero-out)", numbers.epsilon(plan.row("client", "exact").epsilon)),
        ("ε for one record (replace-one)", numbers.epsilon(plan.row("record", "exact").epsilon)),
        (
            "ε towards the server (replace-one)",
            f"{numbers.epsilon(plan.server_epsilon)}, if it sees each answer by itself: without secure aggregation "
            "it must be trusted to add them up",
        ),
        ("δ", numbers.delta(plan.delta)),
    ]
    if aimed:
        kept = "kept" if plan.fits else "EXCEEDED"
        rows.append(("budget", f"ε = {numbers.epsilon(plan.target)} for one {plan.unit}: {kept}"))
    return Table("plan", "The plan", ("", ""), tuple(rows), texts=(0, 1))


def accountants_table(plan: Plan) -> Table:
    """The same by each accountant."""
    rows = tuple(
        (
            f"{row.unit} ({'zero-out' if row.unit == 'client' else 'replace-one'})",
            ROUTES[row.route],
            numbers.epsilon(row.epsilon),
            noise(row.sigma),
            "–" if row.route == "exact" else numbers.percent(row.saved),
            numbers.count(row.votes),
            numbers.count(row.queries),
        )
        for row in plan.rows
    )
    head = (
        "protects",
        "accountant",
        f"ε at σ = {noise(plan.noisy.sigma)}",
        f"σ for ε = {numbers.epsilon(plan.target)}",
        "noise that ours saves",
        "most votes within ε",
        "= queries",
    )
    return Table("accountants", "The same by each accountant", head, rows, texts=(0, 1))


def doubts(plan: Plan) -> list[str]:
    """Where the plan does not do what was asked."""
    own, words = plan.row(plan.unit, "exact"), []
    if not plan.fits:
        fewer = f", or at most {numbers.count(own.votes)} of the votes" if own.votes else ""
        words.append(f"the budget is exceeded: take σ ≥ {noise(own.sigma)}{fewer}")
    if plan.at_smallest_noise:
        words.append(
            "the noise cannot be smaller: each client's integer share must have σ ≥ 2. Ask more for the same budget"
        )
    return words


def noise(value: float) -> str:
    """A standard deviation, rounded up: less noise than needed is no option."""
    return f"{math.ceil(value * 1000 * (1 - 1e-12)) / 1000:,.3f}"
