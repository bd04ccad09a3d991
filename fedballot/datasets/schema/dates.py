"""Which form a column's dates have, where all its cells together leave no doubt; nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_DATE = re.compile(r"(\d{1,4})([./-])(\d{1,2})\2(\d{4}|\d{1,2})(?:(,? |T)(\d{1,2}:\d{2}(:\d{2})?)( ?[AaPp][Mm])?)?")
_NAMED = re.compile(r"(\d{1,2}\.?[ -][A-Za-z]{3,9}[ -]\d{4})|([A-Za-z]{3,9} \d{1,2}, \d{4})")
_NAMED_FORMS = ("%d %b %Y", "%d-%b-%Y", "%d %B %Y", "%d. %B %Y", "%d. %b %Y", "%d-%B-%Y", "%b %d, %Y", "%B %d, %Y")
_AS_NUMBER = re.compile(r"(19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
PERHAPS = "perhaps"  # how a reason begins that may be none: 1.10.20 is a version, too
_SCHEMA = 'in the schema write kind = "date" and format = {}'


def date_form(words: Iterable[str]) -> tuple[str, str]:
    """How the dates are written, as `strftime` says it; or why that cannot be told. Both empty: no dates.

    Examples
    --------
    >>> date_form(["31.12.2020", "1.2.2021"])
    ('%d.%m.%Y', '')
    >>> date_form(["01/02/2020", "03/04/2021"])[1][:50]
    "dates whose day and month cannot be told apart ('0"
    """
    some = set(words)
    if not any(form.fullmatch(word) for word in [*some][:1] for form in (_DATE, _NAMED)):
        return "", ""  # most columns of words, quickly
    different = sorted(some)
    matches = [_DATE.fullmatch(word) for word in different]
    if not all(matches):
        return _named(different), ""
    parts = [match.groups() for match in matches if match]
    first, second, third = ([part[place] for part in parts] for place in (0, 2, 3))
    forms = {part[1] + _time(part[4:]) for part in parts}
    year_first, year_last = ({len(number) == 4 for number in numbers} for numbers in (first, third))
    if len(forms) > 1 or len(year_first) > 1 or (year_first == {False} and len(year_last) > 1):
        return "", f"dates in several forms ({different[0]!r}, {different[-1]!r}): write them alike in the file"
    sign, time = parts[0][1], _time(parts[0][4:])
    days, months = (
        max(map(int, numbers)) for numbers in ((second, third) if year_first == {True} else (first, second))
    )
    if year_first == {True}:
        order = _checked(different, f"%Y{sign}%m{sign}%d{time}") if days <= 12 and months <= 31 else ""
        return order, "" if order else f"dates, of which one does not exist ({different[0]!r} and the like)"
    if max(days, months) > 31 or (year_last == {False} and {*map(len, third)} != {2}):
        return "", ""
    year = "%Y" if year_last == {True} else "%y"
    orders = {"day": f"%d{sign}%m{sign}{year}{time}", "month": f"%m{sign}%d{sign}{year}{time}"}
    both = " or ".join(f'"{order}"' for order in orders.values())
    if year == "%y":
        return "", f"{PERHAPS} dates with years of two digits ({different[0]!r}): {_SCHEMA.format(both)}"
    if days <= 12 and months <= 12:
        why = f"dates whose day and month cannot be told apart ({different[0]!r}): {_SCHEMA.format(both)}"
        return "", why
    if days > 12 and months > 12:
        return "", f"dates, some with the day first and some with the month ({different[0]!r}): write them alike"
    order = _checked(different, orders["day" if days > 12 else "month"])
    return order, "" if order else f"dates, of which one does not exist: {_SCHEMA.format(both)}, and mend the file"


def are_numbers_of_dates(words: Iterable[str]) -> bool:
    """Whether all these words are dates as YYYYMMDD, which are numbers, too."""
    different = set(words)
    return bool(different) and all(_AS_NUMBER.fullmatch(word) for word in different)


def _time(parts: Sequence[str | None]) -> str:
    between, clock, seconds, half = parts
    if not clock:
        return ""
    hours = "%I:%M" if half else "%H:%M"
    return f"{between}{hours}{':%S' if seconds else ''}{' %p' if half and half[0] == ' ' else '%p' if half else ''}"


def _named(words: Sequence[str]) -> str:
    """The form of dates with the month's English name."""
    if not words or not all(_NAMED.fullmatch(word) for word in words):
        return ""
    return next((form for form in _NAMED_FORMS if _checked(words, form)), "")


def _checked(words: Sequence[str], form: str) -> str:
    """The form, if all words are dates in it."""
    import pandas as pd

    times = pd.to_datetime(pd.Series(words, dtype=object), format=form, errors="coerce", utc=True)
    return "" if times.isna().any() else form
