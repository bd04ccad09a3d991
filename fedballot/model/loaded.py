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
from fedballot.datasets.schema.prepare import Preparation
from fedballot.datasets.schema.toml import parse_schema
from fedballot.learners.base import Inputs, Learner
from fedballot.learners.registry import make_learner
from fedballot.model.files import parts_of, taken_apart
from fedballot.model.inputs import Reader, from_frame
from fedballot.runs.description import FORMAT, NAME

Floats = npt.NDArray[np.float64]
Scores = Callable[[Inputs], Floats]
Step = Callable[[Inputs], Inputs]


@dataclass(frozen=True)
class Model:
    """What predicts.

    Attributes
    ----------
    classes : names of the classes, C.
    shape : of one record.
    schema : the contract of a user's own data; None: they are known by name.
    multi_label : whether a record may have several of the classes, or none.
    scores : records (n, ...) -> probabilities (n, C).
    read : a file or folder of records -> records; see `fedballot.model.inputs.Reader`.
    """

    classes: tuple[str, ...]
    shape: tuple[int, ...]
    schema: Schema | None
    multi_label: bool
    scores: Scores
    read: Reader

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of a table's features in the model's order; empty where they have none."""
        return tuple(column.name for column in self.schema.columns) if self.schema and self.schema.tabular else ()

    def predict_proba(self, x: Any) -> Floats:
        """Probabilities (n, C) of raw records.

        Parameters
        ----------
        x
            Records (n, ...): uint8 images, or features, of which float32 are made. Of a table: a data frame with its
            columns; or an array, NaN where a value is missing and the number of the word of a category.

        Raises
        ------
        DataError
            If the records have another shape, or a value is not finite.
        """
        tabular = self.schema is not None and self.schema.tabular
        if self.schema is not None and tabular and hasattr(x, "columns"):
            x = from_frame(self.schema, x)
        x = np.asarray(x)
        if x.shape[1:] != self.shape:
            raise DataError(f"records have shape {x.shape[1:]}, but the model takes {self.shape}")
        if x.dtype != np.uint8:
            try:
                x = x.astype(np.float32)
            except (ValueError, TypeError) as error:
                raise DataError(f"records hold {error}; give words, dates and the like as a data frame") from error
            if (np.isinf(x) if tabular else ~np.isfinite(x)).any():
                raise DataError("records hold a value that is not finite; the model was trained without such")
        return self.scores(x)

    def predict(self, x: Any) -> npt.NDArray[Any]:
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
    wanted = {"learner", "files", "classes", "multi_label", "shape", "features", "schema", "preparation"}
    missing = sorted((wanted | {"columns", "image_reader", "server_features"}) - set(description))
    if missing:
        raise DataError(f"{where}: lacks {', '.join(missing)}; it was cut short or edited")
    return description


def learners_of(folder: Path, description: Mapping[str, Any], device: str) -> list[Learner]:
    """The trained learners of a run; what they say is averaged."""
    return [
        make_learner(
            description["learner"],
            n_classes=len(description["classes"]),
            input_shape=tuple(description["features"]),
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
    description = read_description(folder)
    space = description.get("space", "")  # which older files lack
    if not (space or description["server_features"]):
        return _assembled(folder, description, device)
    from fedballot.model.features import frozen, refitted

    if space:
        features, shape = frozen(folder, space, device)
    else:
        features, shape = refitted(folder, description["server_features"], device)
    return _assembled(folder, {**description, "features": shape}, device, features)


def _assembled(folder: Path, description: Mapping[str, Any], device: str, *steps: Step) -> Model:
    """The model of a folder, with further steps between its preparation and its learners."""
    if told := description.get("encoder"):  # which older files lack
        from fedballot.model.features import encoder_step

        steps = (encoder_step(told), *steps)
    if description["preparation"]:
        steps = (Preparation.load(folder / description["preparation"]), *steps)
    learners = learners_of(folder, description, device)
    several = bool(description["multi_label"])

    def scores(x: Inputs) -> Floats:
        for step in steps:
            x = step(x)
        return averaged([learner.predict_logits(x) for learner in learners], several)

    schema, shape = schema_of(description, folder), tuple(description["shape"])
    read = Reader(schema, shape, description["image_reader"])
    return Model(tuple(description["classes"]), shape, schema, several, scores, read)


def schema_of(description: Mapping[str, Any], folder: Path) -> Schema | None:
    """The contract that a description holds, if any."""
    return parse_schema(description["schema"], folder / NAME) if description["schema"] else None


def of_file(path: Path, *, device: str = "cpu") -> Model:
    """The model in an exported file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    description, saved = taken_apart(content, path)
    checked(description, path)
    with tempfile.TemporaryDirectory(prefix="fedballot-") as scratch:
        names = [Path(name).name for name in parts_of(description)]
        for name, part in zip(names, saved, strict=False):
            (Path(scratch) / name).write_bytes(part)
        return _assembled(Path(scratch), description | {"files": names[: len(description["files"])]}, device)


def averaged(logits: Sequence[npt.NDArray[np.floating]], multi_label: bool) -> Floats:
    """Mean probabilities (n, C) of several learners' logits."""
    if multi_label:
        return np.asarray(np.mean([1 / (1 + np.exp(-np.clip(one.astype(np.float64), -500, 500))) for one in logits], 0))
    return np.asarray(np.mean([probabilities_of(one) for one in logits], axis=0))
