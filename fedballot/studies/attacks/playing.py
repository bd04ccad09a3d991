"""Runs of an attack on disk: played one after the other, kept, and taken up again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.core import numbers
from fedballot.core.errors import SettingsError
from fedballot.core.files import read_arrays, read_json, write_arrays, write_json
from fedballot.core.progress import Progress
from fedballot.methods.api import Method
from fedballot.settings.parts import CommonSettings
from fedballot.studies.attacks.asking import Table
from fedballot.studies.attacks.reading import Signal

Kept = Mapping[str, npt.NDArray[Any]]

FEWEST = 8  # runs, of which half are shadow runs
QUICK_S = 100.0  # seconds of runs


def claim(folder: Path, method: Method, settings: CommonSettings, asked: Any) -> None:
    """Have a folder hold the runs of one attack only.

    Raises
    ------
    SettingsError
        If it holds those of another.
    """
    wanted = {"method": method.name, "settings": settings.to_dict(machine=False), "asked": asdict(asked)}
    path = folder / "asked.json"
    if path.exists():
        if read_json(path) != wanted:
            raise SettingsError(f"{folder}: holds the runs of another attack or of other settings; name another --out")
    else:
        write_json(path, wanted)


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
    progress.start("runs", runs)
    progress.advance(len(there))
    times: list[float] = []
    for place, number in enumerate(missing):
        clock = time.perf_counter()
        kept = one(number)
        times.append(time.perf_counter() - clock)
        write_arrays(_path(folder, number), {**kept, "seconds": np.array(times[-1])})
        progress.advance()
        if place == min(1, len(missing) - 1):  # the first one also makes what all others find
            if quick:
                runs = min(runs, max(fewest, int(QUICK_S / times[-1]) // multiple * multiple))
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
