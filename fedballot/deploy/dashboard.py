"""Pages that show a server or a site: read-only, on this machine unless asked, with a password elsewhere."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Response
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import HTMLResponse, PlainTextResponse
from fastapi.security import HTTPBasic, HTTPBasicCredentials

from fedballot.core.errors import SettingsError
from fedballot.deploy import metrics
from fedballot.deploy.addresses import check_free, is_loopback
from fedballot.deploy.approval import asked_runs
from fedballot.deploy.modes import check_private
from fedballot.deploy.server import ServerFolder
from fedballot.deploy.site_file import read_site
from fedballot.deploy.spending_picture import spending_picture
from fedballot.deploy.status import ServerStatus, SiteStatus, server_status, site_status
from fedballot.report.html import render_page

REFRESH_S = 10
FRESH_S = 5.0  # for how long an answer of Flower's server serves: each takes some processor time
SHORTEST_PASSWORD = 12
TONES = {
    "online": "good",
    "offline": "warn",
    "running": "good",
    "done": "good",
    "failed": "bad",
    "stopped": "warn",
    "waits": "warn",
    "approved": "good",
    "refused": "bad",
}
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"}


@dataclass(frozen=True)
class Place:
    """Where a dashboard listens.

    Attributes
    ----------
    listen : HOST:PORT.
    password : that the browser is asked for, whatever the user's name; None: nobody is asked, on loopback only.
    certificate, key : of TLS; None: plain text, on loopback only.
    """

    listen: str
    password: str | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def names(self) -> list[str]:
        """Host names by which this machine's own browser may ask."""
        return [self.listen.rpartition(":")[0].strip("[]"), "127.0.0.1", "localhost", "::1", "[::1]"]


def checked_place(listen: str, password_file: Path | None, certificate: Path | None, key: Path | None) -> Place:
    """Refuse a dashboard that others could read.

    Raises
    ------
    SettingsError
        If it would listen beyond this machine without a password or without TLS, or a file cannot be used.
    RunError
        If the address is taken.
    """
    check_free("--listen", listen)
    password = None
    if password_file is not None:
        check_private(password_file)
        password = password_file.read_text(encoding="utf-8").strip()
        if len(password) < SHORTEST_PASSWORD:
            raise SettingsError(f"{password_file}: holds {len(password)} characters; at least {SHORTEST_PASSWORD}")
    if (certificate is None) != (key is None):
        raise SettingsError("--cert and --key go together")
    if key is not None:
        check_private(key)
    if not is_loopback(listen) and (password is None or certificate is None):
        raise SettingsError(
            f"--listen {listen}: others could read it; add --password-file FILE and --cert with --key, or listen at "
            "127.0.0.1 and reach it through ssh -L"
        )
    return Place(listen, password, certificate, key)


def server_app(server: ServerFolder, place: Place) -> FastAPI:
    """The pages of a server: ``/``, ``/metrics``, ``/status.json`` and ``/health``."""
    status = _cached(lambda: server_status(server))

    def page() -> str:
        now = status()
        going = [view for view in now.runs if not view.run.ended]
        return render_page("server_status.html.j2", _page_values(now) | {"going": going})

    return _app(page, status, metrics.of_server, lambda now: str(now.problem), place)


def site_app(site_file: Path, place: Place) -> FastAPI:
    """The pages of a site: ``/``, ``/metrics``, ``/status.json`` and ``/health``."""
    status = _cached(lambda: site_status(site_file))

    def page() -> str:
        now, asked = status(), asked_runs(read_site(site_file))
        waiting = [one for one in asked if one.decision == "waits"]
        values = {"asked": asked, "waiting": waiting, "picture": spending_picture(now.entries, now.limit)}
        return render_page("site_status.html.j2", _page_values(now) | values)

    return _app(page, status, metrics.of_site, lambda now: str(now.problem), place)


def serve(app: FastAPI, place: Place) -> None:
    """Serve until stopped."""
    import uvicorn

    host, _, port = place.listen.rpartition(":")
    uvicorn.run(
        app,
        host=host.strip("[]"),
        port=int(port),
        log_level="warning",
        server_header=False,
        ssl_certfile=None if place.certificate is None else str(place.certificate),
        ssl_keyfile=None if place.key is None else str(place.key),
    )


def _page_values(status: ServerStatus | SiteStatus) -> dict[str, Any]:
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
    return {"status": status, "tones": TONES, "refresh_s": REFRESH_S, "now": now, "clock": _clock}


def _clock(time: str) -> str:
    """A time of ours or Flower's, both UTC, to the second."""
    return time[:19].replace("T", " ")


def _cached(read: Callable[[], Any]) -> Callable[[], Any]:
    kept: tuple[float, Any] | None = None

    def get() -> Any:
        nonlocal kept
        if kept is None or time.monotonic() - kept[0] > FRESH_S:
            kept = time.monotonic(), read()
        return kept[1]

    return get


def _app(
    page: Callable[[], str],
    status: Callable[[], Any],
    measure: Callable[[Any], bytes],
    problem: Callable[[Any], str],
    place: Place,
) -> FastAPI:
    password = place.password
    basic = HTTPBasic(auto_error=False)

    def known(given: Annotated[HTTPBasicCredentials | None, Depends(basic)]) -> bool:
        return password is None or (
            given is not None and secrets.compare_digest(given.password.encode(), password.encode())
        )

    def let_in(right: Annotated[bool, Depends(known)]) -> None:
        if not right:
            raise HTTPException(401, "a password is asked for", {"WWW-Authenticate": 'Basic realm="fedballot"'})

    app = FastAPI(title="fedballot", docs_url=None, redoc_url=None, openapi_url=None)
    guarded = [Depends(let_in)]
    if password is None:  # a page elsewhere must not read this one under a name of its own (DNS rebinding)
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=place.names, www_redirect=False)

    @app.get("/", dependencies=guarded)
    def show() -> HTMLResponse:
        return HTMLResponse(page(), headers=HEADERS)

    @app.get("/metrics", dependencies=guarded)
    def scrape() -> Response:
        return Response(measure(status()), media_type=metrics.CONTENT_TYPE, headers=HEADERS)

    @app.get("/status.json", dependencies=guarded)
    def tell() -> Response:
        return Response(metrics.as_json(status()), media_type="application/json", headers=HEADERS)

    @app.get("/health")
    def health(right: Annotated[bool, Depends(known)]) -> PlainTextResponse:
        """For everybody, as probes have no password; the reason is for those who do."""
        words = problem(status())
        told = words if right else "not well"
        return PlainTextResponse(told if words else "ok", status_code=503 if words else 200, headers=HEADERS)

    return app
