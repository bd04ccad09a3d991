"""A real federation on loopback for tests: SuperLink, SuperNodes, TLS, node authentication. Every wait has a limit."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from fedballot.core.errors import RunError
from fedballot.core.progress import Silent
from fedballot.core.setting import build
from fedballot.datasets.fingerprint import fingerprint
from fedballot.datasets.own import SITES
from fedballot.deploy.addresses import free_port
from fedballot.deploy.flower import one_port
from fedballot.deploy.members import add_site, site_list
from fedballot.deploy.server import init_server
from fedballot.deploy.submit import Submitted, follow, submit
from fedballot.deploy.template import fill_in, init_site
from fedballot.methods.registry import get_method

MODELS = ("random-forest", "logistic-regression", "mlp")
FAULTS = Path(__file__).parent / "faults"
# after how many seconds a server notices that a site is gone: set to nothing, Flower keeps its own pace of 60 s
PACE = "" if one_port() else os.environ.get("FEDBALLOT_HEARTBEAT_S", "20")
BUSY = 3  # how much longer a busy machine is waited for
FAULTY = {"PYTHONPATH": os.pathsep.join(filter(None, [str(FAULTS), os.environ.get("PYTHONPATH")]))}
HEARTBEAT = {**FAULTY, "FEDBALLOT_HEARTBEAT_S": PACE}
RUN = {
    "clients": 3,
    "public_size": 500,
    "test_size": 300,
    "server_model": "logistic-regression",
    "epsilon": 40,
    "vote_fraction": 1,
    "round_timeout_s": 120,
    "secure_aggregation": False,  # but for the test that is about it
}


def write_data(folder: Path) -> str:
    """Real digits: public.npz (800) and own0.npz to own2.npz (300 each); returns the public fingerprint."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    x, y = np.round(digits.images * (255 / 16)).astype(np.uint8)[order], digits.target[order]
    np.savez(folder / "public.npz", x=x[:800], y=y[:800])
    for number in range(3):
        rows = slice(800 + 300 * number, 1100 + 300 * number)
        np.savez(folder / f"own{number}.npz", x=x[rows], y=y[rows])
    return fingerprint(x[:800])


def three_sites(folder: Path, **values: Any) -> list[Path]:
    """Files of three sites with data of their own, as `fedballot site init` makes them, with these values."""
    print_, paths = write_data(folder), []
    for number in range(3):
        init_site(folder / f"site{number}", number=number, sites=3, server="localhost:1")
        paths.append(folder / f"site{number}" / "site.toml")
        places = {"private": str(folder / f"own{number}.npz"), "public": str(folder / "public.npz")}
        edit(paths[-1], **places, public_fingerprint=print_, **values)
    return paths


def edit(path: Path, **values: Any) -> None:
    """Change keys of a site.toml, wherever they stand."""
    fill_in(path, values)


def fedballot(*arguments: Any, env: dict[str, str] | None = None, timeout: float = 60) -> subprocess.CompletedProcess:
    """Run the command."""
    line = [sys.executable, "-m", "fedballot.cli", *map(str, arguments)]
    return subprocess.run(line, env=env, capture_output=True, text=True, timeout=timeout)


