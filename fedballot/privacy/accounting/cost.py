"""What a release costs, as accountants and ledgers see it: the base of all costs, and the registry of their kinds.

A cost is a frozen dataclass of JSON values, apart from the accountants that add it up. An accountant asks whether a
cost :meth:`~Cost.supports` it, then for the bound that it needs; so a package may bring costs of its own.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError, SettingsError
from fedballot.privacy.guarantee import Adjacency

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

Accountant = Literal["exact", "pld", "rdp"]
Floats = NDArray[np.float64]

GROUP = "fedballot.costs"  # entry points: name of a class = "package.module:Class"
_OURS = __name__.partition(".")[0]


@dataclass(frozen=True)
class Cost(ABC):
    """What one charge costs, already divided by the sensitivity of the declared adjacency.

    A kind of cost is a frozen dataclass of JSON values under :func:`register_cost`. It says what it is in words, and
    brings the bounds that are known of it: :meth:`rdp`, :meth:`pld`, or `dominating` of :class:`NearGaussian`.
    Accountants take what is there and refuse the rest by name. Costs of different units or adjacencies must not be
    added; `guarantee.combine` and the ledger refuse that.

    Attributes
    ----------
    noisy : bool
        Whether there is anything beside :attr:`mass`: then it needs a bound, and no mass may be charged after it.
    costly : bool
        Whether Renyi divergences take long, so that few orders are tried.
    adjacencies : tuple of str
        Those under which the bounds hold, if not under all.

    Examples
    --------
    The winner among scores, each with Gumbel noise, is epsilon-DP and (epsilon^2 / 8)-concentrated:

    >>> from dataclasses import dataclass, replace
    >>> from fedballot.privacy import accounting
    >>> @accounting.register_cost
    ... @dataclass(frozen=True)
    ... class NoisyMaxCost(accounting.PureCost):
    ...     def rdp(self, orders):
    ...         return self.count * np.minimum(orders * self.epsilon**2 / 8, self.epsilon)
    ...
    ...     def words(self):
    ...         return "winners of noisy scores"
    >>> f"{accounting.epsilon([NoisyMaxCost(0.1, 100)], 1e-5, 'rdp'):.3g}"
    '2.17'
    """

    noisy: ClassVar[bool] = True
    costly: ClassVar[bool] = False
    adjacencies: ClassVar[tuple[Adjacency, ...]] = get_args(Adjacency)

    @abstractmethod
    def times(self, count: int) -> Cost:
        """Return the cost of `count` charges like this one, each with fresh noise.

        Raises
        ------
        SettingsError
            If it is charged once however often it is used.
        """

    @abstractmethod
    def words(self) -> str:
        """Return what is paid for, as a ledger shows it: "Gaussian noise, 3 times"."""

    @property
    def mass(self) -> float:
        """Probability with which everything about a unit may come out; it holds at epsilon = 0, composed apart."""
        return 0.0

    @property
    def alike(self) -> Hashable | None:
        """Costs of one class with equal keys are joined by :meth:`join` before they are added up; None: never."""
        return None

    def join(self, others: Sequence[Any]) -> Cost:
        """Return the cost that this and `others`, of this class and with equal :attr:`alike`, compose to exactly."""
        raise NotImplementedError

    def rdp(self, orders: Floats) -> Floats:
        """Return Renyi divergences of all of `count`, shape (n,), at each of `orders`, shape (n,), all above 1."""
        raise NotImplementedError

    def pld(self) -> PrivacyLossDistribution | None:
        """Return the privacy loss distribution; None where it would take minutes or all memory."""
        raise NotImplementedError

    def pld_alone(self) -> PrivacyLossDistribution | None:
        """Return :meth:`pld` of this cost alone, on any grid: nothing is added to it."""
        return self.pld()

    @classmethod
    def supports(cls, accountant: Accountant) -> bool:
        """Return whether the accountant has a bound: whether the class defines the method of its name."""
        return accountant != "exact" and getattr(cls, accountant) is not getattr(Cost, accountant)

    @classmethod
    def tightest(cls) -> Accountant:
        """Return the accountant whose bound on one such cost is the smallest."""
        return next(accountant for accountant in get_args(Accountant) if cls.supports(accountant))


@dataclass(frozen=True)
class NearGaussian(Cost):
    """A cost no worse than that of a Gaussian mechanism; all accountants take it."""

    @abstractmethod
    def dominating(self) -> tuple[float, float]:
        """Return (mu, off): no worse than a Gaussian of that mu whose probabilities are off by at most exp(+-off)."""

    def concentrated(self) -> tuple[float, float]:
        """Return (mu, off): Renyi divergences of no more than a Gaussian of that mu, but for exp(+-off)."""
        return self.dominating()

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """Return epsilon of this charge alone, by the tightest formula."""

    @classmethod
    def supports(cls, accountant: Accountant) -> bool:
        """See :meth:`Cost.supports`."""
        return True


C = TypeVar("C", bound=type[Cost])

_KINDS: dict[str, type[Cost]] = {}


def register_cost(kind: C) -> C:
    """Let ledgers hold costs of this class, under its name; a class decorator.

    A package that defines costs also names them among its entry points, so that a ledger can be read by a process that
    has not imported it: under ``[project.entry-points."fedballot.costs"]`` stands
    ``NoisyMaxCost = "mypackage.costs:NoisyMaxCost"``.

    Raises
    ------
    SettingsError
        If it is no frozen dataclass, a method or every bound is missing, or another class has the name.
    """
    name, other = kind.__name__, _KINDS.get(kind.__name__)
    if not is_dataclass(kind) or not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise SettingsError(f"cost {name}: must be a frozen dataclass.")
    if inspect.isabstract(kind):
        raise SettingsError(f"cost {name}: needs the methods {', '.join(sorted(kind.__abstractmethods__))}.")
    if {"type", "package"} & {field.name for field in fields(kind)}:
        raise SettingsError(f"cost {name}: a ledger writes `type` and `package` itself; name the field otherwise.")
    if kind.noisy and not any(kind.supports(accountant) for accountant in get_args(Accountant)):
        raise SettingsError(f"cost {name}: no accountant has a bound; define rdp, pld, or dominating (NearGaussian).")
    if other is not None and _place(other) != _place(kind):
        raise SettingsError(f"cost {name}: {_place(other)} has this name already; a ledger could not tell them apart.")
    _KINDS[name] = kind
    return kind


def to_plain(cost: Cost) -> dict[str, Any]:
    """Return JSON values from which `from_plain` restores the same cost, bit for bit.

    Raises
    ------
    SettingsError
        If its class is not registered, or a field is not a number, a word or a truth value.

    Examples
    --------
    >>> from fedballot.privacy.accounting import GaussianCost
    >>> to_plain(GaussianCost(0.5))
    {'type': 'GaussianCost', 'mu': 0.5, 'count': 1}
    """
    kind = type(cost)
    if _KINDS.get(kind.__name__) is not kind:
        raise SettingsError(f"cost {kind.__name__}: a ledger cannot hold it; put @register_cost on {_place(kind)}.")
    values = asdict(cost)
    for name, value in values.items():
        if not isinstance(value, bool | int | float | str | None):
            raise SettingsError(f"cost {kind.__name__}: {name} = {value!r} is not restored from JSON as it is.")
    package = {} if _package(kind) == _OURS else {"package": _package(kind)}
    return {"type": kind.__name__, **package, **values}


def from_plain(plain: Mapping[str, Any]) -> Cost:
    """Restore a cost.

    Raises
    ------
    DataError
        If nothing that is installed here knows it; names the package that does.
    """
    values = dict(plain)
    name, package = values.pop("type", None), values.pop("package", _OURS)
    kind = _find(name, package) if isinstance(name, str) else None
    if kind is None:
        if package != _OURS:
            raise DataError(f"cost {name!r}: needs the package {package!r} that defines it; install it and try again.")
        raise DataError(f"cost {dict(plain)}: not one of {', '.join(_KINDS)}.")
    try:
        return kind(**values)
    except (TypeError, SettingsError) as error:
        raise DataError(f"cost {dict(plain)}: {error}") from error


def _find(name: str, package: Any) -> type[Cost] | None:
    """The class of that name and package, imported by its entry point if need be; never by what a ledger says."""
    if name not in _KINDS:
        for entry in entry_points(group=GROUP, name=name):
            try:
                entry.load()
            except (ImportError, AttributeError) as error:
                raise DataError(f"cost {name!r}: {entry.value} cannot be imported ({error}).") from error
    kind = _KINDS.get(name)
    return kind if kind is not None and _package(kind) == package else None


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _place(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
