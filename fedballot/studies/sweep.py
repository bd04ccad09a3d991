"""Many runs of one method over a grid of settings: resumable, several at a time, and one table of what came out.

Runs have folders of their own and share a process beside this one, which imports and starts its workers once; where
that is killed, it takes one run along, and the next run gets another.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_origin

import numpy as np

from fedballot.core.errors import DataError, SettingsError
from fedballot.core.files import read_json
from fedballot.core.setting import types_of
from fedballot.core.stopping import stoppable
from fedballot.core.words import split_outside
from fedballot.privacy.words import meaning
from fedballot.runs.results import load_result
from fedballot.settings.layers import parse_assignments
from fedballot.settings.parts import CommonSettings
from fedballot.studies.runner import DONE, Runner

SEED = "seed"
WAS_DONE = "was done"
LONGEST_NAME = 200  # bytes of a folder's name; most file systems take 255


@dataclass(frozen=True)
class Point:
    """One run of a grid: the values of the settings that vary, and its folder."""

    values: Mapping[str, str]
    folder: Path

    @property
    def cell(self) -> tuple[tuple[str, str], ...]:
        """The values without the seed: runs of one cell are averaged."""
        return tuple((key, value) for key, value in self.values.items() if key != SEED)

    def told(self, outcome: str) -> str:
        """What became of the run, behind those of its values that the words do not begin with themselves."""
        words = [f"{key}={value}" for key, value in self.values.items() if not outcome.startswith(f"{key}=")]
        return f"{','.join(words)}: {outcome}" if words else outcome


@dataclass(frozen=True)
class Row:
    """A cell of the grid as its runs measured it, over ``seeds`` of them; None: not measured.

    ``meaning`` says what ``epsilon`` and ``delta`` speak of, those of the runs' first guarantee.
    ``per_round`` is the mean accuracy after each round, averaged over the runs, and ``failed`` says why runs failed.
    """

    values: Mapping[str, str]
    seeds: int
    accuracy: float | None
    spread: float | None
    epsilon: float | None
    claimed_epsilon: float | None
    delta: float | None
    meaning: str
    bytes_per_query: float | None
    per_round: tuple[float, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True)
class Shared:
    """What all runs of a study have in common; ``track`` names their trackers."""

    method: str
    preset: str | None
    config: Path | None
    values: Mapping[str, str]
    track: str = ""


def values_of(word: str, *, is_tuple: bool) -> list[str]:
    """The values in ``a,b,c``; where commas belong to a value, as in a list of models, semicolons part them."""
    return [value.strip() for value in split_outside(word, ";" if is_tuple or ";" in word else ",")]


def grid(kind: type[CommonSettings], pairs: Sequence[str], out: Path) -> tuple[dict[str, str], list[Point]]:
    """What is fixed, and one point for each combination of the values that vary.

    Raises
    ------
    SettingsError
        If nothing varies, a value is empty, or a setting does not exist.
    """
    hints = types_of(kind)
    fixed: dict[str, str] = {}
    varied: dict[str, list[str]] = {}
    for key, word in parse_assignments(pairs).items():
        name = key.replace("-", "_")
        values = values_of(word, is_tuple=get_origin(hints.get(name)) is tuple)
        if len(values) == 1:
            fixed[name] = word
            continue
        if not all(values) or len(set(values)) < len(values):
            raise SettingsError(f"--set {key}={word!r} names a value twice or an empty one")
        varied[name] = values
    if not varied:
        raise SettingsError("a sweep needs a setting with several values, such as --set k=18,60,120; else use run")
    return fixed, points_of(varied, out)


def points_of(varied: Mapping[str, Sequence[str]], out: Path) -> list[Point]:
    """A run for each combination of the values, in a folder under ``out`` that is named for them."""
    points = []
    for combination in itertools.product(*varied.values()):
        chosen = dict(zip(varied, combination, strict=True))
        points.append(Point(chosen, out / folder_name(chosen)))
    return points


def folder_name(values: Mapping[str, str]) -> str:
    """A folder's name for these values, cut where file systems would not take it."""
    words = ",".join(f"{key}={value}" for key, value in values.items())
    name = "".join(c if c.isalnum() or c in "=.,_-" else "_" for c in words)
    return (
        name
        if len(name.encode()) <= LONGEST_NAME
        else f"{name[:100]}-{hashlib.sha256(words.encode()).hexdigest()[:16]}"
    )


