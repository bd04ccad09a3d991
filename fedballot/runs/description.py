"""What ``model.json`` says of the model that a run has made: all that loading it takes besides its files."""

from __future__ import annotations

from typing import Any

from fedballot import __version__
from fedballot.core.files import write_json
from fedballot.core.folders import RunFolder
from fedballot.datasets.federation import FederatedData
from fedballot.datasets.schema.contract import Column, Schema
from fedballot.datasets.schema.toml import to_toml
from fedballot.methods.api import Method
from fedballot.settings.parts import CommonSettings, client_models, server_models

FORMAT = "fedballot-model-1"
NAME = "model.json"
PREPARATION = "preparation.skops"


def describe_model(folder: RunFolder, method: Method, settings: CommonSettings, data: FederatedData) -> None:
    """Write ``model.json`` beside the server's model; nothing where a method has none."""
    files = sorted(path.name for path in folder.path.glob("server-model-*"))
    if not files and method.single_client and folder.client(0).model.exists():
        files = [str(folder.client(0).model.relative_to(folder.path))]
    names = server_models(settings) or client_models(settings)
    if not files or not names:
        return
    space = folder.space.name if folder.space.is_file() else ""
    write_json(folder.path / NAME, {**described(names[0], files, settings, data), "space": space})


def described(learner: str, files: list[str], settings: CommonSettings, data: FederatedData) -> dict[str, Any]:
    """The content of ``model.json``, see ``docs/model.md``."""
    schema, tabular = data.schema or Schema(Column("")), data.preparation is not None
    return {
        "format": FORMAT,
        "fedballot": __version__,
        "learner": learner,
        "files": files,
        "classes": list(data.classes),
        "multi_label": data.multi_label,
        "shape": [schema.width] if tabular else list(data.encoded_shape or data.public_x.shape[1:]),
        "columns": [column.name for column in schema.columns] if tabular else [],
        "schema": "" if data.schema is None else to_toml(schema),
        "preparation": PREPARATION if tabular else "",
        "features": list(data.public_x.shape[1:]),
        "encoder": {} if data.encoder is None else {"name": data.encoder.name, "digest": data.encoder.digest},
        "image_reader": settings.image_reader,
        "server_features": str(getattr(settings, "server_features", "")),
    }
