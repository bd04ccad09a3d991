"""A ledger as people read it: each line's cost, what was spent by then, what it means, what is left."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedballot.planning import COUNTED, times_left
from fedballot.privacy import accounting
from fedballot.privacy.costs import (
    CohortCost,
    Cost,
    DeltaCost,
    GaussianCost,
    IntegerCost,
    LaplaceCost,
    PoissonCost,
    PureCost,
    from_plain,
)
from fedballot.privacy.guarantee import TRUSTED_AGGREGATOR, Guarantee
from fedballot.privacy.ledger import Account, Ledger
from fedballot.progress import Progress
from fedballot.report import numbers

_NAMES = {"open": "opened", "charge": "charged", "release": "released", "budget": "limit"}


@dataclass(frozen=True)
class Entry:
    """One line.

    Parameters
    ----------
    time, what, request, cost : str
        In words; empty where a line has none.
    charge : dict or None
        The cost as recorded.
    spent : float
        Epsilon of all charges up to here, at the ledger's delta; may be infinite.
    """

    time: str
    what: str
    request: str
    cost: str
    charge: Mapping[str, Any] | None
    spent: float


@dataclass(frozen=True)
class LedgerView:
    """A whole ledger.

    Parameters
    ----------
    account : Account
    entries : tuple of Entry
    guarantee : Guarantee or None
        What all charges together mean; None while there is none.
    last : str
        Request of the newest charge that could be made again.
    again : int or None
        How often that still fits, counted up to `planning.COUNTED`; None without such a charge.
    head : str
    """

    account: Account
    entries: tuple[Entry, ...]
    guarantee: Guarantee | None
    last: str
    again: int | None
    head: str

    @property
    def spent(self) -> float:
        """Epsilon of all charges."""
        return self.entries[-1].spent

    def summary(self) -> list[tuple[str, str]]:
        """Return what stands below the lines, as (name, words)."""
        limit, spent = self.account.epsilon, self.spent
        rows = [
            ("population", self.account.population),
            ("protects", f"one {self.account.unit} ({self.account.adjacency})"),
            ("limit", f"ε = {numbers.epsilon(limit)} at δ = {numbers.delta(self.account.delta)}"),
            ("spent", f"ε = {epsilon_words(spent)}" if self.guarantee else "nothing"),
        ]
        if self.again is None:
            rows.append(("left", f"ε = {_down(limit - spent)}" if spent <= limit else "nothing"))
        else:
            most = COUNTED[self.account.accountant]
            more = {0: "no more releases", 1: "one more release", most: f"at least {most:,} more releases"}
            rows.append(("left", f"{more.get(self.again, f'{self.again} more releases')} like {self.last!r}"))
        if self.guarantee is not None:
            rows.append(("in words", self.guarantee.sentence()))
            rows += [("warning", words) for words in self.guarantee.warnings()]
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; an infinite epsilon becomes None."""
        entries = [{**asdict(entry), "spent": _finite(entry.spent)} for entry in self.entries]
        return {
            "account": asdict(self.account),
            "entries": entries,
            "spent": _finite(self.spent),
            "fits_again": self.again,
            "guarantee": self.guarantee.worded() if self.guarantee else None,
            "head": self.head,
        }


def view(ledger: Ledger, progress: Progress) -> LedgerView:
    """Read a ledger, verified line by line.

    Parameters
    ----------
    ledger : Ledger
    progress : Progress
        Told of each line: with the accountant "pld" one takes about a second.

    Raises
    ------
    DataError
        If it was cut or edited.
    """
    account, lines = ledger.account, ledger.lines()
    costs: list[Cost] = []
    repeatable: tuple[str, Cost] | None = None
    entries, spent, seeded = [], 0.0, 0
    progress.start("ledger lines", len(lines))
    for line in lines:
        words, charge = "", line.get("costs")
        if line["kind"] == "charge":
            charged = {part: from_plain(plain) for part, plain in line["costs"].items()}
            costs += charged.values()
            spent = accounting.epsilon(costs, account.delta, account.accountant)
            told = {part: cost_words(cost, account) for part, cost in charged.items()}
            words = "; ".join(f"{part}: {said}" if len(told) > 1 else said for part, said in told.items())
            if line.get("seeded"):
                seeded, words = seeded + 1, f"{words}; SEEDED, so not private"
            if len(charged) == 1 and not any(isinstance(cost, DeltaCost) for cost in charged.values()):
                repeatable = (line["request"], *charged.values())
        elif line["kind"] in ("open", "budget"):
            words = f"limit ε = {line['epsilon']:g}"
        what = _NAMES.get(line["kind"], line["kind"])
        entries.append(Entry(_clock(line["time"]), what, line.get("request", ""), words, charge, spent))
        progress.advance(1)
    progress.stop()
    again = None
    if repeatable is not None:
        again = times_left(costs, repeatable[1], account.epsilon, account.delta, account.accountant)
    guarantee = None if not costs else _guarantee(account, costs, seeded, spent)
    last = repeatable[0] if repeatable else ""
    return LedgerView(account, tuple(entries), guarantee, last, again, lines[-1]["hash"])


def cost_words(cost: Cost, account: Account) -> str:
    """Return a cost in words, with its epsilon where it stood alone."""
    match cost:
        case DeltaCost(delta=delta):
            return f"a sample of the records: δ = {numbers.delta(delta)}, once"
        case GaussianCost(count=count) | LaplaceCost(count=count) | PureCost(count=count):
            name = {GaussianCost: "Gaussian noise", LaplaceCost: "Laplace noise", PureCost: "pure privacy"}[type(cost)]
            many = f", {count} times" if count > 1 else ""
        case IntegerCost(shares=shares):
            name, many = "integer Gaussian noise", f" of {shares} shares" if shares > 1 else ""
        case PoissonCost(steps=steps) | CohortCost(steps=steps):
            name, many = "noisy sums of random cohorts", f", {steps} steps"
    alone = accounting.epsilon([cost], account.delta, account.accountant)
    return f"{name}{many}: ε = {epsilon_words(alone)} by itself"


def _guarantee(account: Account, costs: Sequence[Cost], seeded: int, spent: float) -> Guarantee:
    """The statement that holds for every charge: towards whoever sees what is published."""
    charged = "1 charge" if len(costs) == 1 else f"{len(costs)} charges"
    noise = f"with seeded noise in {seeded} of them" if seeded else "whose noise was secret"
    sampled = all(isinstance(cost, DeltaCost) for cost in costs)
    return Guarantee(
        mechanism="everything charged to this ledger",
        unit=account.unit,
        adjacency=account.adjacency,
        epsilon=spent,
        delta=account.delta,
        view="output only",
        trust=TRUSTED_AGGREGATOR,
        status="seeded" if seeded else "proved",
        accountant=account.accountant,
        composition=f"{charged} to the ledger of {account.party}, {noise}",
        sampled=sampled and account.unit == "record",
    )


def _clock(time: str) -> str:
    return time[:19].replace("T", " ")


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value


def epsilon_words(value: float) -> str:
    """Return epsilon rounded up, ∞ where there is no protection."""
    return numbers.epsilon(_finite(value))


def _down(value: float) -> str:
    """A remainder, rounded down."""
    return f"{math.floor(value * 1000) / 1000:.3f}"
