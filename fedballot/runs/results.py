"""Reading a run folder: `result.json` checked against schema version 1, and the released arrays beside it."""

import json
import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError
from fedballot.core.files import read_arrays

SCHEMA = "1"
STATUSES = ("done", "running", "stopped", "failed")

# Present in every result.json, from the first moment of a run on.
_ALWAYS: dict[str, tuple[type, ...]] = {
    "schema": (str,),
    "status": (str,),
    "method": (str,),
    "settings": (dict,),
    "seed": (int,),
}
# Present once the run is done; a running, stopped or failed run may not have them yet.
_WHEN_DONE: dict[str, tuple[type, ...]] = {
    "metrics": (dict,),
    "classes": (list,),
    "rounds": (list,),
    "guarantees": (list,),
    "communication": (dict,),
    "clients": (dict,),
    "timing": (dict,),
    "versions": (dict,),
    "started": (str,),
    "data": (dict,),
}
_GUARANTEE_KEYS = ("mechanism", "unit", "adjacency", "epsilon", "delta", "view", "trust", "status")


@dataclass(frozen=True)
class Release:
    """What the server received and made of it, as read from `release.npz`; an absent array is None.

    Attributes
    ----------
    query_indices : int64 array (Q,)
        Rows of the public set that were asked about.
    histogram : float or int array (Q, C)
        Noisy class sums.
    labels : int64 array (Q,)
        Labels after the server's post-processing.
    noisy_labels : int64 array (Q,)
        Argmax of `histogram`.
    margins : float32 array (Q,)
        How sure the server was of each label, in the method's own units.
    true_labels : int64 array (Q,)
        For measuring only; -1 where unknown.
    images : uint8 array (k, h, w) or (k, h, w, 3)
        Pictures of some queries.
    image_rows : int64 array (k,)
        For every picture its position among the Q queries.
    """

    query_indices: NDArray[Any] | None = None
    histogram: NDArray[Any] | None = None
    labels: NDArray[Any] | None = None
    noisy_labels: NDArray[Any] | None = None
    margins: NDArray[Any] | None = None
    true_labels: NDArray[Any] | None = None
    images: NDArray[Any] | None = None
    image_rows: NDArray[Any] | None = None

    @property
    def leads(self) -> NDArray[np.float64] | None:
        """Noisy votes (Q,) for the released label less those for the best other class; negative where it lost."""
        if self.histogram is None or self.labels is None or self.histogram.shape[1] < 2:
            return None
        votes = self.histogram.astype(np.float64)
        rows = np.arange(len(votes))
        own = votes[rows, self.labels]
        votes[rows, self.labels] = -np.inf
        lead: NDArray[np.float64] = own - votes.max(axis=1)
        return lead


def load_result(run_dir: Path) -> dict[str, Any]:
    """Read and check `result.json` of a run folder.

    Parameters
    ----------
    run_dir : Path
        Folder that a run wrote.

    Returns
    -------
    dict
        The document, as `docs/result.md` describes it. A run that is not done may lack parts.

    Raises
    ------
    DataError
        The folder or file is missing, is not complete JSON, has another schema version, lacks a required key,
        or holds a value of the wrong type or a number that is not finite.
    """
    path = Path(run_dir) / "result.json"
    document = _read_json(path)
    if not isinstance(document, dict):
        raise DataError(f"{path}: expected an object, found {type(document).__name__}; is this a run folder?")
    if "schema" not in document:
        raise DataError(f"{path}: no key 'schema', so not a result of fedballot; name a folder that a run wrote.")
    if document["schema"] != SCHEMA:
        raise DataError(
            f"{path}: schema {document['schema']!r}, but this version of fedballot reads {SCHEMA!r}; "
            "use the version that wrote it (see 'versions' in the file) or run again."
        )
    _check_types(path, document, _ALWAYS)
    if document["status"] not in STATUSES:
        raise DataError(f"{path}: status {document['status']!r}; allowed are {', '.join(STATUSES)}.")
    if document["status"] == "done":
        _check_types(path, document, _WHEN_DONE)
    else:
        _check_types(path, document, {key: kinds for key, kinds in _WHEN_DONE.items() if key in document})
    _check_guarantees(path, document.get("guarantees", []))
    _check_metrics(path, document.get("metrics", {}))
    return document


