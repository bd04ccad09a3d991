"""``fedballot export``: the model of a run as one file, with its class words, and its card beside it."""

from __future__ import annotations

import importlib
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedballot.core.errors import SettingsError
from fedballot.core.files import check_folder, write_atomic
from fedballot.learners.registry import get_learner
from fedballot.model.card import card
from fedballot.model.files import parts_of, with_description
from fedballot.model.loaded import read_description, schema_of
from fedballot.runs.results import load_result

FORMATS = ("skops", "torch", "onnx")


def export(run: Path, form: str, out: Path, *, force: bool = False) -> Path:
    """Write a run's model to one file, and its card to a Markdown file of the same name.

    Parameters
    ----------
    form
        One of ``FORMATS``: "skops" for scikit-learn's models, "torch" (safetensors) for networks, "onnx" for either
        where its libraries are installed.
    force
        Replace files that are there.

    Returns
    -------
    Path
        The card.

    Raises
    ------
    SettingsError
        If a file is there or its folder is not, the model has no such form, or a library is missing.
    DataError
        If the run has no model, or it is damaged.
    """
    description, result = read_description(run), load_result(run)
    check_folder(out)
    beside = out.with_name(out.name + ".md")
    for path in (out, beside):
        if path.exists() and not force:
            raise SettingsError(f"--out {path}: is there already; name another file, or add --force")
    content = _WRITERS[form](run, description)
    write_atomic(out, lambda stream: stream.write(content))
    text = card(result, description, schema_of(description, run), out.name, form).encode()
    write_atomic(beside, lambda stream: stream.write(text))
    return beside


def _own(run: Path, description: Mapping[str, Any], form: str) -> bytes:
    _whole(description)
    saved = [(run / name).read_bytes() for name in parts_of(description)]
    if zipfile.is_zipfile(run / description["files"][0]) != (form == "skops") or description["multi_label"]:
        other = "torch" if get_learner(description["learner"]).needs_torch else "skops"
        more = f"use --format {other}" if other != form else "it has several labels per record: use fedballot predict"
        raise SettingsError(f"the model {description['learner']} cannot be written as {form}: {more}")
    return with_description(saved, description)


def _skops(run: Path, description: Mapping[str, Any]) -> bytes:
    return _own(run, description, "skops")


def _torch(run: Path, description: Mapping[str, Any]) -> bytes:
    return _own(run, description, "torch")


def _onnx(run: Path, description: Mapping[str, Any]) -> bytes:
    _whole(description)
    if told := description.get("encoder"):
        raise SettingsError(
            f"--format onnx: the model learned from features of encoder={told['name']}, which the file cannot hold; a "
            "skops or torch file names it, and takes it from the machine that predicts"
        )
    torch, prepared = get_learner(description["learner"]).needs_torch, bool(description["preparation"])
    names = ["onnx", *(["onnxscript"] if torch else ["onnxmltools"]), *(["skl2onnx"] if prepared or not torch else [])]
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise SettingsError(
                f"--format onnx needs the package {name}: pip install 'fedballot[onnx]'. Without it, skops and torch "
                "files hold the same model"
            ) from error
    from fedballot.model.onnx_file import onnx_of

    return onnx_of(run, description)


def _whole(description: Mapping[str, Any]) -> None:
    if description.get("space"):
        raise SettingsError("the model learned from frozen features, which a file cannot hold; use fedballot predict")
    if features := description["server_features"]:
        raise SettingsError(
            f"the model learned from the features {features}, which a file cannot hold; use fedballot predict, or a "
            "run with server_features empty"
        )


_WRITERS: Mapping[str, Callable[[Path, Mapping[str, Any]], bytes]] = {
    "skops": _skops,
    "torch": _torch,
    "onnx": _onnx,
}
