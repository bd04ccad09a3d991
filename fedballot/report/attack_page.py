"""The page of an attack: what an adversary told of a client's records, beside what is proved."""

from __future__ import annotations

from collections.abc import Sequence

from fedballot.core import numbers
from fedballot.report.attack_plot import NAMES, roc_figure, rounds_figure, sizes_figure
from fedballot.report.plot import drawn
from fedballot.report.study import Study
from fedballot.report.tables import Table
from fedballot.report.view import Headline
from fedballot.studies.attacks.measure import Rate
from fedballot.studies.attacks.membership import Leak
from fedballot.studies.attacks.shares import Shares

WHO = {
    ("membership", "server"): "The server keeps to the method, and looks at all answers of one client",
    ("membership", "output"): "Somebody looks at what the server makes of all answers",
    ("active-server", "server"): "The server plants the records in question in the public pool, and looks at all "
    "answers of one client",
    ("active-server", "output"): "The records in question stand in the public pool, and somebody looks at what the "
    "server makes of all answers",
}
UNIT = "one record, replace-one"
_FEW = 128  # runs from which on intervals are narrow enough to compare methods by


def attack_page(leaks: Sequence[Leak], command: str = "") -> Study:
    """What the page says of clients of one or several sizes; the first is shown in full."""
    first = leaks[0]
    best, told = first.best, first.promise
    stamp: tuple[str, ...] = ()
    if any(one.contradicted for one in leaks):
        stamp = ("The guarantee is contradicted", "More is shown than is proved. Release nothing with this code.")
    low = best.rates[1]
    headlines = (
        Headline(
            "ε shown", f"≥ {first.epsilon:.2f}", f"{UNIT}, at δ = {numbers.delta(first.delta)}, with 95 % confidence"
        ),
        Headline(
            "ε proved",
            "none" if told is None else numbers.epsilon(told.epsilon),
            "nothing is proved of what is seen here" if told is None else f"{UNIT}, at δ = {numbers.delta(told.delta)}",
            "bad" if told is None else "good",
        ),
        Headline(
            "Members found",
            numbers.percent(low.value),
            f"at 1 % false alarms, {numbers.percent(low.low)} to {numbers.percent(low.high)}",
        ),
        Headline("Area under the curve", f"{best.auc:.3f}", f"± {1.96 * best.auc_error:.3f}; 0.5 is by chance"),
    )
    warnings = []
    if first.runs < _FEW:
        warnings.append(f"{first.runs} runs: intervals are wide; {_FEW} or more are for comparing methods")
    if any(one.doubted for one in leaks):
        warnings.append(
            "more is shown at 95 % confidence than is proved, but not at 99.99 %, as happens by chance now and then: "
            "ask for more runs"
        )
    if first.seen != first.asked.seen:
        warnings.append("answers come under masks, so that only their sum is seen")
    plots = [
        drawn(
            "True against false positives",
            roc_figure(first, white=False),
            "attack-roc",
            f"ROC curves of {len(first.scores)} attacks on logarithmic axes.",
            "Left is where it matters: who is named with hardly any false alarm.",
            pdf=True,
        )
    ]
    if len(first.by_round) > 1:
        words = "What more rounds tell."
        plots.append(drawn("Against rounds", rounds_figure(first), "attack-rounds", words, words, pdf=True))
    if len({one.size for one in leaks}) > 1:
        words = "What fewer records of the client tell of each."
        plots.append(drawn("Against records", sizes_figure(leaks), "attack-sizes", words, words, pdf=True))
    return Study(
        kind="Attack",
        title=first.method,
        lede=f"{WHO[first.asked.adversary, first.asked.seen]}. Client {first.asked.client} has {first.size} records, "
        f"each one of two of its class by a fair coin, in {first.runs} runs of the method’s own client and server.",
        stamp=stamp,
        headlines=headlines,
        warnings=tuple(warnings),
        quote=() if told is None else ("good", f"Proved of this view: {told.words}."),
        plots=tuple(plots),
        tables=tuple(leak_table(one, several=len(leaks) > 1) for one in leaks),
        notes=(
            "The adversary knows the method, its settings and seed, both candidates for each seat and all other "
            "clients’ records; not the coins, nor the noise. An attack gives a lower bound; a better "
            "one may find more.",
            "ε shown holds of any of the attacks, whatever the runs have in common (one-run audit). Intervals of rates "
            "are Clopper and Pearson’s, of areas two standard errors over the runs; they speak of these records.",
        ),
        command=command,
    )


def leak_table(leak: Leak, *, several: bool = False) -> Table:
    """A row for each attack."""
    rows = tuple(
        (
            NAMES.get(one.attack, one.attack),
            f"{one.auc:.3f} ± {1.96 * one.auc_error:.3f}",
            *map(rate_words, one.rates),
            f"≥ {one.epsilon:.2f}",
        )
        for one in leak.scores
    )
    head = ("attack", "AUC", "found at 0.1 % false alarms", "at 1 %", f"ε at δ = {numbers.delta(leak.delta)}")
    caption = f"What each attack found{f', {leak.size} records' if several else ''}"
    return Table(f"attack-{leak.size}" if several else "attack", caption, head, rows)


def shares_page(found: Sequence[Shares], command: str = "") -> Study:
    """What the page says of how well the shares of a client's classes were told."""
    first = found[0]
    largest = first.largest
    headlines = (
        Headline(
            "Told of the shares",
            numbers.percent(max(0.0, first.explained)),
            f"of their variance, ± {196 * first.explained_error:.1f} points; 0 is by chance",
        ),
        Headline(
            "Most frequent class named",
            numbers.percent(largest.value),
            f"{numbers.percent(largest.low)} to {numbers.percent(largest.high)}; by chance "
            f"{numbers.percent(largest.at)}",
        ),
    )
    return Study(
        kind="Attack",
        title=first.method,
        lede=f"{WHO['membership', first.asked.seen]}, and tells which shares of its {first.size} records are of each "
        f"class: these are drawn anew in each of {first.runs} runs.",
        headlines=headlines,
        warnings=(f"{first.runs} runs: intervals are wide",) if first.runs < _FEW else (),
        tables=(shares_table(found),),
        notes=(
            "A ridge regression on what is said of test records of each class, learned from half of the runs, tells "
            "those of the other half. Class counts that a method sends as they are (fedkd, fedgen) are not even read.",
            "No guarantee about records speaks of this: that a client has many records of a class is no secret of one.",
        ),
        command=command,
    )


def shares_table(found: Sequence[Shares]) -> Table:
    """A row for each size."""
    rows = tuple(
        (
            str(one.size),
            f"{100 * one.explained:.1f} % ± {196 * one.explained_error:.1f}",
            numbers.percent(one.error),
            numbers.percent(one.error_by_chance),
            rate_words(one.largest),
            numbers.percent(one.largest.at),
        )
        for one in found
    )
    head = ("records", "variance told", "error of a share", "by chance", "most frequent class named", "by chance ")
    return Table("shares", "How well the shares of classes were told", head, rows)


def rate_words(rate: Rate) -> str:
    """A rate with its interval."""
    return f"{numbers.percent(rate.value, 2)} ({100 * rate.low:.2f}–{100 * rate.high:.2f})"
