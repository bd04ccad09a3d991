"""What costs have in common: counts, their words, and how large a privacy loss distribution may get."""

from fedballot.core.errors import SettingsError

# Beyond these, privacy loss distributions take minutes or all memory, and Renyi divergences lose little.
LOUDEST = 12.0  # loss of one step
LONGEST = 10**7  # steps


def check_count(name: str, value: int) -> None:
    """Raise SettingsError unless `value` is at least 1."""
    if value < 1:
        raise SettingsError(f"{name} = {value}: must be at least 1.")


def check_records(records_per_person: int) -> None:
    """Raise SettingsError unless the bound on the records of one person is at least 1."""
    check_count("records_per_person", records_per_person)


def too_large(loss: float, count: int) -> bool:
    """Whether the loss distribution of `count` steps takes too long; `loss` is what one step loses, in order."""
    return not (loss <= LOUDEST and count <= LONGEST)


def times_words(count: int) -> str:
    """Return ", 3 times", or nothing for once."""
    return f", {count} times" if count > 1 else ""
