"""The page of a frontier: accuracy against epsilon, and the table of what was asked, given and reached."""

from collections.abc import Mapping, Sequence

from fedballot.core import numbers
from fedballot.report.frontier_plot import fell_short, frontier_figure, given
from fedballot.report.plot import drawn
from fedballot.report.study import SEEDED, Study
from fedballot.report.sweep_page import accuracy_words
from fedballot.report.tables import Table
from fedballot.report.view import Headline
from fedballot.studies.frontier import Spot

SHORT = (
    "Less ε was given than asked: noise has a smallest size, for each client adds an integer share of it, and below σ "
    "= 2 shares do not add up as accounted. What is left of the ε can pay for more: ask more queries, or more votes"
)


def frontier_page(spots: Sequence[Spot], units: Mapping[str, str], trials: int, command: str = "") -> Study:
    """What the page says.

    Parameters
    ----------
    spots : sequence of Spot
    units : mapping
        Of each private method, what its epsilon speaks of.
    trials : int
        Runs of each search.
    command : str
        What does it again.
    """
    private = [spot for spot in spots if spot.epsilon is not None and spot.measured.accuracy is not None]
    asked = sorted({spot.epsilon for spot in private if spot.epsilon is not None})
    figure = frontier_figure(spots, units, white=False)
    words = "Each point stands at the ε that its runs have."
    plots = (
        []
        if figure is None
        else [drawn("Accuracy against ε", figure, "frontier", "Accuracy of each method against ε.", words, pdf=True)]
    )
    warnings = [f"{len(bad)} runs failed, the first: {bad[0]}"] if (bad := _failed(spots)) else []
    if len({units.get(spot.method) for spot in private}) > 1:
        warnings.append("the ε of these methods speak of different things; rank by ε only where the words agree")
    if short := [spot for spot in private if fell_short(spot)]:
        named = ", ".join(f"{one.method} (asked {one.epsilon:g}, given {numbers.epsilon(given(one))})" for one in short)
        warnings.append(f"{SHORT}. So of {named}")
    budgets = ", ".join(f"{one:g}" for one in asked)
    methods = ", ".join(dict.fromkeys(one.method for one in private))
    search = f", each the best of {trials} trials," if trials > 1 else ""
    return Study(
        kind="Frontier",
        title="Accuracy against ε",
        lede=f"{methods} at ε = {budgets}{search} measured over other seeds.",
        stamp=SEEDED if any("seeded" in words for words in units.values()) else (),
        headlines=_best(spots, asked),
        warnings=tuple(warnings),
        plots=tuple(plots),
        tables=(frontier_table(spots), _units(units)),
        notes=(
            "Trials run with one seed and the best of them is measured with others, so that the luck of the search is "
            "not in the figure. The search itself looks at test records and is charged to nobody: a real federation "
            "would pay for each trial.",
        ),
        command=command,
    )


def frontier_table(spots: Sequence[Spot]) -> Table:
    """A row for each method and epsilon."""
    rows = tuple(
        (
            spot.method,
            _asked(spot),
            _asked(spot) if spot.epsilon is None else numbers.epsilon(given(spot)),
            accuracy_words(spot.measured),
            str(spot.measured.seeds),
            ", ".join(f"{key}={value}" for key, value in spot.chosen.items()) or "the preset’s",
        )
        for spot in spots
    )
    return Table(
        "frontier", "What was reached", ("method", "ε asked", "ε given", "accuracy", "runs", "chosen"), rows, (0, 5)
    )


def _asked(spot: Spot) -> str:
    """The epsilon that was asked: ∞ of a private method without noise, a dash where the method has none."""
    if spot.epsilon is None:
        return "∞" if "epsilon" in spot.measured.values else "–"
    return f"{spot.epsilon:g}"


def _units(units: Mapping[str, str]) -> Table:
    return Table("units", "What each ε speaks of", ("method", "protects"), tuple(units.items()), texts=(0, 1))


def _failed(spots: Sequence[Spot]) -> list[str]:
    return [reason for spot in spots for reason in spot.measured.failed]


def _best(spots: Sequence[Spot], asked: Sequence[float]) -> tuple[Headline, ...]:
    """The best method at each of the first and last epsilon, and the ceiling."""
    found = []
    for aim in dict.fromkeys((*asked[:1], *asked[-1:])):
        best = max((one for one in spots if one.epsilon == aim), key=lambda one: one.measured.accuracy or 0.0)
        found.append(Headline(f"Best at ε = {aim:g}", numbers.percent(best.measured.accuracy), best.method))
    for spot in spots:
        if spot.epsilon is None and spot.measured.accuracy is not None:
            found.append(Headline("Without privacy", numbers.percent(spot.measured.accuracy), spot.method))
    return tuple(found)
