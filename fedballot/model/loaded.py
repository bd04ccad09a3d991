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
from fedballot.learners.base import Inputs, Learner
from fedballot.learners.registry import make_learner
from fedballot.model.files import taken_apart
from fedballot.model.inputs import Read, reader
from fedballot.runs.description import FORMAT, NAME

Floats = npt.NDArray[np.float64]
Scores = Callable[[Inputs], Floats]


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
    """

    classes: tuple[str, ...]
    shape: tuple[int, ...]
    columns: tuple[str, ...]
    multi_label: bool
    scores: Scores
    read: Read

    def predict_proba(self, x: Inputs) -> Floats:
        """Probabilities (n, C) of raw records (n, ...): uint8 images, or features, of which float32 are made.

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
            if not np.isfinite(x).all():
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
    missing = [key for key in ("learner", "files", "classes", "shape", "columns") if key not in description]
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
    description = read_description(folder)
    shape = tuple(description["shape"])
    prepare: Callable[[Inputs], Inputs] = lambda x: x  # noqa: E731
    inside = shape
    if description["server_features"]:
        from fedballot.model.features import refitted

        prepare, inside = refitted(folder, description["server_features"], device)
    learners = learners_of(folder, description, inside, device)
    several = bool(description["multi_label"])
    return new_model(description, lambda x: averaged([one.predict_logits(prepare(x)) for one in learners], several))


def of_file(path: Path, *, device: str = "cpu") -> Model:
    """The model in an exported file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    description, saved = taken_apart(content, path)
    checked(description, path)
    with tempfile.TemporaryDirectory(prefix="fedballot-") as scratch:
        for name, part in zip(description["files"], saved, strict=False):
            (Path(scratch) / Path(name).name).write_bytes(part)
        files = [Path(name).name for name in description["files"]]
        learners = learners_of(Path(scratch), description | {"files": files}, tuple(description["shape"]), device)
    several = bool(description["multi_label"])
    return new_model(description, lambda x: averaged([one.predict_logits(x) for one in learners], several))


def averaged(logits: Sequence[npt.NDArray[np.floating]], multi_label: bool) -> Floats:
    """Mean probabilities (n, C) of several learners' logits."""
    if multi_label:
        return np.asarray(np.mean([1 / (1 + np.exp(-np.clip(one.astype(np.float64), -500, 500))) for one in logits], 0))
    return np.asarray(np.mean([probabilities_of(one) for one in logits], axis=0))


def new_model(description: Mapping[str, Any], scores: Scores) -> Model:
    """A model as a description says, whose probabilities come from ``scores``."""
    shape, columns = tuple(description["shape"]), tuple(description["columns"])
    return Model(
        classes=tuple(description["classes"]),
        shape=shape,
        columns=columns,
        multi_label=bool(description["multi_label"]),
        scores=scores,
        read=reader(columns, shape),
    )
