"""Networks in safetensors files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from fedballot.core.errors import DataError
from fedballot.core.files import write_atomic
from fedballot.learners import storage

TIED = "tied"  # of the metadata: further names of weights, as JSON


def write(path: Path, net: nn.Module, metadata: dict[str, str]) -> None:
    """Write a network's state and what describes it, atomically; tied weights once."""
    state, tied = _without_ties(net.state_dict())
    more = {TIED: json.dumps(tied)} if tied else {}
    write_atomic(path, lambda file: file.write(safetensors.torch.save(state, metadata | more)))


def _without_ties(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Each tensor once, as a copy of its own, and the other names of those that have several."""
    first: dict[tuple[object, ...], str] = {}
    out: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    for key, value in state.items():
        place = (value.data_ptr(), value.shape, value.stride(), value.dtype) if value.numel() else (key,)
        if (name := first.setdefault(place, key)) != key:
            tied[key] = name
        else:
            out[key] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
    return out, tied


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """A state and what describes it.

    Raises
    ------
    DataError
        If the file cannot be read or is damaged.
    """
    content = storage.read_bytes(path)
    try:
        state = safetensors.torch.load(content)
        with safetensors.safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
        tied = json.loads(metadata.pop(TIED, "{}"))
        return state | {key: state[name] for key, name in tied.items()}, metadata
    except (SafetensorError, OSError, ValueError, KeyError, AttributeError) as error:
        raise DataError(f"{path}: not a safetensors file, or a damaged one ({error})") from error
