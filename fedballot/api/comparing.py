"""Runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedballot.api.frames import frame_of_runs
from fedballot.api.result import Result

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


TOLD = ("accuracy", "label_accuracy", "client_accuracy", "epsilon", "delta", "unit", "guarantee")  # in a notebook


@dataclass(frozen=True)
class Comparison:
    """Runs side by side.

    Attributes
    ----------
    results : tuple of Result
    notes : tuple of str
        What a reader must know before ranking them, such as that their ε speak of different things.
    """

    results: tuple[Result, ...]
    notes: tuple[str, ...]

    def to_frame(self) -> pd.DataFrame:
        """A row for each run; see `frame_of_runs`."""
        return frame_of_runs(self.results)

    def figure(self) -> Figure:
        """Accuracy against ε and against bytes, unlike guarantees kept apart."""
        from fedballot.report.compare import compare as side_by_side
        from fedballot.report.compare_plot import comparison_figure

        return comparison_figure(side_by_side([one.folder for one in self.results]).groups)

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

        return write_compare([one.folder for one in self.results], Path(out))


def compare(runs: Sequence[Result | str | Path]) -> Comparison:
    """Put runs side by side.

    Parameters
    ----------
    runs : sequence of Result or path

    Raises
    ------
    SettingsError
        If none is given.
    DataError
        If a folder holds no run.
    """
    from fedballot.report.compare import compare as side_by_side

    results = tuple(one if isinstance(one, Result) else Result.read(one) for one in runs)
    return Comparison(results, side_by_side([one.folder for one in results]).notes)
