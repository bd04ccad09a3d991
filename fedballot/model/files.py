"""A model as one file: what its learner has saved, and beside it, in the same file, the description with its classes.

A skops file and a safetensors file stay what they are, so that those libraries open them too; neither can run code.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedballot.core.errors import DataError

MEMBER = "fedballot.json"
FURTHER = (
    "fedballot-"  # and a name: a model that averages several learners holds the others here, and how files are read
)
LEARNER = f"{FURTHER}learner-"  # and a number
ZIP = b"PK"  # at its start; a preparation inside of a safetensors file is one, too
SIZE = 8  # bytes of a safetensors file that say how long its header is
LONGEST_HEADER = 100_000_000


def with_description(saved: Sequence[bytes], description: Mapping[str, Any], beside: Mapping[str, bytes]) -> bytes:
    """One file of a model's learners (skops, or safetensors), with its description.

    Parameters
    ----------
    beside
        Other files that the description names, by name.

    Raises
    ------
    DataError
        If the first is neither.
    """
    words = json.dumps(dict(description), ensure_ascii=False)
    more = {f"{LEARNER}{number}": content for number, content in enumerate(saved[1:], start=1)}
    more |= {f"{FURTHER}{name}": content for name, content in beside.items()}
    if saved[0].startswith(ZIP):
        out = io.BytesIO(saved[0])
        with zipfile.ZipFile(out, "a") as archive:
            archive.writestr(MEMBER, words)
            for name, content in more.items():
                archive.writestr(name, content)
        return out.getvalue()
    header, data = _split(saved[0])
    header["__metadata__"] = {**header.get("__metadata__", {}), MEMBER: words}
    for name, content in more.items():
        place = [len(data), len(data) + len(content)]
        header[name] = {"dtype": "U8", "shape": [len(content)], "data_offsets": place}
        data += content
    return _joined(header, data)


def taken_apart(content: bytes, where: Path) -> tuple[dict[str, Any], list[bytes], dict[str, bytes]]:
    """What :func:`with_description` joined: the description, the file of each learner, and the other files by name.

    Raises
    ------
    DataError
        If the file is damaged or of another kind.
    """
    try:
        if content.startswith(ZIP):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                words: str | bytes = archive.read(MEMBER)
                further = {name: archive.read(name) for name in archive.namelist() if name.startswith(FURTHER)}
            own = content
        else:
            header, data = _split(content)
            words = header["__metadata__"].pop(MEMBER)
            places = {name: header.pop(name)["data_offsets"] for name in [*header] if name.startswith(FURTHER)}
            further = {name: data[slice(*place)] for name, place in places.items()}
            own = data[: min(place[0] for place in places.values())] if places else data
            own = _joined(header, own)
        learners = [further[name] for name in _ordered(name for name in further if name.startswith(LEARNER))]
        beside = {name.removeprefix(FURTHER): part for name, part in further.items() if not name.startswith(LEARNER)}
        return json.loads(words), [own, *learners], beside
    except (KeyError, ValueError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{where}: no model that `fedballot export` has written as skops or torch, or a damaged one ({error!r})"
        ) from error


def _ordered(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: int(name.removeprefix(LEARNER)))


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
