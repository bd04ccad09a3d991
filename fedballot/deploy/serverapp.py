"""What a server runs in place of ``flwr-serverapp``: the same, forked by a process that has imported what it needs."""

from __future__ import annotations

import sys

from fedballot.deploy.warm import main


def run(arguments: list[str]) -> None:
    """Flower's app of a server, for one run."""
    from flwr.superlink.cli import flwr_serverapp

    sys.argv = ["flwr-serverapp", *arguments]  # Flower tells its own processes apart by this name
    flwr_serverapp()


if __name__ == "__main__":
    main(run)
