"""What a study says while it works."""

from pathlib import Path

import pytest

from fedballot.core import numbers
from fedballot.core.progress import LogProgress
from fedballot.studies import watching
from fedballot.studies.sweep import WAS_DONE, Point


class Lines(LogProgress):
    def __init__(self) -> None:
        super().__init__(every_s=1e9)
        self.lines: list[str] = []

    def _tell(self, text: str) -> None:
        self.lines.append(text)


def test_each_run_is_numbered_and_the_time_left_follows_from_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(watching.time, "monotonic", lambda: now[0])
    points = [Point({"k": str(k)}, Path(f"k={k}")) for k in range(4)]
    lines = Lines()
    watch = watching.Watch(lines, len(points), jobs=1)
    watch.end(points[0], WAS_DONE)
    watch.begin(points[1])
    now[0] = 120.0
    watch.end(points[1], "done")
    watch.begin(points[2])
    assert lines.lines[:2] == ["runs: 0 of 4", "k=0: was done"]
    assert lines.lines[2:5] == ["run 2 of 4: k=1", "k=1: done", f"run 3 of 4: k=2, about {numbers.seconds(240.0)} left"]


def test_runs_side_by_side_share_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(watching.time, "monotonic", lambda: now[0])
    points = [Point({"k": str(k)}, Path(f"k={k}")) for k in range(4)]
    lines = Lines()
    watch = watching.Watch(lines, len(points), jobs=2)
    watch.begin(points[0])
    watch.begin(points[1])
    now[0] = 120.0
    watch.end(points[0], "its process ended")
    watch.begin(points[2])
    assert lines.lines[-1] == f"run 3 of 4: k=2, about {numbers.seconds(120.0)} left"
