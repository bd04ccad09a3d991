"""skops, imported without dragging torch and pytest in.

skops lists every estimator of scikit-learn when it is imported; the walk imports the torch adapter there and its
testing helpers, and with them torch and pytest where they are installed: seconds and 700 MB in every process that has
no use for them.
"""

import sys

import sklearn.base  # noqa: F401  # while torch is what it is: SciPy looks for it

_hidden = [name for name in ("torch", "pytest") if name not in sys.modules]
for _name in _hidden:
    sys.modules[_name] = None  # type: ignore[assignment]  # makes its import an ImportError, which the walk skips
try:
    from skops.io import dumps, get_untrusted_types, loads
finally:
    for _name in _hidden:
        del sys.modules[_name]

__all__ = ["dumps", "get_untrusted_types", "loads"]
