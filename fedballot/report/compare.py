"""Runs side by side, and what a reader must know before ranking them: unlike guarantees are kept apart."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fedballot.core.errors import SettingsError
from fedballot.privacy.words import WEAK, Tone, holds, meaning, tone
from fedballot.report.again import changed_settings
from fedballot.report.groups import Group, groups_of
from fedballot.report.leaks import Shown, beside
from fedballot.runs.results import load_result


@dataclass(frozen=True)
class Row:
    """One run in a comparison. What a run did not measure, or does not guarantee, is None.

    Attributes
    ----------
    number : int
        Place in the comparison, from 1; the mark in the plots.
    name, path, method, status : str
        Folder name, folder, method, and `done`, `running`, `stopped` or `failed`.
    server_accuracy, label_accuracy, client_accuracy : float or None
        Fractions in 0..1; the last is the mean over clients.
    epsilon, delta : float or None
        Of the headline guarantee, the first one of the run; an epsilon of None is no finite ε.
    unit, adjacency, view, trust, guarantee_status : str or None
        What that guarantee speaks of; None where the run has no mechanism.
    n : int or None
        Number of units among which one is protected, where it is known.
    bytes_up : int or None
        Bytes that all clients sent.
    wall_s : float or None
        Seconds.
    settings : mapping
        All of them, resolved.
    changed : tuple of str
        Names of those that are not at their defaults.
    preset : str or None
        The preset that they came from.
    leak : Shown or None
        What an attack on the same method and settings found.
    """

    number: int
    name: str
    path: str
    method: str
    status: str
    server_accuracy: float | None
    label_accuracy: float | None
    client_accuracy: float | None
    epsilon: float | None
    delta: float | None
    unit: str | None
    adjacency: str | None
    view: str | None
    trust: str | None
    guarantee_status: str | None
    n: int | None
    bytes_up: int | None
    wall_s: float | None
    settings: Mapping[str, Any]
    changed: tuple[str, ...]
    preset: str | None = None
    leak: Shown | None = None

    @property
    def tone(self) -> Tone:
        """How the guarantee is to be taken at a glance: good, warn or bad."""
        return tone(self._stated)

    @property
    def protects(self) -> bool:
        """Whether the run's guarantee protects anybody."""
        return holds(self._stated)

    @property
    def _stated(self) -> dict[str, Any]:
        return {**vars(self), "status": self.guarantee_status or "none"}

    @property
    def accuracy(self) -> float | None:
        """The accuracy to plot: the server's, or the clients' mean where there is no server model."""
        return self.client_accuracy if self.server_accuracy is None else self.server_accuracy

    @property
    def meaning(self) -> str | None:
        """What the ε speaks of, in words; only rows of one meaning can be ranked by ε. None: nothing is guaranteed."""
        if self.epsilon is None or self.guarantee_status in (None, "none"):
            return None
        return meaning(self._stated)


@dataclass(frozen=True)
class Comparison:
    """Runs side by side, in the order given, and what a reader must know before ranking them."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The runs, those joined that differ in their seed only."""
        return groups_of(self.rows)


def compare(dirs: list[Path], attacks: Sequence[Path] = ()) -> Comparison:
    """Put runs side by side.

    Parameters
    ----------
    dirs : list of Path
        Run folders, at least one.
    attacks : sequence of Path
        Folders that ``fedballot attack`` wrote, or folders of such.

    Returns
    -------
    Comparison
        One row per folder. Runs that are not done are listed with what is known.

    Raises
    ------
    SettingsError
        No folder is given, or an attack is of none of the runs.
    DataError
        A folder is missing, or is not a run folder (see `load_result`), or holds no attack.
    """
    if not dirs:
        raise SettingsError("compare needs at least one run folder; name those that 'fedballot run' wrote.")
    rows = tuple(_row(number, Path(path)) for number, path in enumerate(dirs, start=1))
    if not attacks:
        return Comparison(rows, tuple(_notes(rows)))
    found, left = beside([(row.method, row.settings) for row in rows], [Path(path) for path in attacks])
    rows = tuple(replace(row, leak=leak) for row, leak in zip(rows, found, strict=True))
    notes = [*_notes(rows), *_leak_notes(rows), *(f"Left out: {words}." for words in left)]
    return Comparison(rows, tuple(notes))


def _leak_notes(rows: tuple[Row, ...]) -> list[str]:
    known = [row.leak for row in rows if row.leak is not None]
    notes = [
        "Members found is what membership inference found, and ε shown a lower bound: who finds nothing proves nothing."
    ]
    if len({(leak.adversary, leak.seen) for leak in known}) > 1:
        notes.append("The attacks have different adversaries or views; what they found is no like.")
    without = [row.name for row in rows if row.leak is None]
    return [*notes, f"Not attacked: {', '.join(without)}."] if without else notes


def _row(number: int, path: Path) -> Row:
    result = load_result(path)
    metrics, guarantees = result.get("metrics", {}), result.get("guarantees", [])
    first = guarantees[0] if guarantees else {}
    return Row(
        number=number,
        name=path.resolve().name,
        path=str(path),
        method=result["method"],
        status=result["status"],
        server_accuracy=metrics.get("server_accuracy"),
        label_accuracy=metrics.get("label_accuracy"),
        client_accuracy=(metrics.get("client_accuracy") or {}).get("mean"),
        epsilon=first.get("epsilon"),
        delta=first.get("delta"),
        unit=first.get("unit"),
        adjacency=first.get("adjacency"),
        view=first.get("view"),
        trust=first.get("trust"),
        guarantee_status=first.get("status"),
        n=first.get("n"),
        bytes_up=result.get("communication", {}).get("bytes_up"),
        wall_s=result.get("timing", {}).get("wall_s"),
        settings=result["settings"],
        changed=tuple(changed_settings(result)),
        preset=result.get("preset"),
    )


def _notes(rows: tuple[Row, ...]) -> list[str]:
    private = [row for row in rows if row.epsilon is not None]
    notes = []
    if len({row.meaning for row in private}) > 1:
        notes.append(
            "These runs give guarantees of different kinds (colour and marker tell them apart): they protect "
            "different units, from different eyes, or rest on different trust. Compare ε only within one colour."
        )
    if len({row.delta for row in private}) > 1:
        notes.append("The runs use different δ; a smaller ε at a larger δ need not be the stronger guarantee.")
    seeded = [row.name for row in rows if (row.guarantee_status or "").startswith("seeded")]
    if seeded:
        notes.append(f"Not private, because the noise was seeded: {', '.join(seeded)}.")
    weak = [row.name for row in private if (row.epsilon or 0.0) > WEAK]
    if weak:
        notes.append(f"An ε above {WEAK:g} excludes next to nothing: {', '.join(weak)}.")
    shamed = [row.name for row in private if row.n is not None and (row.delta or 0.0) >= 1 / row.n]
    if shamed:
        notes.append(
            "δ is at least 1/n, so that publishing one of the n in full, chosen at random, would satisfy it: "
            f"{', '.join(shamed)}."
        )
    without = [row.name for row in rows if row.status == "done" and row.epsilon is None]
    if without:
        notes.append(f"Without a finite ε, at the mark “none”: {', '.join(without)}.")
    unfinished = [f"{row.name} ({row.status})" for row in rows if row.status != "done"]
    if unfinished:
        notes.append(f"Not finished, and not plotted: {', '.join(unfinished)}.")
    return notes
