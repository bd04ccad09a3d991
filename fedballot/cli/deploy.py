"""The commands of a real federation at a site, and to start a run: `fedballot site` and `fedballot submit`."""

from __future__ import annotations

import getpass
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from fedballot.cli import terminal
from fedballot.cli.pages import DashboardCert, DashboardKey, Listen, PasswordFile, show
from fedballot.core import numbers
from fedballot.core.errors import FedballotError, RunError, SettingsError
from fedballot.settings.layers import parse_assignments

if TYPE_CHECKING:
    from fedballot.deploy.supervise import Log

site_app = typer.Typer(no_args_is_help=True, help="A client of a real federation: its file, key and SuperNode.")

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
SiteFile = Annotated[Path, typer.Argument(metavar="SITE.TOML", help="The site's file.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Plain text, no authentication; on this machine only.")]

ServiceUser = Annotated[str, typer.Option("--user", help="Whom it runs as: a user of its own.")]
LogForm = Annotated[str, typer.Option("--log", metavar="text|json", help="How lines of the log look.")]


@site_app.command("init")
def site_init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The site's new folder.")],
    number: Annotated[int, typer.Option(help="The site's number in the federation, from 0.")],
    sites: Annotated[int, typer.Option(help="How many sites the federation has.")],
    server: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the server's sites connect to.")],
) -> None:
    """Write a site's folder: its key pair, and a site.toml to fill in."""
    from fedballot.deploy.template import init_site

    public_key = init_site(directory, number=number, sites=sites, server=server)
    terminal.err.print(
        f"1. send {escape(str(public_key))} to the server, and get its ca.crt and the public data in return;\n"
        f"2. fill in {escape(str(directory / 'site.toml'))};\n"
        f"3. fedballot site check {escape(str(directory / 'site.toml'))}",
        soft_wrap=True,
    )
    print(public_key)


@site_app.command("check")
def site_check(
    site_file: SiteFile,
    connect: Annotated[
        bool,
        typer.Option("--connect", help="Also the network: name, port, certificate, clock, key."),
    ] = False,
    json: Json = False,
) -> None:
    """Test everything about a site, without the network unless asked."""
    from fedballot.deploy.check import check_site
    from fedballot.deploy.site_file import read_site

    findings = check_site(site_file)
    if connect:
        from fedballot.deploy.connect import check_connection

        findings += check_connection(read_site(site_file))
    if json:
        terminal.print_json([vars(finding) for finding in findings])
    else:
        marks = {True: "ok", False: "[red]wrong[/red]", None: "?"}
        rows = [[finding.what, marks[finding.good], escape(finding.words)] for finding in findings]
        terminal.print_table("", ("what", "", "found"), rows)
    wrong = [finding.what for finding in findings if finding.good is not True]
    if wrong:
        raise SettingsError(f"{site_file}: not ready: {', '.join(wrong)}")


@site_app.command("start")
def site_start(
    site_file: SiteFile,
    insecure: Insecure = False,
    port: Annotated[
        int | None, typer.Option(help="Port on 127.0.0.1 between the SuperNode and its apps; default: a free one.")
    ] = None,
    log: LogForm = "text",
) -> None:
    """Run the site's SuperNode until it is stopped."""
    from fedballot.deploy.check import check_site
    from fedballot.deploy.node import start_node
    from fedballot.deploy.renewal import site_warnings
    from fedballot.deploy.site_file import read_site

    spared = ("key", "authority") if insecure else ()
    for finding in check_site(site_file):
        if finding.good is False and finding.what not in spared:
            raise SettingsError(f"{finding.what}: {finding.words}")
    site = read_site(site_file)
    if not insecure:
        terminal.warn(*site_warnings(site))
    raise typer.Exit(start_node(site, insecure=insecure, port=port, log=log_form(log)))


@site_app.command("requests")
def site_requests(site_file: SiteFile, json: Json = False) -> None:
    """What runs have asked of a site, who asked and what for, what it costs, and what was decided."""
    from fedballot.deploy.approval import asked_runs
    from fedballot.deploy.site_file import read_site

    asked = asked_runs(read_site(site_file))
    if json:
        terminal.print_json([vars(one) for one in asked])
        return
    rows = [
        [
            escape(one.run),
            escape(one.method),
            f"[yellow]{one.decision}[/]" if one.decision == "waits" else one.decision,
            f"{numbers.epsilon(one.total)} in {one.releases}",
            f"{numbers.epsilon(one.spent)} of {numbers.epsilon(one.limit)}",
            escape(one.requester),
            escape(one.purpose),
            escape(one.settings),
            one.asked,
        ]
        for one in asked
    ]
    columns = (
        "run",
        "method",
        "decision",
        "ε, releases",
        "ε spent before",
        "requester",
        "purpose",
        "settings",
        "asked",
    )
    terminal.print_table("", columns, rows)


@site_app.command("dashboard")
def site_dashboard(
    site_file: SiteFile,
    listen: Listen = "127.0.0.1:8091",
    password_file: PasswordFile = None,
    cert: DashboardCert = None,
    key: DashboardKey = None,
) -> None:
    """Show budget, charges and what waits for a decision in a browser, read-only; /metrics, /health, /status.json."""
    from fedballot.deploy.dashboard import site_app as pages
    from fedballot.deploy.site_file import read_site

    read_site(site_file)
    show(lambda place: pages(site_file, place), listen, password_file, cert, key)


