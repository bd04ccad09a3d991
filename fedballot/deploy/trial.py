"""A whole federation on one machine, to try it: server, sites, keys, TLS over gRPC, a first run, and its pages."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import RunError, SettingsError
from fedballot.core.progress import Progress
from fedballot.deploy.addresses import free_port
from fedballot.deploy.flower import one_port
from fedballot.deploy.members import add_site, site_list
from fedballot.deploy.server import ServerFolder, init_server
from fedballot.deploy.supervise import die_too, end
from fedballot.deploy.template import fill_in, init_site

METHOD = "fedauxfdp-sum"
MODEL = "logistic-regression"
PUBLIC, TEST = 500, 300  # records of scikit-learn's digits that are public, the second for testing
PATIENCE_S = 120.0
LOOK_S = 2.0  # between questions to the server, while processes that import need the machine
METHODS = ("fedauxfdp-sum", "private-knn-fl", "poll")
RUN = {
    "epsilon": "1",
    "records": "500",
    "public_size": str(PUBLIC),
    "test_size": str(TEST),
    "secure_aggregation": "true",
}


@dataclass
class Trial:
    """Processes of a federation under one folder; :meth:`end` ends them all."""

    folder: Path
    sites: int
    server: ServerFolder
    fleet: int
    processes: dict[str, subprocess.Popen[bytes]]

    @property
    def public(self) -> Path:
        """The public records."""
        return self.folder / "public.npz"

    def site_file(self, number: int) -> Path:
        """The file of a site."""
        return self.folder / f"site{number}" / "site.toml"

    def start(self, name: str, *arguments: object) -> None:
        """Start a command of fedballot, whose words go to NAME.log."""
        line = [sys.executable, "-m", "fedballot", *map(str, arguments)]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, preexec_fn=_apart
            )

    def ended(self) -> dict[str, str]:
        """Who has ended, with its exit code and last line, in words."""
        found = {}
        for name, process in self.processes.items():
            if process.poll() is not None:
                log = self.folder / f"{name}.log"
                lines = [*filter(None, map(str.strip, log.read_text(errors="replace").splitlines()))]
                found[name] = (
                    f"{name} has ended ({process.returncode}): {lines[-1] if lines else 'no word'} (see {log})"
                )
        return found

    def require_alive(self) -> None:
        """Refuse to go on without one of the processes.

        Raises
        ------
        RunError
            With the last words of the one that has ended.
        """
        for words in self.ended().values():
            raise RunError(words)

    def submit_command(self, out: Path) -> list[str]:
        """The command of the first run, as a user would write it."""
        values = {**RUN, "public_dataset": str(self.public), "clients": str(self.sites), "server_model": MODEL}
        pairs = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
        return ["submit", METHOD, "--server", str(self.server.path), "--out", str(out), *pairs]

    def end(self) -> None:
        """End all processes, those of the sites first."""
        for process in reversed(self.processes.values()):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            end(process)


def prepare(folder: Path, sites: int) -> Trial:
    """A folder with a server's and its sites' files, on real digits that scikit-learn brings.

    Parameters
    ----------
    folder
        Must be new or empty.
    sites
        How many, at least 2; each gets an equal share of the digits that are not public.

    Raises
    ------
    SettingsError
        If the folder is not empty, or the number cannot be.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SettingsError(f"{folder}: exists and is not empty; name a new folder")
    if not 2 <= sites <= 20:
        raise SettingsError(f"--sites {sites}: expected 2 to 20")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fleet = free_port()
    server = init_server(folder / "server", ("localhost",), control=f"127.0.0.1:{fleet if one_port() else free_port()}")
    trial = Trial(folder.absolute(), sites, server, fleet, {})
    print_ = _write_data(trial)
    for number in range(sites):
        place = trial.site_file(number).parent
        init_site(place, number=number, sites=sites, server=f"localhost:{fleet}")
        (place / "ca.crt").write_bytes(server.authority.read_bytes())
        _fill(trial.site_file(number), print_)
    return trial


