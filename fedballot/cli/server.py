"""`fedballot server`: the server of a real federation, its certificates, its sites and its runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from fedballot.cli import terminal
from fedballot.cli.deploy import Insecure, Json, LogForm, ServiceUser, log_form
from fedballot.cli.pages import DashboardCert, DashboardKey, Listen, PasswordFile, show
from fedballot.core import numbers
from fedballot.core.errors import RunError, SettingsError

if TYPE_CHECKING:
    from fedballot.deploy.server import ServerFolder
    from fedballot.deploy.status import RunView, ServerStatus

server_app = typer.Typer(no_args_is_help=True, help="The server of a real federation: certificates, SuperLink, sites.")

ServerDir = Annotated[Path, typer.Argument(metavar="DIR", help="The server's folder.")]


@server_app.command("init")
def server_init(
    directory: ServerDir,
    host: Annotated[
        list[str] | None, typer.Option(help="A name or address by which sites reach the server; may be repeated.")
    ] = None,
    control: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Control API. Whoever reaches it may start runs: keep it local.")
    ] = "127.0.0.1:18000",
    ca: Annotated[Path | None, typer.Option(help="Your own certificate authority (PEM).")] = None,
    cert: Annotated[Path | None, typer.Option(help="Your own server certificate (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(help="Your own server key (PEM).")] = None,
    insecure: Insecure = False,
) -> None:
    """Make a server's folder, with a certificate authority, a server certificate and their keys, or with yours."""
    from fedballot.deploy.server import init_server

    own = (ca, cert, key)
    if any(own) and not all(own):
        raise SettingsError("--ca, --cert and --key go together: give all three, or none for new ones")
    if not (host or any(own) or insecure):
        raise SettingsError("--host NAME is missing: by which name or address do the sites reach the server?")
    if insecure and any(own):
        raise SettingsError("--insecure uses no certificates: leave out --ca, --cert and --key")
    chosen = None if ca is None or cert is None or key is None else (ca, cert, key)
    server = init_server(directory, tuple(host or ()), control=control, own=chosen, insecure=insecure)
    if not insecure:
        print(server.authority)


@server_app.command("start")
def server_start(
    directory: ServerDir,
    fleet: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where sites connect to.")] = "0.0.0.0:9092",
    log: LogForm = "text",
) -> None:
    """Run the SuperLink until it is stopped."""
    from fedballot.deploy.server import start_server

    raise typer.Exit(start_server(_folder(directory), fleet=fleet, log=log_form(log)))


@server_app.command("renew")
def server_renew(
    directory: ServerDir,
    authority: Annotated[
        bool, typer.Option("--authority", help="A new certificate authority, beside the old one, in the same ca.crt.")
    ] = False,
) -> None:
    """Make a new server certificate for the same names, or a new authority, before the old one ends."""
    from fedballot.deploy.renewal import renew_authority, renew_certificate
    from fedballot.deploy.server import open_server

    server = open_server(directory)
    if authority:
        ends = renew_authority(server)
        steps = (
            f"1. give all sites the new {server.authority}; they trust both until then, and start again with it;\n"
            f"2. fedballot server renew {directory}, which signs with the new authority;\n3. start the server again"
        )
    else:
        ends, steps = renew_certificate(server), "start the server again, so that it uses it; sites need do nothing"
    terminal.err.print(escape(steps), soft_wrap=True)
    print(f"valid to {ends:%Y-%m-%d}")


@server_app.command("add-site")
def server_add_site(
    directory: ServerDir,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The site's; one that is there gets a new key.")],
    public_key: Annotated[Path, typer.Argument(metavar="PUBKEY", help="The site's public key.")],
) -> None:
    """Let a site in; the server must be running."""
    from fedballot.deploy.members import add_site

    member = add_site(_folder(directory), name, public_key)
    print(f"{member.name} is let in as node {member.node}")


@server_app.command("remove-site")
def server_remove_site(
    directory: ServerDir, name: Annotated[str, typer.Argument(metavar="NAME", help="The site's.")]
) -> None:
    """Let a site in no more; the server must be running."""
    from fedballot.deploy.members import remove_site

    member = remove_site(_folder(directory), name)
    print(f"{member.name} (node {member.node}) is let in no more")


@server_app.command("sites")
def server_sites(directory: ServerDir, json: Json = False) -> None:
    """The sites that are let in, and who of them is connected."""
    from fedballot.deploy.members import site_list

    sites = site_list(_folder(directory))
    if json:
        terminal.print_json([dataclasses.asdict(site) for site in sites])
        return
    rows = [[site.name, _toned(site.status), site.since, site.added, site.node] for site in sites]
    terminal.print_table("", ("site", "status", "since", "let in", "node"), rows)