@site_app.command("service")
def site_service(site_file: SiteFile, user: ServiceUser = "fedballot") -> None:
    """Print a unit of systemd that runs the site."""
    from fedballot.deploy.service import site_unit
    from fedballot.deploy.site_file import read_site

    print(site_unit(read_site(site_file), user=user), end="")


Run = Annotated[str, typer.Argument(metavar="RUN", help="Its name in `site requests`, or the beginning of it.")]


@site_app.command("approve")
def site_approve(site_file: SiteFile, run: Run) -> None:
    """Let a run that waits at a site through; it goes on at once."""
    _decide(site_file, run, approved=True)


@site_app.command("refuse")
def site_refuse(site_file: SiteFile, run: Run) -> None:
    """Refuse a run that waits at a site; nothing is charged."""
    _decide(site_file, run, approved=False)


def log_form(word: str) -> Log:
    """What ``--log`` says.

    Raises
    ------
    SettingsError
        If it is neither.
    """
    if word not in ("text", "json"):
        raise SettingsError(f"--log {word!r}; expected text or json")
    return "json" if word == "json" else "text"


def _decide(site_file: Path, run: str, *, approved: bool) -> None:
    from fedballot.deploy.approval import decide
    from fedballot.deploy.site_file import read_site

    record = decide(read_site(site_file), run, approved=approved)
    print(f"{record.run} ({record.method}, ε = {numbers.epsilon(record.total)} in all) is {record.decision}")


@site_app.command("renew-key")
def site_renew_key(site_file: SiteFile) -> None:
    """Make a new key pair for a site; the old one stays beside it as KEY.old until you delete it."""
    from fedballot.deploy.renewal import renew_site_key
    from fedballot.deploy.site_file import read_site

    public_key = renew_site_key(read_site(site_file))
    terminal.err.print(
        f"1. send {escape(str(public_key))} to the server, which lets it in with: fedballot server add-site DIR NAME "
        f"{escape(public_key.name)};\n2. start this site again",
        soft_wrap=True,
    )
    print(public_key)


def submit(
    method: Annotated[str, typer.Argument(help="A name from `fedballot methods`.")],
    server: Annotated[Path, typer.Option(metavar="DIR", help="The server's folder.")],
    preset: Annotated[str | None, typer.Option(help="A name from `fedballot presets`.")] = None,
    config: Annotated[Path | None, typer.Option(help="A settings file (TOML) in the form of a preset.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one setting.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; default: runs/METHOD-TIME.")] = None,
    resume: Annotated[bool, typer.Option(help="Take up the run that is in --out.")] = False,
    purpose: Annotated[str, typer.Option(help="What the run is for; the sites' people read it.")] = "",
    requester: Annotated[str | None, typer.Option(help="Who asks; default: USER@HOST of this machine.")] = None,
    quiet: Annotated[bool, typer.Option(help="No progress.")] = False,
    json: Json = False,
) -> None:
    """Start a run on the federation's server and follow it; sites answer with their own records."""
    from fedballot.api.experiment import new_folder, resolve, without_effect
    from fedballot.cli.run import print_result
    from fedballot.core.folders import holds_run
    from fedballot.datasets.own import SITES
    from fedballot.deploy import submit as submitting
    from fedballot.deploy.renewal import server_warnings
    from fedballot.deploy.running import stop_run
    from fedballot.deploy.server import open_server
    from fedballot.report.build import write_report

    if resume and (out is None or not holds_run(out)):
        raise SettingsError("--resume needs --out FOLDER with the run to take up")
    values = {"dataset": SITES, **parse_assignments(set_ or [])}
    resolved = resolve(method, values, preset, config, out, resume, deployed=True)
    folder = (out or new_folder(method)).absolute()
    place = open_server(server)
    terminal.warn(*without_effect(resolved, values), *server_warnings(place))
    run = submitting.submit(
        place,
        method,
        resolved,
        folder,
        resume=resume,
        requester=requester or _who(),
        purpose=purpose,
        preset=preset,
    )
    joined = ", which the server has already" if run.joined else ""
    known = f", {run.request} at the sites" if run.request else ""
    terminal.err.print(f"run {run.run_id}{joined}{known} -> {escape(str(folder))}", soft_wrap=True)
    progress = terminal.watcher(quiet=quiet)
    try:
        result = submitting.follow(place, run, progress)
    except KeyboardInterrupt:
        try:
            stop_run(place, run.run_id)
            terminal.err.print(f"stopped; go on with --out {folder} --resume", soft_wrap=True)
        except FedballotError as error:
            terminal.err.print(f"the run goes on: {escape(str(error))}", soft_wrap=True)
        terminal.leave(terminal.STOPPED)
    except RunError:
        if (folder / "result.json").exists():
            write_report(folder)
        raise
    finally:
        progress.stop()
    write_report(folder)
    if json:
        terminal.print_json(result)
    else:
        print_result(result, folder)


def _who() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # a user without a name, as in a container
        return socket.gethostname()
