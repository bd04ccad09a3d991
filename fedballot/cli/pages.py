"""What `site dashboard` and `server dashboard` share: where the page is, and who may see it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedballot.cli import terminal

if TYPE_CHECKING:
    from fastapi import FastAPI

    from fedballot.deploy.dashboard import Place

Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the page is; beyond this machine it asks more.")]
PasswordFile = Annotated[Path | None, typer.Option(help="A file with the password that a browser is asked for.")]
DashboardCert = Annotated[Path | None, typer.Option("--cert", help="Certificate of the page (PEM), for https.")]
DashboardKey = Annotated[Path | None, typer.Option("--key", help="Its key (PEM).")]


def show(
    pages: Callable[[Place], FastAPI], listen: str, password_file: Path | None, cert: Path | None, key: Path | None
) -> None:
    """Say where a dashboard is, and serve it until stopped."""
    from fedballot.deploy.dashboard import checked_place, serve

    place = checked_place(listen, password_file, cert, key)
    terminal.err.print(f"{'https' if cert else 'http'}://{listen}", soft_wrap=True)
    serve(pages(place), place)