def is_done(folder: Path) -> bool:
    """Whether the run in a folder has come to its end."""
    path = folder / "result.json"
    return path.exists() and read_json(path).get("status") == "done"


def run_all(
    points: Sequence[Point],
    shared: Shared,
    *,
    jobs: int,
    report: Callable[[Point, str], None],
    begin: Callable[[Point], None] = lambda point: None,
) -> dict[Path, str]:
    """Run every point that is not done, ``jobs`` at a time; a run that was begun is taken up.

    Parameters
    ----------
    report
        Called with each point and what became of it: "done", "was done", or why it failed.
    begin
        Called with each point whose run begins.

    Returns
    -------
    dict
        Why runs failed, by folder: one that failed early has none.

    Raises
    ------
    KeyboardInterrupt
        If it was stopped, by SIGTERM too: the runs that are going on are stopped, and no other is started.
    """
    waiting = deque(points)
    runners: list[Runner] = []
    failures: dict[Path, str] = {}

    def work() -> None:
        with Runner() as runner:
            runners.append(runner)
            while (point := _next(waiting)) is not None:
                if is_done(point.folder):
                    report(point, WAS_DONE)
                    continue
                begin(point)
                said = runner.run(point, shared)
                if not said.startswith(DONE):
                    failures[point.folder] = said
                report(point, said)

    with stoppable(), ThreadPoolExecutor(jobs) as pool:
        try:
            for thread in [pool.submit(work) for _ in range(min(jobs, len(points)))]:
                thread.result()
        except BaseException:
            waiting.clear()
            for runner in runners:
                runner.stop()
            raise
    return failures


def _next(waiting: deque[Point]) -> Point | None:
    with suppress(IndexError):  # several threads take from it
        return waiting.popleft()
    return None


def rows(points: Sequence[Point], failures: Mapping[Path, str] | None = None) -> list[Row]:
    """One row for each cell of the grid, in its order; ``failures`` of runs that may have left no folder."""
    cells: dict[tuple[tuple[str, str], ...], list[Point]] = {}
    for point in points:
        cells.setdefault(point.cell, []).append(point)
    return [_row(dict(cell), members, failures or {}) for cell, members in cells.items()]


def _row(values: Mapping[str, str], points: Sequence[Point], failures: Mapping[Path, str]) -> Row:
    results, failed = [], []
    for point in points:
        try:
            result = load_result(point.folder)
        except DataError as error:
            why = failures.get(point.folder)
            failed.append(point.told(why) if why else str(error))
            continue
        if result["status"] == "done":
            results.append(result)
        else:
            failed.append(str(result.get("error") or point.told(result["status"])))
    accuracies = [value for result in results if (value := _accuracy(result)) is not None]
    first = results[0] if results else {}
    guarantees = first.get("guarantees", [])
    claims = [one["epsilon"] for one in guarantees if one["status"] == "paper's claim"]
    histories = [history for result in results if (history := _per_round(result))]
    return Row(
        values=values,
        seeds=len(results),
        accuracy=float(np.mean(accuracies)) if accuracies else None,
        spread=float(np.std(accuracies)) if len(accuracies) > 1 else None,
        epsilon=guarantees[0]["epsilon"] if guarantees else None,
        claimed_epsilon=claims[0] if claims else None,
        delta=guarantees[0]["delta"] if guarantees else None,
        meaning=meaning(guarantees[0]) if guarantees else "–",
        bytes_per_query=_bytes_per_query(first) if first else None,
        per_round=tuple(np.mean(histories, axis=0)) if histories else (),
        failed=tuple(failed),
    )


def _accuracy(result: Mapping[str, Any]) -> float | None:
    """Of the server's model, or the mean of the clients' where the server has none."""
    metrics = result["metrics"]
    if metrics.get("server_accuracy") is not None:
        return float(metrics["server_accuracy"])
    client = metrics.get("client_accuracy")
    return float(client["mean"]) if client else None


def _per_round(result: Mapping[str, Any]) -> list[float]:
    found = [record["metrics"].get("client_accuracy") for record in result["rounds"]]
    return [float(entry["mean"]) for entry in found] if all(found) else []


def _bytes_per_query(result: Mapping[str, Any]) -> float | None:
    """What one client sends about one public record."""
    settings, answered = result["settings"], result["clients"]["answered"]
    queries = min(settings.get("queries") or settings["public_size"], settings["public_size"])
    return float(result["communication"]["bytes_up"]) / (answered * queries) if answered else None
