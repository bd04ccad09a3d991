"""What a ledger is about, and how it refuses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, get_args

from fedballot.core.errors import SettingsError
from fedballot.privacy.accounting import Accountant, Cost, Filter
from fedballot.privacy.guarantee import Adjacency, Unit

Costs: TypeAlias = Mapping[str, Cost]
"""What each part of a release costs, by its name."""


class BudgetError(SettingsError):
    """A charge that the budget does not allow; nothing was charged."""


class RequestError(SettingsError):
    """A request whose name stands in the ledger for another question; nothing was charged."""


@dataclass(frozen=True)
class Account:
    """What a ledger is about; fixed when it is opened for the first time, but for the budget.

    Parameters
    ----------
    client, population : str
        Names; `population` says whose data these are, in whatever version: one ledger is about one population.
    unit, adjacency : str
        As in `Guarantee`.
    epsilon, delta : float
        The budget.
    accountant : {"exact", "rdp"}
        Of which a filter is known: whoever asks chooses each request in the light of earlier answers.

    Examples
    --------
    >>> Account("hospital a", "patients of 2020", "record", "replace-one", epsilon=1.0, delta=1e-5).accountant
    'exact'
    """

    client: str
    population: str
    unit: Unit
    adjacency: Adjacency
    epsilon: float
    delta: float
    accountant: Accountant = "exact"

    def __post_init__(self) -> None:
        Filter(self.epsilon, self.delta, self.accountant)
        for name, allowed in (("unit", Unit), ("adjacency", Adjacency)):
            if getattr(self, name) not in get_args(allowed):
                raise SettingsError(f"{name} = {getattr(self, name)!r}: allowed are {', '.join(get_args(allowed))}.")


@dataclass(frozen=True)
class Version:
    """One version of a population's data.

    Parameters
    ----------
    fingerprint : str
    records : int
        How many there are.
    records_per_person : int
        Most of them that are one person's; 0 where nobody says whose they are.
    """

    fingerprint: str
    records: int
    records_per_person: int = 0
