"""``python -m fedballot.cli``."""

from fedballot.cli.main import main

main()
