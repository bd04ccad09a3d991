"""Networks in safetensors files."""

from __future__ import annotations

from pathlib import Path

import safetensors
import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor, nn

from fedballot.core.errors import DataError
from fedballot.core.files import write_atomic
from fedballot.learners import storage


def write(path: Path, net: nn.Module, metadata: dict[str, str]) -> None:
    """Write a network's state and what describes it, atomically."""
    state = {key: value.detach().cpu().contiguous() for key, value in net.state_dict().items()}
    write_atomic(path, lambda file: file.write(safetensors.torch.save(state, metadata)))


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
            return state, file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise DataError(f"{path}: not a safetensors file, or a damaged one ({error})") from error
