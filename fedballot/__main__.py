"""``python -m fedballot``, the same as ``fedballot``."""

from fedballot.cli.main import main

main()
