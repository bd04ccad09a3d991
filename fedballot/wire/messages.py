"""What server and clients say to each other, whatever carries it: arrays, and a few words beside them."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Scalar = bool | bytes | float | int | str
Config = Mapping[str, Scalar]
Arrays = list[npt.NDArray[Any]]


@dataclass(frozen=True)
class Request:
    """What one client is sent: arrays in NumPy's format, and scalars by name."""

    to: str
    tensors: list[bytes]
    config: dict[str, Scalar]


@dataclass(frozen=True)
class Reply:
    """What one client sends back, as it came.

    Parameters
    ----------
    sender
        The name that the network has for the client; ``Request.to`` of the request.
    tensors
        Arrays in NumPy's format, unread.
    metrics
        Scalars by name.
    arrived
        Seconds since the epoch; 0 where nobody looked at the clock.
    """

    sender: str
    tensors: list[bytes]
    metrics: Config
    arrived: float = 0.0


def serialise(arrays: Sequence[npt.NDArray[Any]]) -> list[bytes]:
    """Each array in NumPy's format, as Flower sends it."""
    return [_serialised(array) for array in arrays]


def _serialised(array: npt.NDArray[Any]) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def deserialise(tensors: Sequence[bytes]) -> Arrays:
    """The arrays in a message.

    Raises
    ------
    ValueError, OSError, EOFError
        If one is no array in NumPy's format.
    """
    return [np.load(io.BytesIO(tensor), allow_pickle=False) for tensor in tensors]