@server_app.command("runs")
def server_runs(directory: ServerDir, json: Json = False) -> None:
    """The server's runs, the newest first."""
    from fedballot.deploy.running import run_list

    runs = run_list(_folder(directory))
    if json:
        terminal.print_json([dataclasses.asdict(run) for run in runs])
        return
    rows = [
        [
            run.run_id,
            run.request,
            escape(run.method),
            _toned(run.status),
            "" if run.epsilon is None else numbers.epsilon(run.epsilon),
            run.submitted,
            escape(run.out),
        ]
        for run in runs
    ]
    terminal.print_table("", ("run", "sites know it as", "method", "status", "ε asked", "submitted", "folder"), rows)


@server_app.command("status")
def server_status(directory: ServerDir, json: Json = False) -> None:
    """Sites, runs and how far they are, certificates; the same as `dashboard`, once, on the terminal."""
    from fedballot.deploy.metrics import as_json
    from fedballot.deploy.server import ServerFolder
    from fedballot.deploy.status import server_status as read

    status = read(ServerFolder(directory.absolute()))
    if json:
        print(as_json(status))
    else:
        _print_status(status)
    if status.problem:
        raise RunError(status.problem)


def _print_status(status: ServerStatus) -> None:
    terminal.warn(*status.warnings)
    ends = ", ".join(f"{one.name} to {one.ends} ({one.days} days)" for one in status.certificates)
    online = sum(site.status == "online" for site in status.sites)
    going = sum(not view.run.ended for view in status.runs)
    rows = [
        ["server", "[red]does not answer[/]" if status.problem else "[green]answers[/]"],
        ["sites", f"{online} of {len(status.sites)} connected"],
        ["runs", f"{going} under way"],
        ["certificates", ends or "none: plain text on this machine only"],
    ]
    terminal.print_table("", ("", ""), rows)
    if status.sites:
        sites = [[site.name, _toned(site.status), site.since] for site in status.sites]
        terminal.print_table("", ("site", "status", "since"), sites)
    if status.runs:
        runs = [
            [view.run.run_id, escape(view.run.method), _toned(view.run.status), escape(_stage(view))]
            for view in status.runs
        ]
        terminal.print_table("", ("run", "method", "status", "stage"), runs)


def _stage(view: RunView) -> str:
    stage = view.stage
    if not stage.label:
        return "" if view.accuracy is None else f"{numbers.percent(view.accuracy)} accuracy"
    left = "" if stage.left_s is None else f", about {numbers.seconds(stage.left_s)} left"
    return f"{stage.label}: {stage.done} of {stage.total}{left}"


@server_app.command("dashboard")
def server_dashboard(
    directory: ServerDir,
    listen: Listen = "127.0.0.1:8090",
    password_file: PasswordFile = None,
    cert: DashboardCert = None,
    key: DashboardKey = None,
) -> None:
    """Show sites, runs and certificates in a browser, read-only; /metrics for Prometheus, /health, /status.json."""
    from fedballot.deploy.dashboard import server_app as pages
    from fedballot.deploy.server import open_server

    server = open_server(directory)
    show(lambda place: pages(server, place), listen, password_file, cert, key)


@server_app.command("service")
def server_service(
    directory: ServerDir,
    user: ServiceUser = "fedballot",
    fleet: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where sites connect to.")] = "0.0.0.0:9092",
    runs: Annotated[Path, typer.Option(help="Where runs are submitted to (`submit --out`).")] = Path("runs"),
) -> None:
    """Print a unit of systemd that runs the server."""
    from fedballot.deploy.server import ServerFolder
    from fedballot.deploy.service import server_unit

    print(server_unit(ServerFolder(directory.absolute()), fleet=fleet, user=user, runs=runs), end="")


@server_app.command("stop")
def server_stop(directory: ServerDir, run: Annotated[str, typer.Argument(metavar="RUN", help="Its number.")]) -> None:
    """Stop a run that is pending or under way; it can be taken up with `submit --resume`."""
    from fedballot.deploy.running import stop_run

    stop_run(_folder(directory), run)
    print(f"run {run} is stopped")


def _folder(directory: Path) -> ServerFolder:
    from fedballot.deploy.renewal import server_warnings
    from fedballot.deploy.server import open_server

    server = open_server(directory)
    terminal.warn(*server_warnings(server))
    return server


def _toned(status: str) -> str:
    colours = {"online": "green", "offline": "yellow", "done": "green", "failed": "red"}
    colour = colours.get(status)
    return f"[{colour}]{escape(status)}[/]" if colour else escape(status)
