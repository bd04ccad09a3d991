"""What ``model.json`` says of the model that a run has made: all that loading it takes besides its files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from fedballot import __version__
from fedballot.core.files import with_home, write_json
from fedballot.core.folders import RunFolder
from fedballot.datasets.federation import FederatedData
from fedballot.methods.api import Method
from fedballot.settings.parts import CommonSettings, client_models, server_models

FORMAT = "fedballot-model-1"
NAME = "model.json"
NO_FEATURES = ("label", "group")


def describe_model(folder: RunFolder, method: Method, settings: CommonSettings, data: FederatedData) -> None:
    """Write ``model.json`` beside the server's model; nothing where a method has none."""
    files = sorted(path.name for path in folder.path.glob("server-model-*"))
    if not files and method.single_client and folder.client(0).model.exists():
        files = [str(folder.client(0).model.relative_to(folder.path))]
    names = server_models(settings) or client_models(settings)
    if not files or not names:
        return
    write_json(folder.path / NAME, described(names[0], files, settings, data))


def described(learner: str, files: list[str], settings: CommonSettings, data: FederatedData) -> dict[str, Any]:
    """The content of ``model.json``, see ``docs/model.md``."""
    return {
        "format": FORMAT,
        "fedballot": __version__,
        "learner": learner,
        "files": files,
        "classes": list(data.classes),
        "multi_label": data.multi_label,
        "shape": list(data.public_x.shape[1:]),
        "columns": columns_of(settings.public_dataset or settings.dataset),
        "server_features": str(getattr(settings, "server_features", "")),
    }


def columns_of(source: str) -> list[str]:
    """Names of a table's features in their order; none for other data."""
    path = with_home(source)
    if any(sign in source for sign in "*?["):
        path = next(iter(sorted(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor))))), path)
    if not path.is_file():
        return []
    if path.suffix.lower() == ".csv":
        with path.open(newline="", encoding="utf-8-sig") as stream:
            header = [name.strip() for name in next(csv.reader(stream), [])]
    elif path.suffix.lower() == ".parquet":
        import pyarrow.parquet

        header = list(pyarrow.parquet.read_schema(path).names)
    else:
        return []
    return [name for name in header if name not in NO_FEATURES]
