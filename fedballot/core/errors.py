"""The errors that fedballot raises on purpose. Each says what is wrong, what is allowed and how to mend it."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class FedballotError(Exception):
    """Base of every error that is meant for the user; the command line prints it without a traceback."""


class SettingsError(FedballotError):
    """A setting, file or combination that cannot work (exit code 2)."""


class DataError(SettingsError):
    """A data file that cannot be used: names the file, the row or key, and what is expected (exit code 2)."""


class RunError(FedballotError):
    """A run that started and failed (exit code 1)."""


@contextmanager
def named(setting: str, value: object) -> Iterator[None]:
    """Put a setting and its value before the words of what is refused in the block."""
    try:
        yield
    except SettingsError as error:
        raise type(error)(f"{setting}={value}: {error}") from error


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'name'?`` with the known name nearest to a mistyped one, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
