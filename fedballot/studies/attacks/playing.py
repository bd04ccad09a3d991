"""Runs of an attack on disk: played one after the other, kept, and taken up again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.core import numbers
from fedballot.core.errors import SettingsError
from fedballot.core.files import read_arrays, read_json, write_arrays, write_json
from fedballot.core.folders import held
from fedballot.core.progress import Progress
from fedballot.datasets.federation import FederatedData
from fedballot.datasets.fingerprint import fingerprint
from fedballot.methods.api import Method
from fedballot.settings.parts import CommonSettings
from fedballot.studies.attacks.asking import Table
from fedballot.studies.attacks.reading import Signal

Kept = Mapping[str, npt.NDArray[Any]]

FEWEST = 8  # runs, of which half are shadow runs
QUICK_S = 100.0  # seconds of runs


@contextmanager
def claimed(folder: Path, method: Method, settings: CommonSettings, asked: Any, data: FederatedData) -> Iterator[None]:
    """Have a folder hold the runs of one attack on the same records only, and keep other processes out in the block.

    What clients keep stays where the block is left by an error, for whoever goes on. But without a whole run it is
    taken away: others' answers would be those of clients that have seen some of the rounds only.

    Raises
    ------
    SettingsError
        If it holds those of another.
    RunError
        If another process works there.
    """
    records = {"public": data.public_fingerprint, "private": [fingerprint(data.private.x), fingerprint(data.private.y)]}
    asks = {"settings": settings.to_dict(machine=False), "asked": asdict(asked)}
    wanted = {"method": method.name, **asks, "records": records}
    work, path = folder / "work", folder / "asked.json"
    with held(folder, "attack"):
        begun = any((folder / "runs").glob("*.npz"))
        if not begun:
            shutil.rmtree(work, ignore_errors=True)
            write_json(path, wanted)
        elif read_json(path) != wanted:
            raise SettingsError(
                f"--out {folder}: holds the runs of another attack, of other settings or other records; name another"
            )
        yield
        shutil.rmtree(work, ignore_errors=True)


def play(
    one: Callable[[int], Kept],
    folder: Path,
    progress: Progress,
    runs: int,
    *,
    quick: bool,
    fewest: int = FEWEST,
    multiple: int = 2,
) -> tuple[list[Kept], float]:
    """Play the runs that are missing, keep each, and read all of them.

    Parameters
    ----------
    one
        Plays the run of a number, and gives what is kept of it.
    quick
        As many runs as fit into `QUICK_S`, ``runs`` at most and ``fewest`` at least, and a multiple of ``multiple``.

    Returns
    -------
    list of mappings
        Of each run what was kept, and ``seconds``.
    float
        Seconds of a run.
    """
    there = [number for number in range(runs) if _path(folder, number).exists()]
    missing = [number for number in range(runs) if number not in set(there)]
    timed = min(2, len(missing)) if quick else 0  # runs that tell how many there will be
    progress.start("runs, to see how long they take" if timed else "runs", timed or runs)
    progress.advance(0 if timed else len(there))
    times: list[float] = []
    for place, number in enumerate(missing):
        clock = time.perf_counter()
        kept = one(number)
        times.append(time.perf_counter() - clock)
        write_arrays(_path(folder, number), {**kept, "seconds": np.array(times[-1])})
        progress.advance()
        if place == min(1, len(missing) - 1):  # the first one also makes what all others find
            if quick:
                runs = min(runs, max(fewest, len(there), int(QUICK_S / times[-1]) // multiple * multiple))
                progress.start("runs", runs)
                progress.advance(len(there) + place + 1)
            left = numbers.seconds(max(0, runs - len(there) - place - 1) * times[-1])
            progress.note(f"{runs} runs of {numbers.seconds(times[-1])}: about {left} left")
        if len(there) + place + 1 >= runs:
            break
    progress.stop()
    found: list[Kept] = [read_arrays(_path(folder, number)) for number in range(runs) if _path(folder, number).exists()]
    found = found[: len(found) // multiple * multiple]
    return found, float(np.median([float(kept["seconds"]) for kept in found]))


def heard(table: Table, draw: Callable[[int], npt.NDArray[Any]], number: int) -> Kept:
    """Play a run in the world of its number, which ``draw`` gives as ``world.of`` takes it.

    Returns
    -------
    mapping
        ``scores`` (R, P, f), ``right`` (R, P), ``main``, ``log_odds``, ``world``.
    """
    world = draw(number)
    return {**_as_arrays(table.play(world)), "world": world}


def _path(folder: Path, number: int) -> Path:
    return folder / "runs" / f"{number:05d}.npz"


def _as_arrays(signals: Sequence[Signal]) -> dict[str, npt.NDArray[Any]]:
    if not signals:
        raise SettingsError("the target was asked in no round: set participation=1, or more rounds")
    return {
        "scores": np.stack([signal.scores for signal in signals]).astype(np.float32),
        "right": np.stack([signal.right for signal in signals]).astype(np.float32),
        "main": np.array(signals[0].main),
        "log_odds": np.array(signals[0].log_odds),
    }
