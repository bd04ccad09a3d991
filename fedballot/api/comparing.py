"""Runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fedballot.api.frames import frame_of_runs
from fedballot.api.result import Result

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedballot.report.compare import Comparison as SideBySide


# in a notebook
TOLD = (
    "accuracy",
    "label_accuracy",
    "client_accuracy",
    "epsilon",
    "delta",
    "unit",
    "guarantee",
    "members_found",
    "epsilon_shown",
)


@dataclass(frozen=True)
class Comparison:
    """Runs side by side.

    Attributes
    ----------
    results : tuple of Result
    notes : tuple of str
        What a reader must know before ranking them, such as that their ε speak of different things.
    attacks : tuple of Path
        What was measured of their leakage.
    """

    results: tuple[Result, ...]
    notes: tuple[str, ...]
    attacks: tuple[Path, ...] = ()

    @cached_property
    def _side_by_side(self) -> SideBySide:
        from fedballot.report.compare import compare as side_by_side

        return side_by_side([one.folder for one in self.results], self.attacks)

    def to_frame(self) -> pd.DataFrame:
        """A row for each run; see `frame_of_runs`. With attacks also ``members_found`` and ``epsilon_shown``."""
        frame = frame_of_runs(self.results)
        if self.attacks:
            leaks = [row.leak for row in self._side_by_side.rows]
            frame["members_found"] = [None if leak is None else leak.found for leak in leaks]
            frame["epsilon_shown"] = [None if leak is None else leak.epsilon for leak in leaks]
        return frame

    def figure(self) -> Figure:
        """Accuracy against ε, bytes and, with attacks, members found, unlike guarantees kept apart."""
        from fedballot.report.compare_plot import comparison_figure

        return comparison_figure(self._side_by_side.groups)

    def _repr_html_(self) -> str:
        from fedballot.report.shown import shown

        frame = self.to_frame()
        varying = [name for name in frame.columns[3:] if name in self.results[0].settings and frame[name].nunique() > 1]
        presets = ["preset"] if len({one.values.get("preset") for one in self.results}) > 1 else []
        columns = [name for name in dict.fromkeys(("run", "method", *presets, *varying, *TOLD)) if name in frame]
        return shown(f"{len(self.results)} runs side by side", frame[columns], self.figure(), self.notes)

    def write(self, out: str | Path) -> Path:
        """Write it as a page (``.html``), a table (``.csv``, ``.tex``, ``.md``) or a picture (``.png``, ``.pdf``)."""
        from fedballot.report.compare_page import write_compare

        return write_compare([one.folder for one in self.results], Path(out), self.attacks)


def compare(runs: Sequence[Result | str | Path], *, attacks: Sequence[str | Path] = ()) -> Comparison:
    """Put runs side by side.

    Parameters
    ----------
    runs : sequence of Result or path
    attacks : sequence of path
        Folders that `attack` wrote, or folders of such: what leaks of the same method and settings, measured.

    Raises
    ------
    SettingsError
        If none is given, or an attack is of none of them.
    DataError
        If a folder holds no run, or no attack.
    """
    from fedballot.report.compare import compare as side_by_side

    results = tuple(one if isinstance(one, Result) else Result.read(one) for one in runs)
    known = tuple(Path(one) for one in attacks)
    return Comparison(results, side_by_side([one.folder for one in results], known).notes, known)
