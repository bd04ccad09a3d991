"""A run beside what its clients reach alone and what all records reach pooled, on the same data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from fedballot.core.errors import SettingsError
from fedballot.core.numbers import epsilon, percent
from fedballot.datasets.spec import FederationSpec
from fedballot.privacy.words import whom
from fedballot.report.canvas import bare, canvas, percent_axis, style
from fedballot.report.palette import LIGHT
from fedballot.report.plot import Plot, drawn
from fedballot.report.tables import Table
from fedballot.runs.results import load_result

ALIKE = ("fingerprint", "n_private", "n_test", "client_sizes")  # of the data
TRAINING = {"augment"}  # says how to train, not on what
ALONE, POOLED = "standalone", "centralized"
NAMES = {ALONE: "clients alone", POOLED: "all records pooled"}
MEASURES = {"accuracy": "accuracy", "auc": "AUC"}


@dataclass(frozen=True)
class Level:
    """What the server's model or those of clients reach: the mean, each client's, and the result it is from."""

    name: str
    whose: Literal["server", "client"]
    mean: float
    each: tuple[float, ...]
    result: Mapping[str, Any]


def load_beside(run: Path, result: Mapping[str, Any], others: Sequence[Path]) -> list[dict[str, Any]]:
    """Read runs that are done and had the same data, dealt out alike.

    Raises
    ------
    SettingsError
        Naming the run and what differs.
    DataError
        A folder that holds no run.
    """
    found = []
    for path in others:
        other = load_result(path)
        for which, one in ((run, result), (path, other)):
            if one["status"] != "done":
                raise SettingsError(f"--beside {path}: {which} is {one['status']}, not done: finish it with --resume")
        if words := _unlike(result, other):
            raise SettingsError(
                f"--beside {path}: had other data than {run}: {words}; run {other['method']} again with the same "
                "data settings and seed"
            )
        found.append(other)
    return found


def _unlike(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """In what the data of two runs differ, or nothing."""
    names = {field.name for field in fields(FederationSpec)} - TRAINING
    pairs = [(name, one["settings"].get(name), other["settings"].get(name)) for name in sorted(names)]
    pairs += [(name, one["data"].get(name), other["data"].get(name)) for name in ALIKE]
    return ", ".join(f"{name} ({own!r} and {its!r})"[:120] for name, own, its in pairs if own != its)


def levels(result: Mapping[str, Any], others: Sequence[Mapping[str, Any]], measure: str) -> list[Level]:
    """Clients alone first, then the run and others, pooled records last; what was not measured is left out."""
    alone = any(one["method"] == ALONE for one in others)
    found = []
    for one in (result, *others):
        metrics, method = one["metrics"], str(one["method"])
        server, client = metrics.get(f"server_{measure}"), metrics.get(f"client_{measure}")
        each = tuple(value for value in metrics.get(f"{measure}_per_client") or () if value is not None)
        if client and server is None:
            found.append(Level(NAMES.get(method, f"{method}’s clients"), "client", client["mean"], each, one))
        elif client and one is result and not alone:  # what its clients had learned before they took part
            found.append(Level(NAMES[ALONE], "client", client["mean"], each, one))
        if server is not None:
            found.append(Level(NAMES.get(method, f"{method}’s server"), "server", server, (), one))
    order = [NAMES[ALONE], NAMES[POOLED]]
    return sorted(found, key=lambda level: -1 if level.name == order[0] else int(level.name == order[1]))


def levels_figure(found: Sequence[Level], measure: str, own: Mapping[str, Any]) -> Figure:
    """Draw a row for each level: its mean, and each client as a dot; the run's own are filled."""
    with style():
        figure, axes = canvas(0.75 + 0.42 * len(found))
        for row, level in enumerate(found):
            if level.each:
                width = max(2.0, min(5.0, 200 / len(level.each)))
                rows = np.full(len(level.each), row)
                axes.plot(level.each, rows, "o", color=LIGHT["sky"], alpha=0.6, markersize=width)
            face = LIGHT["blue"] if level.result is own else "none"
            axes.plot(
                level.mean, row, "D", color=LIGHT["blue"], markersize=7, markerfacecolor=face, markeredgewidth=1.6
            )
            axes.annotate(
                _written(level.mean, measure), (level.mean, row), (0, 7), textcoords="offset points", ha="center"
            )
        values = [value for level in found for value in (level.mean, *level.each)]
        axes.set_yticks(range(len(found)), [level.name for level in found])
        axes.set_ylim(len(found) - 0.5, -0.65)
        if measure == "accuracy":
            percent_axis(axes, "x", min(values), max(values))
        axes.grid(axis="x")
        bare(axes, "left")
        axes.set_xlabel(f"{MEASURES[measure]} on the test records")
        return figure


def beside_plot(result: Mapping[str, Any], others: Sequence[Mapping[str, Any]], *, pdf: bool = False) -> Plot | None:
    """The run between clients alone and pooled records; None where nothing stands beside it."""
    measure, found = measured(result, others)
    if len(found) < 2:
        return None
    own = next((level for level in reversed(found) if level.result is result), None)
    parts = [f"{level.name} {_written(level.mean, measure)}" for level in found]
    caption = "; ".join(parts) + "."
    if own is not None and measure == "accuracy":
        gaps = {level.name: 100 * (own.mean - level.mean) for level in found if level is not own}
        words = [f"{abs(gap):.1f} points {'above' if gap >= 0 else 'below'} {name}" for name, gap in gaps.items()]
        caption += f" So {own.name} stands {', '.join(words)}."
    figure = levels_figure(found, measure, result)
    alt = f"{MEASURES[measure]} of the run beside others on the same data. {caption}"
    return drawn("Clients alone, federated, pooled", figure, "beside", alt, caption, pdf=pdf)


def beside_table(result: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> Table | None:
    """The same as figures, and whom each protects."""
    measure, found = measured(result, others)
    if len(found) < 2:
        return None
    rows = []
    for level in found:
        balanced = (level.result["metrics"].get(f"{level.whose}_measures") or {}).get("balanced_accuracy")
        balanced = balanced["mean"] if isinstance(balanced, Mapping) else balanced
        stated = None if level.name == NAMES[ALONE] else next(iter(level.result["guarantees"]), None)
        promise = ("–", "–") if stated is None else (epsilon(stated["epsilon"]), whom(stated))
        rows.append((level.name, _written(level.mean, measure), percent(balanced), *promise))
    head = ("whose model", MEASURES[measure], "balanced", "ε", "protects")
    return Table("beside", "On the same test records", head, tuple(rows), (0, 4))


def measured(result: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> tuple[str, list[Level]]:
    """Which measure the runs have in common, and their levels; none where nothing stands beside the run."""
    for measure in MEASURES if others else ():
        if len(found := levels(result, others, measure)) > 1:
            return measure, found
    return "accuracy", []


def _written(value: float, measure: str) -> str:
    return percent(value) if measure == "accuracy" else f"{value:.3f}"
