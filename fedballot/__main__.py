"""``python -m fedballot``, the same as ``fedballot``."""

from fedballot.cli.__main__ import main

main()
