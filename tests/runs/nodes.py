"""A real Ray cluster on this machine: its nodes in network namespaces of their own, or, without root, side by side."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from fedballot.core.errors import RunError
from tests import namespaces

ROOT = Path(__file__).parents[2]
HUB, HOST, NETWORK = "fbray", "fbray{}", "10.78.0.{}"
PORT = 26379
SLOW_MACHINE = {"RAY_raylet_start_wait_time_s": "120"}
MOST = 6  # nodes
HOSTS = {HOST.format(number): NETWORK.format(number + 1) for number in range(MOST)}


class Nodes:
    """Nodes of one cluster, the first of which is its head; each can be killed, stopped and made to go on."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._started = folder, dict[int, subprocess.Popen[bytes]]()
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            **SLOW_MACHINE,
            **environment,
        }
        self.environment.pop("RAY_ADDRESS", None)
        self.apart = not namespaces.why_not() and self._joined()

    def _joined(self) -> bool:
        try:
            namespaces.join(HUB, HOSTS)
        except subprocess.CalledProcessError:
            return False
        return True

    def place(self, number: int) -> str:
        return NETWORK.format(number + 1) if self.apart else "127.0.0.1"

    @property
    def address(self) -> str:
        return f"{self.place(0)}:{PORT}"

    def within(self, number: int) -> list[str]:
        return ["ip", "netns", "exec", HOST.format(number)] if self.apart else []

    def start(self, number: int, *, mounted: tuple[Path, Path] | None = None, **environment: str) -> None:
        """Start a node and wait for it; ``mounted``: a folder, and which one it is there."""
        head = ["--head", f"--port={PORT}", f"--temp-dir={self._folder}", "--include-dashboard=false"]
        where = head if number == 0 else [f"--address={self.address}"]
        first = 27000 + 100 * number
        options = [
            *where,
            f"--node-ip-address={self.place(number)}",
            *(f"--min-worker-port={first}", f"--max-worker-port={first + 99}"),
            *("--num-cpus=1", "--object-store-memory=100000000", "--disable-usage-stats", "--block"),
            "--include-log-monitor=false",  # two seconds of a processor, for words that nobody reads
        ]
        command = [str(Path(sys.executable).with_name("ray")), "start", *options]
        if mounted:
            command = ["sh", "-c", 'mount --bind "$1" "$0" && shift && exec "$@"', *map(str, mounted), *command]
        for last in (False, True):  # now and then Ray's own start hangs
            words = self._begin(number, [*self.within(number), *command], {**self.environment, **environment})
            if not words:
                return
            if last:
                raise RunError(f"node {number} did not start: {words}")
            self.kill(number)

    def _begin(self, number: int, command: list[str], environment: dict[str, str]) -> str:
        """What a node has said that has not started within two minutes; empty once it has."""
        log = self._folder / f"node{number}.txt"
        with log.open("wb") as stream:
            process = subprocess.Popen(command, env=environment, start_new_session=True, stdout=stream, stderr=stream)
        self._started[number] = process
        deadline = time.monotonic() + 120
        while "Ray runtime started" not in (words := log.read_text()):  # two at once would take the same socket
            if time.monotonic() > deadline or process.poll() is not None:
                return words or "nothing"
            time.sleep(0.05)
        return ""

    def signal(self, number: int, what: signal.Signals, name: str = "") -> None:
        """Send a signal to all processes of a node, or those of this name."""
        for process in self._processes(number):
            if name in _command(process):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, what)

    def runs(self, number: int, name: str) -> bool:
        """Whether a process of this name runs on a node."""
        return any(name in _command(process) for process in self._processes(number))

    def kill(self, number: int) -> None:
        """A power cut: nothing of a node can say good-bye."""
        self.signal(number, signal.SIGKILL)
        self._started.pop(number).wait()

    def _processes(self, number: int) -> list[int]:
        children: dict[int, list[int]] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
        out = [self._started[number].pid]
        for process in out:
            out += children.get(process, [])
        return out

    def close(self) -> None:
        for number in list(self._started):
            self.kill(number)
        if self.apart:
            namespaces.clear(HUB, HOSTS)

    # whoever asks

    def driver(self, *words: object, **environment: str) -> subprocess.Popen[str]:
        """The command line, on the head's host."""
        return subprocess.Popen(
            [*self.within(0), sys.executable, *map(str, words)],
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def _command(process: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    return ""


@contextlib.contextmanager
def nodes(folder: Path, **environment: str) -> Iterator[Nodes]:
    """A cluster of one node, its head."""
    cluster = Nodes(folder, environment)
    try:
        cluster.start(0)
        yield cluster
    finally:
        cluster.close()
