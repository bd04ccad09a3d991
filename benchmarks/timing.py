"""How long a command takes on the wall clock, and how much CPU it and all that it starts take."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

SUBREAPER = 36  # prctl: whoever is orphaned below this process becomes its child, so that its CPU time is counted
ORPHANS_S = 20.0  # how long what a command leaves behind may take to end


class CommandFailed(Exception):
    """A command that was to be measured failed, or took too long."""


@dataclass(frozen=True)
class Cost:
    """What one run of a command took.

    Attributes
    ----------
    wall_s : from its start to its end.
    cpu_s : of it and all its descendants, those that outlive it too.
    peak_mb : most memory of them together, shared pages counted once; 0 where that was not watched.
    output : what it printed.
    """

    wall_s: float
    cpu_s: float
    peak_mb: float
    output: str


def cost_of(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, memory: bool = False, limit_s: float = 900
) -> Cost:
    """Run a command and measure it.

    Raises
    ------
    CommandFailed
        If it fails, or takes longer than ``limit_s``; everything that it has started is ended.
    """
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    before, began = _children_cpu(), time.perf_counter()
    process = subprocess.Popen(
        command,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    peak, stop = [0.0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.5):
            peak.append(tree_megabytes(process.pid))

    watcher = threading.Thread(target=watch)
    if memory:
        watcher.start()
    try:
        output, errors = process.communicate(timeout=limit_s)
        wall = time.perf_counter() - began
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise CommandFailed(f"{' '.join(command)}: ended after {limit_s:g} s") from error
        raise
    finally:
        stop.set()
        if memory:
            watcher.join()
        _reap()
    if process.returncode:
        said = f"{output[-2000:]}\n{errors[-2000:]}"
        raise CommandFailed(f"{' '.join(command)}: exit code {process.returncode}\n{said}")
    return Cost(wall, _children_cpu() - before, max(peak), output)


def medians(costs: Sequence[Cost]) -> dict[str, float]:
    """Medians of wall and CPU time and the most memory of repeats, for a record; and how many there were."""
    out = {key: round(statistics.median(asdict(cost)[key] for cost in costs), 3) for key in ("wall_s", "cpu_s")}
    peak = max(cost.peak_mb for cost in costs)
    return {**out, **({"peak_mb": round(peak)} if peak else {}), "repeats": len(costs)}


def machine() -> dict[str, object]:
    """What figures depend on beside the code: date, processor, cores and versions."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    names = ("numpy", "torch", "scikit-learn", "flwr", "ray")
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in names}},
    }


def tree_megabytes(root: int) -> float:
    """Proportional set size of a process and all its descendants, in MB (shared pages count once)."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        children.setdefault(parent, []).append(int(entry.name))
    total, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total / 1e3


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _reap() -> None:
    """Wait for what a command has left behind, and end what does not end."""
    deadline = time.monotonic() + ORPHANS_S
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            if time.monotonic() > deadline:
                _kill_children()
                deadline += ORPHANS_S
            time.sleep(0.01)


def _kill_children() -> None:
    """End the children of this process; each is one of the measured command's."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        if parent == os.getpid():
            os.kill(int(entry.name), signal.SIGKILL)
