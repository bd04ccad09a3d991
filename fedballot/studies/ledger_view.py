"""A ledger as people read it: each line's cost, what was spent by then, what it means, what is left."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedballot.core import numbers
from fedballot.privacy import accounting
from fedballot.privacy.accounting import Cost, from_plain
from fedballot.privacy.guarantee import TRUSTED_AGGREGATOR, Guarantee, all_records
from fedballot.privacy.ledger import Account, Ledger, Spending
from fedballot.privacy.ledger.restore import Restoration
from fedballot.studies.budget import COUNTED

_NAMES = {
    "open": "opened",
    "charge": "charged",
    "release": "released",
    "budget": "limit",
    "data": "data",
    "backup": "copied",
    "opened": "sum opened",
    "heads": "given up",
}


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
    def delta(self) -> float:
        """Delta at which `spent` and the limit hold: more than the account's where a ledger was lost."""
        return self.guarantee.delta if self.guarantee else self.account.delta

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
            ("limit", f"ε = {numbers.epsilon(limit)} at δ = {numbers.delta(self.delta)}"),
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


def view(ledger: Ledger) -> LedgerView:
    """Read a ledger, verified line by line.

    Parameters
    ----------
    ledger : Ledger

    Raises
    ------
    DataError
        If it was cut or edited.
    """
    chain = ledger.read()
    account, spending = chain.account, Spending(chain.rule)
    repeatable: tuple[str, Cost] | None = None
    costs: list[Cost] = []
    entries, spent, seeded, versions, most = [], 0.0, 0, 0, 0
    for line in chain.lines:
        words, charge = "", line.get("costs")
        spending = spending.after(line)
        if line["kind"] in ("charge", "restored"):
            spent = spending.epsilon()
        if line["kind"] == "charge":
            charged = {part: from_plain(plain) for part, plain in line["costs"].items()}
            costs += charged.values()
            told = {part: cost_words(cost, account) for part, cost in charged.items()}
            words = "; ".join(f"{part}: {said}" if len(told) > 1 else said for part, said in told.items())
            if line.get("seeded"):
                seeded, words = seeded + 1, f"{words}; SEEDED, so not private"
            if len(charged) == 1 and all(cost.noisy for cost in charged.values()):
                repeatable = (line["request"], *charged.values())
        elif line["kind"] in ("open", "budget"):
            words = f"limit ε = {line['epsilon']:g}"
        elif line["kind"] == "data":
            versions += 1
            most = max(most, line["records_per_person"])
            words = ": ".join(filter(None, (f"{line['records']} records, {line['fingerprint']}", line["note"])))
        elif line["kind"] == "restored":
            words = f"what a lost ledger may have told: ε = {line['epsilon']:g} at δ = {numbers.delta(line['delta'])}"
        elif line["kind"] == "heads":
            words = f"{len(line['heads'])} more heads of the lost ledger"
        what = _NAMES.get(line["kind"], str(line["kind"]))
        entries.append(Entry(_clock(line["time"]), what, line.get("request", ""), words, charge, spent))
    again = None
    if repeatable is not None:
        one, counted = repeatable[1], COUNTED[account.accountant]
        again = accounting.largest_count(lambda n: spending.epsilon(one.times(n)) <= account.epsilon, counted)
    spans = (f" over {versions} versions of the data" if versions > 1 else "") + _lost_words(spending)
    if account.unit == "person" and most:
        spans += f" ({all_records(most)})"
    guarantee = None
    if costs or spending.lost:
        guarantee = _guarantee(account, spending, costs, spans, seeded, spent)
    last = repeatable[0] if repeatable else ""
    return LedgerView(account, tuple(entries), guarantee, last, again, chain.head)


def cost_words(cost: Cost, account: Account) -> str:
    """Return a cost in words, with its epsilon where it stood alone."""
    if not cost.noisy:
        return cost.words()
    alone = accounting.epsilon([cost], account.delta, account.accountant)
    return f"{cost.words()}: ε = {epsilon_words(alone)} by itself"


def _lost_words(spending: Spending) -> str:
    lost = len(spending.lost)
    return f" and all that {lost} lost {'ledger' if lost == 1 else 'ledgers'} may have told" if lost else ""


def restoration_words(plan: Restoration) -> list[str]:
    """What a restoration means, sentence by sentence."""
    ledger = Ledger(plan.backup)
    if plan.lost is None:
        return [
            f"{ledger.path} was restored and charged nothing since: {len(plan.heads)} heads of the same lost "
            "ledger are noted as missing for good."
        ]
    limit, delta = numbers.epsilon(plan.lost.epsilon), numbers.delta(plan.lost.delta)
    if plan.covers:
        counted = "The lost ledger held all that is in this backup, so nothing counts twice."
    else:
        counted = (
            "Whether the lost ledger held the charges that stand here is not known, so they count beside it "
            "(a copy that `fedballot ledger backup` made, unused since, would say so)."
        )
    return [
        f"What was released and is not in {plan.backup} cannot be known, only bounded: the lost ledger kept to its "
        f"limit, which counts as spent in full, ε = {limit} at δ = {delta}.",
        counted,
        f"If its limit was ever above ε = {limit}, say so with --limit; and --delta, if it was restored itself.",
        "From then on nothing more is released until the limit is raised on purpose; epsilons and deltas add up.",
        *([f"Missing for good from then on: {len(plan.heads)} heads."] if plan.heads else []),
    ]


def _guarantee(
    account: Account, spending: Spending, costs: Sequence[Cost], spans: str, seeded: int, spent: float
) -> Guarantee:
    """The statement that holds for every charge: towards whoever sees what is published.

    Where whoever asks has seen earlier answers, what is spent so far was itself decided by them: the promise is the
    limit, which was not.
    """
    charged = "1 charge" if len(costs) == 1 else f"{len(costs)} charges"
    limit = spent if len(costs) == 1 and not spending.lost else max(spent, account.epsilon)
    noise = f"with seeded noise in {seeded} of them" if seeded else "whose noise was secret"
    sampled = not spending.lost and not any(cost.noisy for cost in costs)
    return Guarantee(
        mechanism="everything charged to this ledger",
        unit=account.unit,
        adjacency=account.adjacency,
        epsilon=limit,
        delta=spending.delta,
        view="output only",
        trust=TRUSTED_AGGREGATOR,
        status="seeded" if seeded else "proved",
        accountant=account.accountant,
        composition=f"{charged} to the ledger of {account.client}{spans}, {noise}; whatever was asked, they stay "
        "within its limit",
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
