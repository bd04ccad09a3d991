"""Federated learning by sharing predictions on public data, under differential privacy, on Flower."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedballot.methods.api import Method
    from fedballot.methods.registry import get_method
    from fedballot.privacy.guarantee import Guarantee
    from fedballot.privacy.ledger.ledger import Ledger
    from fedballot.privacy.mechanism import Composition, Facts, Mechanism
    from fedballot.sim import simulate

__version__ = "0.1.0"

__all__ = [
    "Composition",
    "Facts",
    "Guarantee",
    "Ledger",
    "Mechanism",
    "Method",
    "__version__",
    "get_method",
    "simulate",
]

# imported when first used: neither Flower nor torch comes with `import fedballot`
_HOMES = {
    "Composition": "privacy.mechanism",
    "Facts": "privacy.mechanism",
    "Guarantee": "privacy.guarantee",
    "Ledger": "privacy.ledger.ledger",
    "Mechanism": "privacy.mechanism",
    "Method": "methods.api",
    "get_method": "methods.registry",
    "simulate": "sim",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
