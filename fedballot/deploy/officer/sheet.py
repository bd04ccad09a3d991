"""The rows of an evaluation sheet, along the blocks of the differential privacy pyramid of NIST SP 800-226.

What a row says is computed from the guarantee, the run or the site; nothing is taken for granted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR
from typing import Any, Literal

from fedballot.core import numbers
from fedballot.deploy.officer import evidence
from fedballot.privacy.words import capital, holds, rounded, tone, up

Finding = Literal["backed", "limited", "open", "missing"]
TONES: Mapping[Finding, str] = {"backed": "good", "limited": "warn", "open": "warn", "missing": "bad"}
TOP, MIDDLE, BOTTOM = "Strength of the guarantee", "Algorithms", "Deployment"
_OF_TONE: Mapping[str, Finding] = {"good": "backed", "warn": "limited", "bad": "missing"}

_BOUNDED = {
    "add-remove": "Unbounded: a unit is there or not.",
    "replace-one": "Bounded: a unit is the true one or any other. How many there are is not hidden.",
    "zero-out": "Neither: a unit takes part either way, with its noise, and its answers are counted or left blank. "
    "That it takes part is not hidden.",
}
_ONE = {
    "client": "All data that one client holds count as one unit.",
    "person": "All records of one person at a site count as one unit",
    "record": "Each single record is a unit by itself. Whoever has several is protected less, by no stated bound.",
}


@dataclass(frozen=True)
class Row:
    """One statement.

    Attributes
    ----------
    level, heading : a row of the pyramid, and what of it is looked at.
    statement : what is so, in words.
    finding : ``backed`` by what is named, ``limited`` (holds, with a bound that matters), ``open`` (nobody has looked,
        or it is not covered), ``missing`` (does not hold).
    evidence : paths in fedballot's repository, or files of the pack.
    """

    level: str
    heading: str
    statement: str
    finding: Finding
    evidence: Sequence[str] = ()

    @property
    def tone(self) -> str:
        """The colour of the finding on a page."""
        return TONES[self.finding]


def levels(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """The rows of each row of the pyramid, from the top."""
    return [(level, [row for row in rows if row.level == level]) for level in (TOP, MIDDLE, BOTTOM)]


def strength(guarantees: Sequence[Mapping[str, Any]], records_per_person: int = 0) -> list[Row]:
    """The top of the pyramid: parameters and unit, of guarantees as a result holds them."""
    if not guarantees:
        return [Row(TOP, "Privacy parameters ε and δ", "No mechanism was applied; nothing is guaranteed.", "missing")]
    rows, held = [_parameters(one) for one in guarantees], [one for one in guarantees if holds(one)]
    if not held:
        return [
            *rows,
            Row(TOP, "Unit of privacy", "Nobody is protected: no guarantee holds.", "missing", evidence.WORDS),
        ]
    for unit, adjacency in dict.fromkeys((one["unit"], one["adjacency"]) for one in held):
        bounded: Finding = "backed" if adjacency == "add-remove" else "limited"
        words = f"One {unit}. {_BOUNDED[adjacency]}"
        rows.append(Row(TOP, "Unit of privacy: bounded or unbounded", words, bounded, evidence.WORDS))
    for unit in dict.fromkeys(one["unit"] for one in held):
        size = f", at most {records_per_person} of them." if unit == "person" and records_per_person else ""
        backing = evidence.PERSONS if unit == "person" else evidence.WORDS
        of_one: Finding = "limited" if unit == "record" else "backed"
        rows.append(Row(TOP, "Unit of privacy: one person’s data", _ONE[unit] + size, of_one, backing))
    return rows


def _parameters(one: Mapping[str, Any]) -> Row:
    """ε and δ of a guarantee, and how δ compares with the number of units."""
    words, n, delta = str(one.get("sentence") or ""), one.get("n"), one["delta"]
    if holds(one):
        variant = "approximate" if delta else "pure"
        words = f"{capital(str(one['mechanism']))}: {variant} differential privacy. {words}"
    if holds(one) and delta and n:
        size = "below" if delta < 1 / n**2 else "not below"
        words += f" δ is {size} 1/n² = {up(1 / n**2)} for n = {numbers.count(n)} {one['unit']}s."
    return Row(
        TOP,
        "Privacy parameters ε and δ",
        " ".join([words, *(one.get("warnings") or ())]),
        _OF_TONE[tone(one)],
        evidence.WORDS,
    )


def correctness(methods: Sequence[str], guarantees: Sequence[Mapping[str, Any]], seeded: str = "") -> Row:
    """Whether the mechanisms do what their accounting takes them for."""
    heading = "Algorithms and correctness: mechanisms"
    unheld = [name for name in methods if name not in evidence.METHOD_TESTS]
    tests = sorted({path for name in methods for path in evidence.METHOD_TESTS.get(name, ())})
    names, held = ", ".join(methods) or "unknown methods", [one for one in guarantees if holds(one)]
    if not held:
        return Row(MIDDLE, heading, f"{names}: {seeded or 'no mechanism with secret noise was applied.'}", "missing")
    mechanisms = "; ".join(dict.fromkeys(str(one["mechanism"]) for one in held))
    if unheld or not methods:
        words = f"{mechanisms}. No test of fedballot’s is known for {', '.join(unheld) or names}: ask whoever wrote it."
        return Row(MIDDLE, heading, words, "open", tests)
    words = (
        f"{names}: {mechanisms}. The bound on what one unit changes, the noise, and what leaves a client are tested, "
    )
    words += "and so is that the tests notice faults."
    backing = [*tests, *evidence.LEAVES]
    if not any(str(one["status"]) == "proved" for one in held):
        return Row(MIDDLE, heading, f"{words} The guarantee is a paper’s claim, not derived here.", "limited", backing)
    return Row(MIDDLE, heading, words, "backed", backing)


def audit(report: Mapping[str, Any] | None, method: str, guarantees: Sequence[Mapping[str, Any]]) -> Row:
    """What an audit found, as ``fedballot audit --out`` writes it."""
    heading = "Auditing and empirical measures"
    if not any(map(holds, guarantees)):
        return Row(MIDDLE, heading, "There is no claim to be audited.", "missing")
    if report is None:
        words = f"No audit was given to this pack: fedballot audit {method} --out DIR, then --audit DIR."
        return Row(MIDDLE, heading, words, "open", evidence.AUDITS)
    figure = f"ε ≥ {rounded(report['lower_bound'], 3, ROUND_FLOOR)}"
    words = f"Attacks on {report['method']} showed {figure} (95 % confidence), where one release claims "
    words += f"ε = {report['claim']:g} at δ = {numbers.delta(report['delta'])}; {len(report['layers'])} layers. "
    if not report["passed"]:
        return Row(MIDDLE, heading, words + "The claim is contradicted.", "missing", ["audit.json", *evidence.AUDITS])
    words += "Nothing contradicts the claim. An audit can find a fault, never prove that there is none."
    return Row(MIDDLE, heading, words, "backed", ["audit.json", *evidence.AUDITS])


def noise(guarantees: Sequence[Mapping[str, Any]], *, ours: bool, seeded: bool) -> Row:
    """Randomness and floating point."""
    heading = "Side channels: randomness and floating point"
    if seeded:
        words = "The noise, or the sample, came from a known seed: whoever has it takes the noise off again."
        return Row(BOTTOM, heading, words, "missing", evidence.NOISE)
    if not any(map(holds, guarantees)):
        return Row(BOTTOM, heading, "There is no noise.", "missing")
    if not ours:
        return Row(BOTTOM, heading, "How a method of another package draws its noise is not known here.", "open")
    if all(one.get("sampled") for one in guarantees):
        words = "The sample was drawn from the operating system’s random bits; there is no noise."
    else:
        words = "Noise is whole numbers, drawn from the operating system’s random bits by arithmetic that rounds no "
        words += "probability; real values are rounded to a grid first, and the rounding is paid for."
    return Row(BOTTOM, heading, words, "backed", evidence.NOISE)


def uncovered() -> list[Row]:
    """What no run and no site can show."""
    timing = "Times are not sent, but whoever watches the network sees when answers come; more records train longer."
    return [Row(BOTTOM, "Side channels: timing, memory and traffic", timing, "open", evidence.NOT_COVERED)]