def start(trial: Trial, progress: Progress) -> None:
    """Start the server, let the sites in, start them, and wait until all are connected.

    Raises
    ------
    RunError
        If a process ends, or they are not connected in :data:`PATIENCE_S`.
    """
    progress.start("starting the server", 1)
    trial.start("server", "server", "start", trial.server.path, "--fleet", f"127.0.0.1:{trial.fleet}")
    _wait(trial, lambda: _answers(trial), "the server")
    progress.start("letting the sites in", trial.sites)
    for number in range(trial.sites):
        add_site(trial.server, f"site{number}", trial.site_file(number).parent / "site.key.pub")
        trial.start(f"site{number}", "site", "start", trial.site_file(number))
        progress.advance()
    progress.start("waiting until all sites are connected", 1)
    _wait(trial, lambda: all(site.status == "online" for site in site_list(trial.server)), "a site")
    progress.stop()


def dashboards(trial: Trial) -> dict[str, str]:
    """Start the pages of the server and of the first site; returns what they show and their addresses."""
    pages = {}
    for name, arguments in {
        "server": ("server", "dashboard", trial.server.path),
        "site0": ("site", "dashboard", trial.site_file(0)),
    }.items():
        port = free_port()
        trial.start(f"{name}-dashboard", *arguments, "--listen", f"127.0.0.1:{port}")
        pages[name] = f"http://127.0.0.1:{port}"
    return pages


def first_run(trial: Trial, out: Path) -> int:
    """Submit the first run as a user would, on this terminal; returns its exit code."""
    line = [sys.executable, "-m", "fedballot", *trial.submit_command(out), "--purpose", "a first try"]
    return subprocess.run(line, check=False).returncode


def shown(line: Sequence[str]) -> str:
    """A command of fedballot as one would type it."""
    return shlex.join(["fedballot", *line])


def digits(rows: slice) -> dict[str, NDArray[Any]]:
    """Some of scikit-learn's digits in a fixed order, of which the first ``PUBLIC + TEST`` are the public ones.

    Parameters
    ----------
    rows
        Which of the 1,797.

    Returns
    -------
    dict
        ``x``: uint8, (n, 8, 8), and ``y``: int64, (n,), as an ``.npz`` file of records holds them.
    """
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    x = np.round(found.images * (255 / 16)).astype(np.uint8)
    return {"x": x[order][rows], "y": found.target[order][rows]}


def site_values(population: str, private: str, public: str, fingerprint: str) -> dict[str, object]:
    """What people would write into a site's file, for :func:`fill_in`; single records are protected."""
    return {
        "model": MODEL,
        "private": private,
        "public": public,
        "public_fingerprint": fingerprint,
        "population": population,
        "unit": "record",
        "delta": 1e-5,
        "methods": METHODS,
    }


def _write_data(trial: Trial) -> str:
    from fedballot.datasets.fingerprint import fingerprint

    public, rest = digits(slice(PUBLIC + TEST)), digits(slice(PUBLIC + TEST, None))
    np.savez_compressed(trial.public, x=public["x"], y=public["y"])
    for number, rows in enumerate(np.array_split(np.arange(len(rest["y"])), trial.sites)):
        place = trial.site_file(number).parent
        place.mkdir(mode=0o700)
        np.savez_compressed(place / "records.npz", x=rest["x"][rows], y=rest["y"][rows])
    return fingerprint(public["x"])


def _fill(path: Path, fingerprint: str) -> None:
    fill_in(path, site_values(f"digits of {path.parent.name}", "records.npz", "../public.npz", fingerprint))


def _answers(trial: Trial) -> bool:
    try:
        site_list(trial.server)
    except RunError:
        return False
    return True


def _wait(trial: Trial, holds: Callable[[], bool], who: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        trial.require_alive()
        if time.monotonic() > deadline:
            raise RunError(f"{who} did not answer in {PATIENCE_S:g} s; the logs are in {trial.folder}")
        time.sleep(LOOK_S)


def _apart() -> None:
    """Out of reach of the terminal's Ctrl-C, which this process passes on; ended with it."""
    os.setpgrp()
    die_too()
