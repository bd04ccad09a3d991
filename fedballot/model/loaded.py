"""A model and its class words, from a run's folder or from an exported file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.core.errors import DataError
from fedballot.core.files import read_json
from fedballot.core.metrics import probabilities_of
from fedballot.datasets.schema.contract import Schema
from fedballot.datasets.schema.prepare import Preparation, read_preparation
from fedballot.datasets.schema.toml import read_schema
from fedballot.learners.base import Inputs, Learner
from fedballot.learners.registry import make_learner
from fedballot.model.files import taken_apart
from fedballot.model.inputs import Read, reader
from fedballot.runs.description import FORMAT, NAME

Floats = npt.NDArray[np.float64]
Scores = Callable[[Inputs], Floats]
_KEYS = {"learner", "files", "classes", "multi_label", "shape", "columns", "server_features"}
_KEYS |= {"schema", "preparation", "image_reader"}


@dataclass(frozen=True)
class Model:
    """What predicts.

    Attributes
    ----------
    classes : names of the classes, C.
    shape : of one record.
    columns : names of a table's features in the model's order; empty where they have none.
    multi_label : whether a record may have several of the classes, or none.
    scores : records (n, ...) -> probabilities (n, C).
    read : a file of records -> records; see `fedballot.model.inputs.reader`.
    filled : whether records may lack values (NaN), which are then filled as in the run.
    """

    classes: tuple[str, ...]
    shape: tuple[int, ...]
    columns: tuple[str, ...]
    multi_label: bool
    scores: Scores
    read: Read
    filled: bool = False

    def predict_proba(self, x: Inputs) -> Floats:
        """Probabilities (n, C) of raw records (n, ...): uint8 images, or features, of which float32 are made.

        Of a table they are what :attr:`read` makes of it: its columns in the model's order, of a category the number of
        its word, of a date days since 1970, NaN where a value is missing.

        Raises
        ------
        DataError
            If the records have another shape, or a value is not finite.
        """
        x = np.asarray(x)
        if x.shape[1:] != self.shape:
            raise DataError(f"records have shape {x.shape[1:]}, but the model takes {self.shape}")
        if x.dtype != np.uint8:
            x = x.astype(np.float32)
            if np.isinf(x).any() or (np.isnan(x).any() and not self.filled):
                raise DataError("records hold a value that is not finite; the model was trained without such")
        return self.scores(x)

    def predict(self, x: Inputs) -> npt.NDArray[Any]:
        """The name of the likeliest class (n,); with several labels, whether each is likelier than not, bool (n, C)."""
        said = self.predict_proba(x)
        if self.multi_label:
            return np.asarray(said > 0.5)
        return np.asarray(np.array(self.classes)[said.argmax(axis=1)])


def load(path: str | Path, *, device: str = "cpu") -> Model:
    """Load the model of a run's folder, or one that ``fedballot export`` has written (skops, torch).

    Raises
    ------
    DataError
        If there is none, or it is damaged or of another kind.
    SettingsError
        If a library that it needs is missing.

    Examples
    --------
    >>> model = load("runs/demo")  # doctest: +SKIP
    >>> model.predict(x)  # doctest: +SKIP
    array(['benign', 'malignant'], dtype='<U9')
    """
    path = Path(path)
    return of_run(path, device=device) if path.is_dir() else of_file(path, device=device)


def read_description(folder: Path) -> dict[str, Any]:
    """``model.json`` of a run's folder.

    Raises
    ------
    DataError
        If the run has none: it is not done, or its method makes no model of the server's.
    """
    if not (folder / NAME).is_file():
        raise DataError(
            f"{folder}: has no {NAME}; name the folder of a run that is done, of a method whose server has a model"
        )
    description = read_json(folder / NAME)
    return checked(description, folder / NAME)


def checked(description: Any, where: Path) -> dict[str, Any]:
    """A description of a model.

    Raises
    ------
    DataError
        If it is none, or of a later format.
    """
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise DataError(f"{where}: is no description of a model in the format {FORMAT}")
    missing = sorted(_KEYS - set(description))
    if missing:
        raise DataError(f"{where}: lacks {', '.join(missing)}; it was cut short or edited")
    return description


def learners_of(folder: Path, description: Mapping[str, Any], shape: tuple[int, ...], device: str) -> list[Learner]:
    """The trained learners of a run; what they say is averaged."""
    return [
        make_learner(
            description["learner"],
            n_classes=len(description["classes"]),
            input_shape=shape,
            seed=0,
            device=device,
            epochs=1,
            batch_size=1,
            lr=1e-3,
            role="student",
            multi_label=description["multi_label"],
        ).load(folder / file)
        for file in description["files"]
    ]


def of_run(folder: Path, *, device: str = "cpu") -> Model:
    """The model of a run's folder."""
    return _of_folder(folder, read_description(folder), device)


def of_file(path: Path, *, device: str = "cpu") -> Model:
    """The model in an exported file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    description, saved, beside = taken_apart(content, path)
    checked(description, path)
    with tempfile.TemporaryDirectory(prefix="fedballot-") as scratch:
        files = [Path(name).name for name in description["files"]]
        for name, part in (*zip(files, saved, strict=False), *beside.items()):
            (Path(scratch) / Path(name).name).write_bytes(part)
        return _of_folder(Path(scratch), description | {"files": files}, device)


def _of_folder(folder: Path, description: Mapping[str, Any], device: str) -> Model:
    schema, prepare = read_reading(folder, description)
    shape = tuple(description["shape"])
    steps: list[Callable[[Inputs], Inputs]] = [prepare] if prepare else []
    inside = tuple(prepare(np.zeros((1, *shape), np.float32)).shape[1:]) if prepare else shape
    if description["server_features"]:
        from fedballot.model.features import refitted

        transform, inside = refitted(folder, description["server_features"], device)
        steps.append(transform)
    learners = learners_of(folder, description, inside, device)
    several = bool(description["multi_label"])

    def scores(x: Inputs) -> Floats:
        for step in steps:
            x = step(x)
        return averaged([one.predict_logits(x) for one in learners], several)

    return Model(
        classes=tuple(description["classes"]),
        shape=shape,
        columns=tuple(description["columns"]),
        multi_label=several,
        scores=scores,
        read=reader(schema, shape, description["image_reader"]),
        filled=prepare is not None,
    )


def read_reading(folder: Path, description: Mapping[str, Any]) -> tuple[Schema | None, Preparation | None]:
    """The schema and the preparation that a run's folder holds, or None where it has none.

    Raises
    ------
    DataError
        If one is damaged or gone.
    """
    schema, preparation = (description[key] for key in ("schema", "preparation"))
    return (
        read_schema(folder / Path(schema).name) if schema else None,
        read_preparation(folder / Path(preparation).name) if preparation else None,
    )


def averaged(logits: Sequence[npt.NDArray[np.floating]], multi_label: bool) -> Floats:
    """Mean probabilities (n, C) of several learners' logits."""
    if multi_label:
        return np.asarray(np.mean([1 / (1 + np.exp(-np.clip(one.astype(np.float64), -500, 500))) for one in logits], 0))
    return np.asarray(np.mean([probabilities_of(one) for one in logits], axis=0))
