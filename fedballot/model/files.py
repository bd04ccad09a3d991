"""A model as one file: what its learner has saved, and beside it, in the same file, the description with its classes.

A skops file and a safetensors file stay what they are, so that those libraries open them too; neither can run code.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedballot.core.errors import DataError

MEMBER = "fedballot.json"
FURTHER = "fedballot-part-"  # and a number: further learners, and what prepares a table's cells
ZIP = b"PK"  # how a skops file begins
SIZE = 8  # bytes of a safetensors file that say how long its header is
LONGEST_HEADER = 100_000_000


def with_description(saved: Sequence[bytes], description: Mapping[str, Any]) -> bytes:
    """One file of a model's parts, the first of them a learner (skops, or safetensors), with its description.

    Raises
    ------
    DataError
        If the first is neither.
    """
    words = json.dumps(dict(description), ensure_ascii=False)
    if saved[0].startswith(ZIP):
        out = io.BytesIO(saved[0])
        with zipfile.ZipFile(out, "a") as archive:
            archive.writestr(MEMBER, words)
            for number, content in enumerate(saved[1:], start=1):
                archive.writestr(f"{FURTHER}{number}", content)
        return out.getvalue()
    header, data = _split(saved[0])
    header["__metadata__"] = {**header.get("__metadata__", {}), MEMBER: words}
    for number, content in enumerate(saved[1:], start=1):
        place = [len(data), len(data) + len(content)]
        header[f"{FURTHER}{number}"] = {"dtype": "U8", "shape": [len(content)], "data_offsets": place}
        data += content
    return _joined(header, data)


def taken_apart(content: bytes, where: Path) -> tuple[dict[str, Any], list[bytes]]:
    """What :func:`with_description` joined: the description, and the file of each learner.

    Raises
    ------
    DataError
        If the file is damaged or of another kind.
    """
    try:
        if content.startswith(ZIP):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                names = [name for name in archive.namelist() if name.startswith(FURTHER)]
                return json.loads(archive.read(MEMBER)), [content, *map(archive.read, _ordered(names))]
        header, data = _split(content)
        words = header["__metadata__"].pop(MEMBER)
        further = [header.pop(name) for name in _ordered([name for name in header if name.startswith(FURTHER)])]
        parts = [data[slice(*part["data_offsets"])] for part in further]
        own = data[: further[0]["data_offsets"][0]] if further else data
        return json.loads(words), [_joined(header, own), *parts]
    except (KeyError, ValueError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{where}: no model that `fedballot export` has written as skops or torch, or a damaged one ({error!r})"
        ) from error


def parts_of(description: Mapping[str, Any]) -> list[str]:
    """Files beside ``model.json`` that a model is made of: its learners', and what prepares a table's cells."""
    return [*description["files"], *filter(None, [description["preparation"]])]


def _ordered(names: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda name: int(name.removeprefix(FURTHER)))


def _split(content: bytes) -> tuple[dict[str, Any], bytes]:
    size = int.from_bytes(content[:SIZE], "little")
    if not 2 <= size <= min(len(content) - SIZE, LONGEST_HEADER):
        raise DataError("neither a skops nor a safetensors file: it has no header")
    header = json.loads(content[SIZE : SIZE + size])
    if not isinstance(header, dict):
        raise DataError("no safetensors file: its header is no object")
    return header, content[SIZE + size :]


def _joined(header: Mapping[str, Any], data: bytes) -> bytes:
    words = json.dumps(header, ensure_ascii=False).encode()
    words += b" " * (-len(words) % SIZE)  # tensors start on a multiple of 8
    return len(words).to_bytes(SIZE, "little") + words + data
