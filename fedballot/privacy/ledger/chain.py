"""A ledger's lines as a value: what they say about its account, what was spent, and whether a request is admitted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, reduce
from pathlib import Path

from fedballot.privacy.accounting import Cost, Filter, to_plain
from fedballot.privacy.ledger.account import Account, BudgetError, Costs, RequestError, Version
from fedballot.privacy.ledger.lines import Line, make_line, parse, write_line
from fedballot.privacy.ledger.spending import Spending, costs_of

_LIMITS = ("open", "budget", "restored")  # kinds of lines that tell an epsilon


@dataclass(frozen=True, eq=False)
class Chain:
    """All lines of a ledger, verified. It never changes: a further line makes another chain.

    Parameters
    ----------
    path : Path
        Of the file, for messages.
    content : bytes
        Of the file.
    lines : tuple of mapping
    """

    path: Path
    content: bytes = b""
    lines: tuple[Line, ...] = ()

    @classmethod
    def verified(cls, path: Path, content: bytes) -> Chain:
        """Return the chain in a file's content.

        Raises
        ------
        DataError
            As :func:`parse`.
        """
        return cls(path, content, parse(path, content))

    def followed_by(self, body: Line) -> Chain:
        """Return the chain with a further line."""
        line = make_line(self.lines[-1] if self.lines else None, body)
        return Chain(self.path, self.content + write_line(line), (*self.lines, line))

    # what it is about

    @cached_property
    def account(self) -> Account:
        """What the ledger is about, with its present budget."""
        values = {field.name: self.lines[0][field.name] for field in fields(Account)}
        for line in self._of("budget"):
            values["epsilon"] = line["epsilon"]
        return Account(**values)

    @property
    def version(self) -> Version | None:
        """Which version of the data the charges from now on are about, or None: none was registered."""
        last = next(self._of("data", newest_first=True), None)
        return Version(**{field.name: last[field.name] for field in fields(Version)}) if last else None

    # what was spent

    @property
    def rule(self) -> Filter:
        """The rule by which costs add up, fixed by the budget that the ledger was opened with."""
        return Filter(self.lines[0]["epsilon"], self.lines[0]["delta"], self.lines[0]["accountant"])

    @cached_property
    def spending(self) -> Spending:
        """All that was spent: charges, and what a ledger that is gone may have let out."""
        return reduce(Spending.after, self.lines, Spending(self.rule))

    @property
    def costs(self) -> list[Cost]:
        """Everything that was charged."""
        return [cost for line in self._of("charge") for cost in costs_of(line).values()]

    @property
    def highest_limit(self) -> float:
        """The highest limit that the ledger ever had."""
        return max(float(line["epsilon"]) for line in self._of(*_LIMITS))

    # heads and losses

    @property
    def head(self) -> str:
        """Hash of the last line: whoever knows it can tell whether the ledger was cut or rewritten."""
        return str(self.lines[-1]["hash"])

    @property
    def heads(self) -> set[str]:
        """Hashes of all lines, and of those that were given up as lost."""
        lost = [head for line in self._of("restored", "heads") for head in line["heads"]]
        return {*(str(line["hash"]) for line in self.lines), *lost}

    @property
    def just_restored(self) -> bool:
        """Whether a loss was noted and nothing was charged since."""
        last = next(self._of("restored", "charge", "opened", newest_first=True), None)
        return last is not None and last["kind"] == "restored"

    @property
    def raised_since_restored(self) -> bool:
        """Whether a limit was set after the last loss that was noted; also true where there was none."""
        return str(next(self._of(*_LIMITS, newest_first=True))["kind"]) != "restored"

    # requests

    @cached_property
    def requests(self) -> frozenset[str]:
        """All requests that were charged."""
        return frozenset(line["request"] for line in self._of("charge"))

    def digest(self, request: str) -> str | None:
        """Return what a request is bound to, or None: it was never asked."""
        line = self._about(request, "request", "charge")
        return str(line["digest"]) if line else None

    def charge(self, request: str) -> dict[str, Cost] | None:
        """Return what each part of a request's answer was charged, or None: nothing was."""
        line = self._about(request, "charge")
        return costs_of(line) if line else None

    def sha256(self, request: str) -> str | None:
        """Return the digest of the release that answers a request already, or None."""
        line = self._about(request, "release")
        return str(line["sha256"]) if line else None

    def session(self, request: str) -> str | None:
        """Return the session in which this client helped to open the sum of a request, or None."""
        line = self._about(request, "opened")
        return str(line["session"]) if line else None

    def restored_since(self, request: str) -> bool:
        """Return whether lines may have been lost since a request was asked for the first time."""
        numbers = [number for number, line in enumerate(self.lines) if line.get("request") == request]
        return bool(numbers) and any(line["kind"] == "restored" for line in self.lines[numbers[0] :])

    def require_digest(self, request: str, digest: str) -> None:
        """Refuse a request that is bound to another digest.

        Raises
        ------
        RequestError
        """
        before = self.digest(request)
        if before is not None and before != digest:
            raise RequestError(
                f"{self.path}: request {request!r} was asked before as {before}, now as {digest}; another question "
                "needs another request."
            )

    def admit(self, request: str, costs: Costs, digest: str) -> None:
        """Refuse a charge that the ledger must not make; one that it has made before is fine.

        Raises
        ------
        BudgetError, RequestError
            As :meth:`Ledger.release`.
        """
        self.require_digest(request, digest)
        charge = self.charge(request)
        if charge is None:
            self._require_budget(request, [*costs.values()])
        elif charge != dict(costs):
            raise RequestError(
                f"{self.path}: request {request!r} was charged as {_plain(charge)}, not as {_plain(costs)}; another "
                "question needs another request."
            )

    def _require_budget(self, request: str, costs: Sequence[Cost]) -> None:
        spending, limit = self.spending, self.account.epsilon
        after = spending.epsilon(*costs)
        waits = spending.lost and not self.raised_since_restored
        if waits or not after <= limit:
            rest = " It was restored, and waits for a limit that is raised on purpose." if waits else ""
            raise BudgetError(
                f"{self.path}: request {request!r} would bring epsilon from {spending.epsilon():.6g} to {after:.6g} at "
                f"delta = {spending.delta:g}; the budget is {limit:g}. Nothing was released.{rest}"
            )

    def _of(self, *kinds: str, newest_first: bool = False) -> Iterator[Line]:
        lines = reversed(self.lines) if newest_first else iter(self.lines)
        return (line for line in lines if line["kind"] in kinds)

    def _about(self, request: str, *kinds: str) -> Line | None:
        return next((line for line in self._of(*kinds) if line["request"] == request), None)


def _plain(costs: Costs) -> dict[str, object]:
    return {part: to_plain(cost) for part, cost in costs.items()}
