"""Words for guarantees: their figures, and what one says at a glance that a result holds as plain values."""

import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context
from typing import Any, Literal

Tone = Literal["good", "warn", "bad"]

STRONG, WEAK = 1.0, 10.0  # epsilon up to which a guarantee is a strong one, and above which it excludes next to nothing
NOBODY = 1e-10  # delta up to which no number of people is too large
OFTEN = 0.1  # delta above which one in ten may lose everything, whatever epsilon is


def holds(guarantee: Mapping[str, Any]) -> bool:
    """Whether a guarantee, as a result holds it, protects anybody: finite, claimed at all, and with secret noise."""
    return guarantee["epsilon"] is not None and not str(guarantee["status"]).startswith(("seeded", "none"))


def subject(guarantee: Mapping[str, Any]) -> str:
    """The unit that a guarantee, as a result holds it, speaks of; where it is of some clients alone, of which."""
    some = f" of {guarantee['among']}" if guarantee.get("among") else ""
    return f"one {guarantee['unit']}{some}"


def whom(guarantee: Mapping[str, Any]) -> str:
    """Whom a guarantee, as a result holds it, protects, and between which worlds; or that it protects nobody."""
    return f"{subject(guarantee)} ({guarantee['adjacency']})" if holds(guarantee) else "nobody"


def meaning(guarantee: Mapping[str, Any]) -> str:
    """What an epsilon speaks of, from a guarantee as a result holds it: two of one meaning can be ranked by it."""
    parts = f"seen: {guarantee['view']}, trust: {guarantee['trust']}; {guarantee['status']}"
    return f"one {guarantee['unit']} ({guarantee['adjacency']}), {parts}"


def tone(guarantee: Mapping[str, Any]) -> Tone:
    """How a guarantee, as a result holds it, is to be taken at a glance: the colour of pages and of the terminal.

    Parameters
    ----------
    guarantee : mapping
        As `Guarantee.to_dict` gives it; epsilon, delta and n may be None.

    Returns
    -------
    {"good", "warn", "bad"}
        "good": proved, epsilon <= 1, and delta < 1/n (n known). "bad": nothing is guaranteed, the noise was seeded,
        epsilon > 10 (a factor of 22,000), or delta > 0.1. "warn": anything between.
    """
    epsilon, delta = guarantee["epsilon"], guarantee["delta"] or 0.0
    if not holds(guarantee) or epsilon > WEAK or delta > OFTEN:
        return "bad"
    n = guarantee.get("n")
    fits = delta <= NOBODY if n is None else delta < 1 / n
    return "good" if str(guarantee["status"]).startswith("proved") and epsilon <= STRONG and fits else "warn"


def adjacency_note(guarantees: Sequence[Mapping[str, Any]]) -> str:
    """Why a record's epsilon is above its client's, for readers of guarantees that stand side by side; else nothing.

    Parameters
    ----------
    guarantees : sequence of mapping
        As `Guarantee.to_dict` gives them.
    """
    stated = [one for one in guarantees if one["epsilon"] is not None and one["status"] != "none"]
    for record in stated:
        for client in stated:
            alike = all(record[key] == client[key] for key in ("view", "trust", "status", "delta"))
            units = (record["unit"], client["unit"]) == ("record", "client")
            worlds = (record["adjacency"], client["adjacency"]) == ("replace-one", "zero-out")
            if alike and units and worlds and record["epsilon"] > client["epsilon"]:
                return (
                    "The epsilon of a record is above that of a client since they compare other worlds, not since a "
                    "record is less private than all of its client's data: a client's answers are counted or left "
                    "blank (zero-out), a record is the true one or any other (replace-one), and to replace is to blank "
                    "one and put in another. A client that is replaced has an epsilon at least as large as a record's."
                )
    return ""


def capital(text: str) -> str:
    """Return a text that begins with a capital."""
    return text[:1].upper() + text[1:]


def up(value: float, digits: int = 3) -> str:
    """Return so many significant digits, rounded up; what a solver missed by a billionth is not another figure."""
    return rounded(value * (1 - 1e-9), digits)


def rounded(value: float, digits: int, rounding: str = ROUND_CEILING) -> str:
    """Return so many significant digits, with commas between thousands."""
    figure = float(Context(prec=digits, rounding=rounding).create_decimal(repr(value)))
    return f"{figure:,.0f}" if 1000 <= figure < 1e9 else f"{figure:.{digits}g}"


def factor(epsilon: float) -> str:
    """Return e^epsilon, as a number as long as that is one."""
    return up(math.exp(epsilon)) if epsilon < 700 else f"e^{up(epsilon, 4).replace(',', '')}"
