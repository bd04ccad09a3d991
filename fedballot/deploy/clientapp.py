"""What a site runs in place of ``flwr-clientapp``: the same, after a look at the bundle that the server sent."""

from __future__ import annotations

import sys

from fedballot.core.errors import RunError
from fedballot.deploy.bundle import check_bundle
from fedballot.deploy.warm import main


def guard() -> None:
    """Put :func:`check_bundle` before the installation of a bundle.

    Raises
    ------
    RunError
        If this version of Flower installs bundles in another way: better no run than one without the check.
    """
    from flwr.supernode.runtime import run_clientapp

    install = getattr(run_clientapp, "install_from_fab", None)
    if install is None:
        raise RunError("this version of Flower installs app bundles in a way that fedballot cannot check")

    def checked(content: bytes, *args: object, **kwargs: object) -> object:
        check_bundle(content)
        return install(content, *args, **kwargs)

    vars(run_clientapp)["install_from_fab"] = checked


def run(arguments: list[str]) -> None:
    """Flower's app of a site, for one message."""
    from flwr.supernode.cli.flwr_clientapp import flwr_clientapp

    guard()
    sys.argv = ["flwr-clientapp", *arguments]  # Flower tells its own processes apart by this name
    flwr_clientapp()


if __name__ == "__main__":
    main(run)