def load_release(run_dir: Path) -> Release:
    """Read `release.npz` of a run folder; a folder without one gives a Release with nothing in it.

    Parameters
    ----------
    run_dir : Path
        Folder that a run wrote.

    Returns
    -------
    Release
        The arrays that are there; keys that are not known are left out.

    Raises
    ------
    DataError
        The file cannot be read, holds Python objects, or its arrays do not fit each other.
    """
    path = Path(run_dir) / "release.npz"
    if not path.exists():
        return Release()
    known = [field.name for field in fields(Release)]
    arrays = read_arrays(path)
    release = Release(**{name: arrays[name] for name in known if name in arrays})
    _check_release(path, release)
    return release


def _read_json(path: Path) -> Any:
    def refuse(constant: str) -> NoReturn:
        raise DataError(f"{path}: has {constant}, which is no JSON number; what was not measured must be null.")

    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        what = "has no result.json" if path.parent.is_dir() else "is not a folder"
        raise DataError(f"{path.parent}: {what}; name a folder that 'fedballot run' wrote.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from error
    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}: not complete JSON ({error.msg} at line {error.lineno}, column {error.colno}); it was "
            "cut short or edited. Finish the run with --resume, or run again."
        ) from error
    except RecursionError:
        raise DataError(f"{path}: nested too deeply to be a result of fedballot.") from None


def _check_types(path: Path, document: dict[str, Any], wanted: dict[str, tuple[type, ...]]) -> None:
    for key, kinds in wanted.items():
        if key not in document:
            raise DataError(f"{path}: required key {key!r} is missing; finish the run with --resume.")
        value = document[key]
        if not isinstance(value, kinds) or isinstance(value, bool):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise DataError(f"{path}: {key!r} is {type(value).__name__}, expected {expected}.")


def _check_guarantees(path: Path, guarantees: list[Any]) -> None:
    for row, guarantee in enumerate(guarantees):
        where = f"{path}: guarantees[{row}]"
        if not isinstance(guarantee, dict):
            raise DataError(f"{where} is {type(guarantee).__name__}, expected an object.")
        missing = [key for key in _GUARANTEE_KEYS if key not in guarantee]
        if missing:
            raise DataError(f"{where} lacks {', '.join(missing)}; a guarantee without them says nothing.")
        for key in ("epsilon", "delta"):
            value = guarantee[key]
            if value is not None and not (_is_number(value) and math.isfinite(value) and value >= 0):
                raise DataError(f"{where}: {key} is {value!r}, expected a number >= 0 or null.")


def _check_metrics(path: Path, metrics: dict[str, Any]) -> None:
    for name, value in metrics.items():
        if not name.endswith(("accuracy", "accuracy_per_class", "accuracy_per_client")):
            continue
        values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
        for number in values:
            if number is not None and (not _is_number(number) or not 0 <= number <= 1):
                raise DataError(f"{path}: metrics.{name} holds {number!r}, expected a fraction in 0..1 or null.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_release(path: Path, release: Release) -> None:
    per_query = {
        name: array
        for name in ("query_indices", "labels", "noisy_labels", "margins", "true_labels", "histogram")
        if (array := getattr(release, name)) is not None
    }
    for name, array in per_query.items():
        dimensions = 2 if name == "histogram" else 1
        if array.ndim != dimensions:
            raise DataError(f"{path}: {name} has shape {array.shape}, expected {dimensions} dimension(s).")
        if name in ("margins", "histogram") and not np.isfinite(array).all():
            raise DataError(f"{path}: {name} holds values that are not finite.")
    for name in ("labels", "noisy_labels"):
        classes = None if release.histogram is None else release.histogram.shape[1]
        array = per_query.get(name)
        if array is not None and classes and len(array) and not 0 <= array.min() <= array.max() < classes:
            raise DataError(f"{path}: {name} must lie in 0..{classes - 1}, the columns of the histogram.")
    lengths = {name: len(array) for name, array in per_query.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"{path}: arrays differ in the number of queries: {lengths}.")
    images, rows = release.images, release.image_rows
    if images is None:
        return
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] != 3):
        raise DataError(f"{path}: images are {images.dtype} {images.shape}, expected uint8 (k, h, w) or (k, h, w, 3).")
    queries = next(iter(lengths.values()), 0)
    if rows is None or rows.shape != (len(images),):
        raise DataError(f"{path}: image_rows must give one position for each of the {len(images)} images.")
    if len(rows) and (rows.min() < 0 or rows.max() >= queries):
        raise DataError(f"{path}: image_rows must lie in 0..{queries - 1}, the positions of the queries.")
