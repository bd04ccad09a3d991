"""What ``same_releases.py`` reads in a run's folder: facts by path, and arrays by name."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]
Facts = dict[str, str]
CLIENT = re.compile(
    r"(?<![a-z])(agent|part(?=y|ies)|participant|teacher|contributor)(y|ies|s)?(?![a-z])", re.IGNORECASE
)
RANDOM = re.compile(r"(?<![0-9a-f])[0-9a-f]{16,}")  # of a request, in the name of a file
LEFT_OUT = {
    "settings",
    "versions",
    "timing",
    "started",
    "time",
    "salt",
    "hash",
    "sha256",
    "digest",
    "request",
    "format",
}
LEFT_OUT |= {"schema", "session", "dataset", "public_dataset"}


def one_word(text: str) -> str:
    """The text with *client* for every older word."""
    text = CLIENT.sub(lambda found: "clients" if (found[2] or "").lower() in ("s", "ies") else "client", text)
    text = re.sub("client_(accuracy|auc)_per_client", r"\1_per_client", text)
    return re.sub(r"\b([Aa])n (?=client)", r"\1 ", text)


def read_run(folder: Path) -> tuple[Facts, Arrays]:
    """All that a run's folder holds of what must not change: facts by path, and arrays by name."""
    facts: Facts = {}
    arrays: Arrays = {}
    requests: dict[Path, int] = {}
    for path in sorted(folder.rglob("*"), key=lambda path: (path.parent, path.stat().st_mtime_ns, path.name)):
        inside = path.relative_to(folder)
        where = one_word(RANDOM.sub("*", inside.as_posix()))
        if path.is_dir() or "secagg" in inside.parts:
            continue
        if inside.name in ("result.json", "figures.json"):
            facts |= flat(json.loads(path.read_text()), where)
        elif inside.name == "ledger.jsonl":
            facts |= flat([json.loads(line) for line in path.read_text().splitlines()], where)
        elif path.parent.name == "releases":  # named at random, one a request: counted in the order of time
            requests[path.parent] = requests.get(path.parent, 0) + 1
            where = one_word(f"{inside.parent.as_posix()}/{requests[path.parent]}")
            arrays |= archive(path.read_bytes(), where, facts)
        elif path.suffix == ".npz":
            arrays |= archive(path.read_bytes(), where, facts)
        elif not path.suffix:
            arrays |= model(path.read_bytes(), where)
    return facts, arrays


def flat(value: Any, where: str) -> Facts:
    """The leaves of a JSON value by path; floats in hexadecimal."""
    if isinstance(value, dict):
        kept = [key for key in value if key not in LEFT_OUT and not key.endswith(("_s", "engine_overhead"))]
        return {k: v for key in kept for k, v in flat(value[key], f"{where}/{one_word(key)}").items()}
    if isinstance(value, list) and any(isinstance(part, dict | list) for part in value):
        return {k: v for number, part in enumerate(value) for k, v in flat(part, f"{where}/{number}").items()}
    if isinstance(value, list):
        return {where: " ".join(leaf(part) for part in value)}
    return {where: leaf(value)}


def leaf(value: Any) -> str:
    if isinstance(value, float):
        return value.hex()
    return f"“{one_word(value)}”" if isinstance(value, str) else str(value)


def archive(content: bytes, where: str, facts: Facts) -> Arrays:
    """The arrays of an .npz file; a text in it is JSON, and goes to the facts."""
    arrays: Arrays = {}
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        for key in sorted(stored.files):
            array, name = stored[key], f"{where}/{one_word(key)}"
            if array.dtype.kind == "U" and array.ndim == 0:
                facts |= flat(json.loads(str(array)), name)
            else:
                arrays[name] = array
    return arrays


def model(content: bytes, where: str) -> Arrays:
    """The arrays of a learner's file: safetensors, skops, or one skops for each label."""
    if content[:2] != b"PK":
        length = int.from_bytes(content[:8], "little")
        return {f"{where}/{name}": array for name, array in tensors(content[8:][:length], content[8 + length :])}
    with zipfile.ZipFile(io.BytesIO(content)) as members:
        names = members.namelist()
        if "schema.json" not in names:
            parts = archive(content, where, {})
            return {k: v for name, part in parts.items() for k, v in model(part.tobytes(), name).items()}
        # a member's name is the address at which the object lay: in the order of their content
        stored = [np.load(io.BytesIO(members.read(name))) for name in names if name.endswith(".npy")]
    return {f"{where}/{number}": array for number, array in enumerate(sorted(stored, key=digest))}


def tensors(header: bytes, body: bytes) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Name and array of each tensor of a safetensors file; 16-bit floats of torch as integers."""
    kinds = {
        "F64": "<f8",
        "F32": "<f4",
        "F16": "<f2",
        "BF16": "<u2",
        "I64": "<i8",
        "I32": "<i4",
        "U8": "u1",
        "BOOL": "?",
    }
    for name, entry in sorted(json.loads(header).items()):
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            yield name, np.frombuffer(body[first:last], dtype=kinds[entry["dtype"]]).reshape(entry["shape"])


def digest(array: npt.NDArray[Any]) -> str:
    """Type, shape and content of an array; of a record's fields without the bytes between them, which are random."""
    parts = [array[name] for name in array.dtype.names] if array.dtype.names else [array]
    content = hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts))
    kind = "+".join(str(part.dtype) for part in parts)
    return f"{kind} {array.shape} {content.hexdigest()[:32]}"
