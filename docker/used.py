"""Import and run what servers and sites do, while the image is built: what they need is then there as bytecode."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import fedballot

COMMAND = str(Path(sys.executable).with_name("fedballot"))


def main() -> None:
    """All modules of fedballot; then a federation, from its certificates to its report."""
    for module in pkgutil.walk_packages(fedballot.__path__, "fedballot."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ModuleNotFoundError):  # of a library that this image has not
                importlib.import_module(module.name)
    subprocess.run([COMMAND, "try-federation", "federation", "--no-stay"], check=True)


if __name__ == "__main__":
    main()
