"""What came of a run, as an object."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedballot.core.numbers import delta, epsilon, percent
from fedballot.privacy.guarantee import Guarantee, Trust, secure_aggregation
from fedballot.runs.results import Release, load_release, load_result

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from fedballot.model.loaded import Model
    from fedballot.report.view import Headline


@dataclass(frozen=True)
class Result:
    """A run: its folder and the content of its ``result.json`` (``docs/result.md``).

    Attributes
    ----------
    folder : Path
    values : dict
        The whole document.
    """

    folder: Path
    values: Mapping[str, Any] = field(repr=False)

    @classmethod
    def read(cls, folder: str | Path) -> Result:
        """The run in a folder.

        Raises
        ------
        DataError
            If there is none, or its record is damaged.
        """
        return cls(Path(folder), load_result(Path(folder)))

    @property
    def status(self) -> str:
        """``done``, ``running``, ``stopped`` or ``failed``."""
        return str(self.values["status"])

    @property
    def method(self) -> str:
        """The method's name."""
        return str(self.values["method"])

    @property
    def settings(self) -> dict[str, Any]:
        """All settings, resolved."""
        return dict(self.values["settings"])

    @property
    def metrics(self) -> dict[str, Any]:
        """What was measured; empty where the run is not done."""
        return dict(self.values.get("metrics", {}))

    @property
    def accuracy(self) -> float | None:
        """Of the server's model, or the mean of the clients' where the server has none; None: not measured."""
        server = self.metrics.get("server_accuracy")
        clients = self.metrics.get("client_accuracy") or {}
        return clients.get("mean") if server is None else float(server)

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """All that is promised, the one that the settings' epsilon is for first."""
        return tuple(guarantee_of(one) for one in self.values.get("guarantees", []))

    @property
    def guarantee(self) -> Guarantee | None:
        """The first guarantee; its ``sentence()`` can be quoted."""
        return next(iter(self.guarantees), None)

    @property
    def warnings(self) -> list[str]:
        """What makes the result doubtful, and what a privacy officer should know."""
        own = [str(words) for words in self.values.get("warnings", [])]
        return own + (self.guarantee.warnings() if self.guarantee else [])

    @cached_property
    def release(self) -> Release:
        """The arrays that the server received and what it made of them."""
        return load_release(self.folder)

    @cached_property
    def model(self) -> Model:
        """The server's model.

        Raises
        ------
        DataError
            If the run is not done, or its method makes none.
        """
        from fedballot.model.loaded import load

        return load(self.folder)

    def predict(self, x: Any) -> npt.NDArray[Any]:
        """Class words (n,) for new records: arrays, or of a table a data frame; see `Model.predict`."""
        return self.model.predict(x)

    def predict_proba(self, x: Any) -> npt.NDArray[Any]:
        """Probabilities (n, C), columns as ``model.classes``."""
        return self.model.predict_proba(x)

    def report(self, beside: Sequence[Result | str | Path] = ()) -> Path:
        """Write the run's page anew, its figures as PDF too.

        Parameters
        ----------
        beside : sequence of Result or path
            Runs on the same data to stand beside it, such as those of ``standalone`` and ``centralized``.

        Returns
        -------
        Path
            ``report.html``, one self-contained file.

        Raises
        ------
        SettingsError
            If a run beside it is not done, or had other data.
        """
        from fedballot.report.build import write_report

        others = [Path(one.folder if isinstance(one, Result) else one) for one in beside]
        return write_report(self.folder, pdf=True, beside=others)

    def to_frame(self) -> pd.DataFrame:
        """One row: folder, method, settings that differ from their defaults, measures and guarantee."""
        from fedballot.api.frames import frame_of_runs

        return frame_of_runs([self])

    def _repr_html_(self) -> str:
        from fedballot.report.shown import shown
        from fedballot.report.view import headlines

        rows = headlines(
            {"guarantees": [], "communication": {}, "clients": {}, "data": {}, "metrics": {}, **self.values}
        )
        promise = [self.guarantee.sentence()] if self.guarantee else ["No guarantee: no mechanism was applied."]
        return shown(
            f"{self.method} ({self.status}), {self.folder.resolve().name}",
            table_of(rows),
            None,
            [*promise, *self.warnings],
        )

    def __str__(self) -> str:
        parts = [f"{self.method} ({self.status})"]
        if self.accuracy is not None:
            parts.append(f"accuracy {percent(self.accuracy)}")
        if (promise := self.guarantee) is not None and promise.claimed:
            who = f"{promise.unit}, {promise.adjacency}, {promise.trust}, {promise.status}"
            parts.append(f"ε = {epsilon(promise.epsilon)}, δ = {delta(promise.delta)} ({who})")
        return ", ".join([*parts, str(self.folder)])


def table_of(rows: Sequence[Headline]) -> pd.DataFrame:
    """The large figures of a run's page, each with its remark."""
    import pandas as pd

    return pd.DataFrame([{"": row.name, "value": row.value, "remark": row.remark} for row in rows])


def guarantee_of(plain: Mapping[str, Any]) -> Guarantee:
    """The guarantee whose plain values `Guarantee.to_dict` or `worded` gave.

    Raises
    ------
    SettingsError
        If a value is not among those allowed.
    """
    values = {one.name: plain[one.name] for one in fields(Guarantee) if one.name in plain}
    numbers = re.fullmatch(r"secure aggregation \(min_clients=(\d+), colluders=(\d+)\)", plain["trust"])
    trust = secure_aggregation(int(numbers[1]), int(numbers[2])) if numbers else Trust(plain["trust"])
    return Guarantee(
        **{**values, "trust": trust, "epsilon": math.inf if plain["epsilon"] is None else plain["epsilon"]}
    )


def load(folder: str | Path) -> Result:
    """The run in a folder, as :func:`fedballot.run` returned it.

    Raises
    ------
    DataError
        If there is none, or its record is damaged.

    Examples
    --------
    >>> import fedballot as fb  # doctest: +SKIP
    >>> fb.load("runs/demo").metrics["server_accuracy"]  # doctest: +SKIP
    """
    return Result.read(folder)
