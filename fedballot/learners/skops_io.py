"""skops, imported without dragging torch in.

skops lists every estimator of scikit-learn when it is imported; the walk imports the torch adapter there, and with it
torch where that is installed: seconds and 700 MB in every process that has no use for it.
"""

import sys

_hidden = "torch" not in sys.modules
if _hidden:
    sys.modules["torch"] = None  # type: ignore[assignment]  # makes `import torch` an ImportError, which the walk skips
try:
    from skops.io import dumps, get_untrusted_types, loads
finally:
    if _hidden:
        del sys.modules["torch"]

__all__ = ["dumps", "get_untrusted_types", "loads"]
