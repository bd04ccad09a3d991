"""A ledger as people read it: each line's cost, what was spent by then, what it means, what is left."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedballot.core import numbers
from fedballot.privacy import accounting
from fedballot.privacy.accounting import Cost
from fedballot.privacy.guarantee import TRUSTED_AGGREGATOR, Guarantee, all_records
from fedballot.privacy.ledger import Account, Chain, Ledger, Line, Spending
from fedballot.privacy.ledger.restore import Restoration
from fedballot.privacy.ledger.spending import costs_of
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
        How often that still fits, counted up to `budget.COUNTED`; None without such a charge.
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
    account, spending, spent = chain.account, Spending(chain.rule), 0.0
    entries = []
    for line in chain.lines:
        kind, spending = str(line["kind"]), spending.after(line)
        if kind in ("charge", "restored"):
            spent = spending.epsilon()
        words = _WORDS[kind](line, account) if kind in _WORDS else ""
        what, request = _NAMES.get(kind, kind), line.get("request", "")
        entries.append(Entry(_clock(line["time"]), what, request, words, line.get("costs"), spent))
    charges = [line for line in chain.lines if line["kind"] == "charge"]
    last, again = _again(chain, charges)
    guarantee = _guarantee(chain, charges, spent) if charges or spending.lost else None
    return LedgerView(account, tuple(entries), guarantee, last, again, chain.head)


def _again(chain: Chain, charges: Sequence[Line]) -> tuple[str, int | None]:
    """The newest charge that could be made again, and how often that still fits."""
    spending, account = chain.spending, chain.account

    def count(cost: Cost) -> int:
        most = COUNTED[account.accountant]
        return accounting.largest_count(lambda n: spending.epsilon(cost.times(n)) <= account.epsilon, most)

    for line in reversed(charges):
        costs = [*costs_of(line).values()]
        if len(costs) == 1 and costs[0].noisy:
            return str(line["request"]), count(costs[0])
    return "", None


def _charge_words(line: Line, account: Account) -> str:
    by_part = {part: cost_words(cost, account) for part, cost in costs_of(line).items()}
    words = "; ".join(f"{part}: {text}" if len(by_part) > 1 else text for part, text in by_part.items())
    return f"{words}; SEEDED, so not private" if line.get("seeded") else words


def _limit_words(line: Line, account: Account) -> str:
    return f"limit ε = {line['epsilon']:g}"


def _data_words(line: Line, account: Account) -> str:
    return ": ".join(filter(None, (f"{line['records']} records, {line['fingerprint']}", line["note"])))


def _restored_words(line: Line, account: Account) -> str:
    return f"what a lost ledger may have told: ε = {line['epsilon']:g} at δ = {numbers.delta(line['delta'])}"


def _heads_words(line: Line, account: Account) -> str:
    return f"{len(line['heads'])} more heads of the lost ledger"


_WORDS: dict[str, Callable[[Line, Account], str]] = {
    "open": _limit_words,
    "charge": _charge_words,
    "budget": _limit_words,
    "data": _data_words,
    "restored": _restored_words,
    "heads": _heads_words,
}


def cost_words(cost: Cost, account: Account) -> str:
    """Return a cost in words, with its epsilon where it stood alone."""
    if not cost.noisy:
        return cost.words()
    alone = accounting.epsilon([cost], account.delta, account.accountant)
    return f"{cost.words()}: ε = {epsilon_words(alone)} by itself"


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


def _guarantee(chain: Chain, charges: Sequence[Line], spent: float) -> Guarantee:
    """The statement that holds for every charge: towards whoever sees what is published.

    Where whoever asks has seen earlier answers, what is spent so far was itself decided by them: the promise is the
    limit, which was not.
    """
    account, spending, costs = chain.account, chain.spending, chain.costs
    lost, seeded = len(spending.lost), sum(bool(line.get("seeded")) for line in charges)
    versions = [line for line in chain.lines if line["kind"] == "data"]
    most = max((line["records_per_person"] for line in versions), default=0)
    counted = "1 charge" if len(costs) == 1 else f"{len(costs)} charges"
    counted += f" to the ledger of {account.client}"
    if len(versions) > 1:
        counted += f" over {len(versions)} versions of the data"
    if lost:
        counted += f" and all that {lost} lost {'ledger' if lost == 1 else 'ledgers'} may have told"
    if account.unit == "person" and most:
        counted += f" ({all_records(most)})"
    noise = f"with seeded noise in {seeded} of them" if seeded else "whose noise was secret"
    return Guarantee(
        mechanism="everything charged to this ledger",
        unit=account.unit,
        adjacency=account.adjacency,
        epsilon=spent if len(costs) == 1 and not lost else max(spent, account.epsilon),
        delta=spending.delta,
        view="output only",
        trust=TRUSTED_AGGREGATOR,
        status="seeded" if seeded else "proved",
        accountant=account.accountant,
        composition=f"{counted}, {noise}; whatever was asked, they stay within its limit",
        sampled=account.unit == "record" and not lost and not any(cost.noisy for cost in costs),
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