class Processes:
    """Processes in groups of their own, so that each can be killed with all its children."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self, name: str, *arguments: Any, env: dict[str, str] | None = None, within: tuple[str, ...] = ()
    ) -> subprocess.Popen[bytes]:
        """Start a command of fedballot, ``within`` another one; its output is appended to NAME.log."""
        with self.log(name).open("ab") as stream:
            process = subprocess.Popen(
                [*within, sys.executable, "-m", "fedballot.cli", *map(str, arguments)],
                env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.running[name] = process
        return process

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def kill(self, name: str, sign: int = signal.SIGKILL) -> None:
        """Kill a process with its whole group, or ask it to end."""
        process = self.running.pop(name, None)
        if process is None:
            return
        try:
            os.killpg(process.pid, sign)
            process.wait(timeout=15)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=15)

    def kill_all(self) -> None:
        for name in list(self.running):
            self.kill(name)
        # Flower starts some of its processes in sessions of their own
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"FLWR_HOME={self.folder}/".encode() in (entry / "environ").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)


def wait_until(what: str, holds: Any, seconds: float = 60.0, pause: float = 0.1) -> float:
    """Wait until something holds; returns for how long, fails after the limit, which is an idle machine's.

    Between looks is a pause: what starts processes needs seconds of a processor each time.
    """
    began, limit = time.monotonic(), BUSY * seconds
    while not holds():
        if time.monotonic() - began > limit:
            pytest.fail(f"{what}: not within {limit:g} s")
        time.sleep(pause)
    return time.monotonic() - began


def says(path: Path, words: str, after: int = 0) -> bool:
    """Whether a log holds these words beyond its first ``after`` bytes."""
    return path.exists() and words.encode() in path.read_bytes()[after:]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Federation:
    """A server and three sites with models of different kinds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes = Processes(folder)
        self.patience = 30.0  # seconds in which healthy sites surely answer; more on a busy machine
        self.fleet = free_port()
        self.control = self.fleet if one_port() else free_port()
        self.fingerprint = write_data(folder)
        self.server = init_server(folder / "server", ("localhost",), control=f"127.0.0.1:{self.control}")
        for number, model in enumerate(MODELS):
            self.new_site(f"site{number}", number, model)

    def new_site(self, name: str, number: int, model: str) -> Path:
        place = self.folder / name
        init_site(place, number=number, sites=3, server=f"localhost:{self.fleet}")
        (place / "ca.crt").write_bytes(self.server.authority.read_bytes())
        edit(
            place / "site.toml",
            model=model,
            private=str(self.folder / f"own{number}.npz"),
            public=str(self.folder / "public.npz"),
            public_fingerprint=self.fingerprint,
            largest_epsilon=50.0,
            secure_aggregation=False,
            least_clients=1,
        )
        edit(place / "site.toml", epsilon=1000.0)
        return place

    def site(self, number: int) -> Path:
        return self.folder / f"site{number}"

    def fault(self, number: int, words: str | None) -> Path:
        """Say what goes wrong at a site from now on (None: nothing); returns the file that training writes to."""
        path = self.folder / f"fault{number}"
        began = path.with_name(path.name + ".began")
        began.unlink(missing_ok=True)
        if words is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(words)
        return began

    def start_server(self) -> None:
        arguments = ("server", "start", self.server.path, "--fleet", f"127.0.0.1:{self.fleet}")
        self.processes.start("server", *arguments, env=HEARTBEAT)
        wait_until("SuperLink", lambda: listens(self.fleet) and listens(self.control), 200)

    def add_site(self, name: str) -> None:
        add_site(self.server, name, self.folder / name / "site.key.pub")

    def statuses(self) -> dict[str, str]:
        """By site, as the server tells them; none where it does not answer."""
        with contextlib.suppress(RunError):
            return {site.name: site.status for site in site_list(self.server)}
        return {}

    def start_site(self, number: int, *, wait: bool = True) -> float:
        """Start a site's SuperNode; returns the seconds until it is connected."""
        log = self.processes.log(f"site{number}")
        size = log.stat().st_size if log.exists() else 0
        self.processes.start(
            f"site{number}",
            *("site", "start", self.site(number) / "site.toml"),
            env={**HEARTBEAT, "FEDBALLOT_FAULT": str(self.folder / f"fault{number}")},
        )
        return wait_until(f"site {number}", lambda: says(log, "SuperNode ID", size), 300) if wait else 0.0

    def arguments(self, out: Path, method: str = "pate-fl", **settings: Any) -> list[Any]:
        values = {**RUN, "public_dataset": self.folder / "public.npz", **settings}
        pairs = [word for key, value in values.items() if value is not None for word in ("--set", f"{key}={value}")]
        return ["submit", method, "--server", self.server.path, "--out", out, *pairs]

    def submit(self, name: str, *extra: str, method: str = "pate-fl", timeout: float = 240, **settings: Any) -> Any:
        """Run `fedballot submit`; returns the finished process."""
        return fedballot(*self.arguments(self.folder / name, method, **settings), *extra, timeout=timeout)

    def begin(self, name: str, *, resume: bool = False, method: str = "pate-fl", **settings: Any) -> Submitted:
        """Hand a run to the server, as `fedballot submit` does, and come back at once."""
        values = {"dataset": SITES, **RUN, "public_dataset": str(self.folder / "public.npz"), **settings}
        values = {key: value for key, value in values.items() if value is not None}
        chosen = build(get_method(method).settings, values)
        return submit(self.server, method, chosen, self.folder / name, resume=resume)

    def end(self, run: Submitted) -> dict[str, Any]:
        """Wait for the result of a run; raises what `fedballot submit` would say if there is none."""
        return follow(self.server, run, Silent())

    def run(self, name: str, **settings: Any) -> dict[str, Any]:
        """A whole run, in this process."""
        return self.end(self.begin(name, **settings))

    def result(self, name: str) -> dict[str, Any]:
        return dict(json.loads((self.folder / name / "result.json").read_text()))

    def ledger(self, number: int) -> list[dict[str, Any]]:
        path = self.site(number) / "ledger" / "ledger.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def charges(self, number: int) -> int:
        """How often the site's ledger was charged."""
        return sum(line["kind"] == "charge" for line in self.ledger(number))

    def all_charges(self) -> list[int]:
        """How often each site's ledger was charged."""
        return [self.charges(number) for number in range(3)]

    def releases(self) -> dict[Path, bytes]:
        """What the sites have released."""
        return {path: path.read_bytes() for path in self.folder.glob("site*/ledger/releases/[!.]*.npz")}
