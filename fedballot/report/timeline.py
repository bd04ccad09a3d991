"""What a run did when: the server and its clients on one axis of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from fedballot.core.numbers import count, percent, seconds
from fedballot.report.canvas import bare, canvas, style
from fedballot.report.palette import LIGHT
from fedballot.report.plot import Plot, drawn

UNITS = (("hours", 3600.0, 2.0), ("minutes", 60.0, 5.0), ("seconds", 1.0, 0.0))  # from so many of them on
NAMED = 12  # rounds that have their numbers below them
NUMBERS, CLIENTS, SERVER, HEIGHT = -0.2, 0.0, 1.1, 0.8  # the lanes


@dataclass(frozen=True)
class Round:
    """One round, in seconds from the run's start: the clients were `asked`, and then the server worked until `ended`.

    ``busy`` is the share of the workers' time from ``began`` to ``answered`` that was the clients' own work; None where
    sites do not tell.
    """

    asked: float
    began: float
    answered: float
    ended: float
    busy: float | None


@dataclass(frozen=True)
class Timeline:
    """The rounds of a run, the server's training behind the last, and all else that it did then, in seconds."""

    rounds: tuple[Round, ...]
    training_s: float
    rest_s: float

    @property
    def trained(self) -> float:
        """When the server had learned."""
        return self.rounds[-1].ended + self.training_s

    @property
    def end(self) -> float:
        """Where the axis ends."""
        return self.trained + self.rest_s


def timeline_of(result: Mapping[str, Any]) -> Timeline | None:
    """The timeline of a run; None where its record does not say when its rounds were."""
    records: Sequence[Mapping[str, Any]] = result["rounds"]
    if not records or any(record.get("ended_s") is None for record in records):
        return None
    workers = result["timing"].get("workers") or 0
    rounds: list[Round] = []
    for record in records:
        answered = record["ended_s"] - record["server_s"]
        available, spent = workers * record["wall_s"], record["compute_s"]
        busy = None if spent is None or not available else min(1.0, spent / available)
        asked = min(record["began_s"], answered)
        began = max(asked, answered - record["wall_s"])
        # the first round waits for workers to start
        rounds.append(Round(asked if rounds else began, began, answered, record["ended_s"], busy))
    timing = result["timing"]
    training = timing.get("distill_s") or 0.0
    rest = (timing.get("wall_s") or 0.0) - rounds[-1].ended - training  # less than nothing where a run was taken up
    return Timeline(tuple(rounds), training, max(0.0, rest))


def timeline_figure(timeline: Timeline) -> Figure:
    """Draw the server's work above its clients', whose blocks are filled as high as workers were at work."""
    name, unit = next((name, unit) for name, unit, least in UNITS if timeline.end >= least * unit)
    with style():
        figure, axes = canvas(1.9)

        def block(lane: float, start: float, end: float, colour: str, height: float = 1.0, alpha: float = 1.0) -> None:
            span = [(start / unit, (end - start) / unit)]
            axes.broken_barh(span, (lane, HEIGHT * height), color=LIGHT[colour], alpha=alpha, linewidth=0)

        for number, one in enumerate(timeline.rounds, 1):
            block(CLIENTS, one.asked, one.answered, "sky", alpha=0.45)
            block(CLIENTS, one.began, one.answered, "blue", one.busy or 0.0)
            block(SERVER, one.answered, one.ended, "green")
            if 1 < len(timeline.rounds) <= NAMED:
                middle = (one.asked + one.answered) / 2 / unit
                axes.text(middle, NUMBERS, str(number), ha="center", va="center", color=LIGHT["muted"])
        block(SERVER, 0.0, timeline.rounds[0].asked, "amber")
        block(SERVER, timeline.rounds[-1].ended, timeline.trained, "green")
        block(SERVER, timeline.trained, timeline.end, "faint")
        lanes = {"server": SERVER + HEIGHT / 2, "clients": CLIENTS + HEIGHT / 2}
        if 1 < len(timeline.rounds) <= NAMED:
            lanes["round"] = NUMBERS
        axes.set_yticks([*lanes.values()], [*lanes])
        axes.set_ylim(-0.45, 2.0)
        axes.set_xlim(0, timeline.end / unit or 1.0)
        axes.grid(axis="x")
        bare(axes, "left")
        axes.set_xlabel(f"{name} from the start")
        return figure


def timeline_plot(result: Mapping[str, Any], *, pdf: bool = False) -> Plot | None:
    """The timeline on a run's page; ``pdf`` as for `drawn`."""
    found = timeline_of(result)
    if found is None:
        return None
    rounds = found.rounds
    asked = sum(one.answered - one.asked for one in rounds)
    server = sum(one.ended - one.answered for one in rounds) + found.training_s
    several = f"{count(len(rounds))} rounds" if len(rounds) > 1 else "one round"
    words = [f"amber: the start, {seconds(rounds[0].asked)}"]
    if all(one.busy is None for one in rounds):
        words.append(f"blue: {several} of the sites, {seconds(asked)}, who do not tell how long they worked")
    else:
        busy = sum((one.busy or 0.0) * (one.answered - one.began) for one in rounds) / (asked or 1.0)
        words.append(
            f"blue: {several} of the clients, {seconds(asked)}, filled as high as workers were at work "
            f"({percent(busy, 0)} of their time; the rest waited)"
        )
    words.append(f"green: the server’s own work, {seconds(server)}")
    words += [f"grey: the rest, {seconds(found.rest_s)}"] if found.rest_s > 0.005 * found.end else []
    caption = "; ".join(words) + "."
    figure, alt = timeline_figure(found), f"Timeline of server and clients. {caption}"
    return drawn("Timeline", figure, "timeline", alt, caption, pdf=pdf)
