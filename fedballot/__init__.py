"""Federated learning by sharing predictions on public data, under differential privacy, on Flower."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedballot.api.classifier import FederatedClassifier
    from fedballot.api.comparing import Comparison, compare
    from fedballot.api.experiment import run
    from fedballot.api.frontiers import Frontier, frontier
    from fedballot.api.planning import Budget, audit, budget
    from fedballot.api.polling import Poll, poll
    from fedballot.api.reproducing import Reproduction, reproduce
    from fedballot.api.result import Result, load
    from fedballot.api.sweeping import Sweep, sweep
    from fedballot.core.callbacks import Callback
    from fedballot.core.errors import DataError, FedballotError, RunError, SettingsError
    from fedballot.methods.api import Method
    from fedballot.methods.registry import get_method
    from fedballot.privacy.guarantee import Guarantee
    from fedballot.privacy.ledger import Ledger
    from fedballot.privacy.mechanism import Composition, Facts, Mechanism
    from fedballot.sim import simulate

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "Callback",
    "Comparison",
    "Composition",
    "DataError",
    "Facts",
    "FedballotError",
    "FederatedClassifier",
    "Frontier",
    "Guarantee",
    "Ledger",
    "Mechanism",
    "Method",
    "Poll",
    "Reproduction",
    "Result",
    "RunError",
    "SettingsError",
    "Sweep",
    "__version__",
    "audit",
    "budget",
    "compare",
    "frontier",
    "get_method",
    "load",
    "poll",
    "reproduce",
    "run",
    "simulate",
    "sweep",
]

# imported when first used: neither Flower nor torch comes with `import fedballot`
_HOMES = {
    "Budget": "api.planning",
    "Callback": "core.callbacks",
    "Comparison": "api.comparing",
    "Composition": "privacy.mechanism",
    "DataError": "core.errors",
    "Facts": "privacy.mechanism",
    "FedballotError": "core.errors",
    "FederatedClassifier": "api.classifier",
    "Frontier": "api.frontiers",
    "Guarantee": "privacy.guarantee",
    "Ledger": "privacy.ledger.ledger",
    "Mechanism": "privacy.mechanism",
    "Method": "methods.api",
    "Poll": "api.polling",
    "Reproduction": "api.reproducing",
    "Result": "api.result",
    "RunError": "core.errors",
    "SettingsError": "core.errors",
    "Sweep": "api.sweeping",
    "audit": "api.planning",
    "budget": "api.planning",
    "compare": "api.comparing",
    "frontier": "api.frontiers",
    "get_method": "methods.registry",
    "load": "api.result",
    "poll": "api.polling",
    "reproduce": "api.reproducing",
    "run": "api.experiment",
    "simulate": "sim",
    "sweep": "api.sweeping",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
