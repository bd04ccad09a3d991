"""The five exchanges: what each message looks like, and the digests that bind a message to those before it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.core.errors import FedballotError
from fedballot.wire.packing import WireError
from fedballot.wire.secagg.plan import Form, Plan

Arrays = list[npt.NDArray[Any]]
Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.integer]

KEYS, SHARES, MASKED, CONFIRM, UNMASK = STAGES = ("keys", "shares", "masked", "confirm", "unmask")
SECRET = 16  # bytes of a shared secret: one element of the field of `sharing`
COMMITMENT = 32  # bytes
NONCE, SEALED = 12, 12 + 2 * SECRET + 16  # bytes: nonce, two shares, tag
SIGNATURE = 64  # bytes


class SecaggError(FedballotError):
    """An exchange that cannot go on; ``reason`` is a short fixed word for counting."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def as_bytes(content: bytes) -> Bytes:
    """Bytes as an array, uint8 (n,)."""
    return np.frombuffer(content, dtype=np.uint8)


def numbers(clients: Sequence[int]) -> npt.NDArray[np.int32]:
    """Clients' numbers as they are sent and digested, little-endian int32 (n,)."""
    return np.array(clients, dtype="<i4")


def arrays_digest(arrays: Arrays) -> Bytes:
    """SHA-256 of dtypes, shapes and contents, uint8 (32,)."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return as_bytes(digest.digest())


def chained(before: str, *arrays: npt.NDArray[Any]) -> str:
    """A digest, in hex, of all that was shown so far and of these arrays."""
    return hashlib.sha256(f"{before}/".encode() + arrays_digest(list(arrays)).tobytes()).hexdigest()


def view_of(session: str, request: str, plan: Plan, roster: list[int], keys: Bytes) -> str:
    """What a client was shown before it shared anything; all that depends on it fits only with the same view.

    The request is part of it: else a client's integers for one request could enter the sums of two, once each.
    """
    return chained(repr((session, request, plan)), numbers(roster), keys)


# what a client reads; it sends nothing if a message is not what it must be


def read_numbers(array: npt.NDArray[Any]) -> list[int]:
    """Clients' numbers, each once and in order, so that one list has one digest.

    Raises
    ------
    SecaggError
        With reason ``stage``.
    """
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer) or (array[1:] <= array[:-1]).any():
        raise SecaggError("stage", "expected numbers of clients, each once and in order")
    return [int(client_id) for client_id in array]


def read_roster(arrays: Arrays, plan: Plan) -> tuple[list[int], Bytes]:
    """All who take part, and their public keys, uint8 (n, 3, 32), all different.

    Raises
    ------
    SecaggError
        With reason ``stage``, ``dropouts`` or ``keys``.
    """
    if len(arrays) != 2 or not _is_bytes(arrays[1], (arrays[0].size, 3, 32)):
        raise SecaggError("stage", "keys must come as the roster and three keys of each")
    roster, keys = read_numbers(arrays[0]), arrays[1]
    if not all(0 <= client_id < plan.clients for client_id in roster):
        raise SecaggError("stage", "the roster names a client that is not of this run")
    require_enough(roster, plan)
    if len({key.tobytes() for key in keys.reshape(-1, 32)}) != 3 * len(roster):
        raise SecaggError("keys", "two public keys are the same")
    return roster, keys


def read_shares(arrays: Arrays) -> tuple[list[int], Bytes]:
    """All who have shared, and what some of them have sealed for this client, uint8 (senders, SEALED).

    Raises
    ------
    SecaggError
        With reason ``stage``.
    """
    if len(arrays) != 2 or not _is_bytes(arrays[1], (*arrays[1].shape[:1], SEALED)):
        raise SecaggError("stage", "shares must come as the list of senders and what they sealed")
    return read_numbers(arrays[0]), arrays[1]


def read_list(arrays: Arrays) -> list[int]:
    """The list of clients whose integers are in the sum.

    Raises
    ------
    SecaggError
        With reason ``stage``.
    """
    if len(arrays) != 1:
        raise SecaggError("stage", "expected the list of clients in the sum")
    return read_numbers(arrays[0])


def read_signatures(arrays: Arrays) -> dict[int, bytes]:
    """Signatures by signer.

    Raises
    ------
    SecaggError
        With reason ``stage``.
    """
    if len(arrays) != 2 or not _is_bytes(arrays[1], (arrays[0].size, SIGNATURE)):
        raise SecaggError("stage", "expected signers and their signatures")
    signatures = (signature.tobytes() for signature in arrays[1])
    return dict(zip(read_numbers(arrays[0]), signatures, strict=True))


def require_enough(clients: list[int], plan: Plan) -> None:
    """Refuse a list of fewer clients than a sum may be opened of.

    Raises
    ------
    SecaggError
        With reason ``dropouts``.
    """
    if len(clients) < plan.min_clients:
        raise SecaggError("dropouts", f"{len(clients)} clients are listed, min_clients asks for {plan.min_clients}")


def check_integers(values: Integers, form: Form) -> npt.NDArray[np.int64]:
    """A client's integers, if they are what the modulus was chosen for.

    Raises
    ------
    SecaggError
        If their shape, type or size is another; nothing is cut.
    """
    if values.shape != form.shape or not np.issubdtype(values.dtype, np.integer):
        raise SecaggError("range", f"expected integers of shape {form.shape}, got {values.dtype} {values.shape}")
    if values.size and max(int(values.max()), -int(values.min())) > form.largest:
        raise SecaggError("range", "an integer is larger than the modulus was chosen for")
    return values.astype(np.int64)


# what the server reads


def check_answer(arrays: Arrays, shapes: Sequence[tuple[int, ...]]) -> Arrays:
    """An answer, if it holds arrays of bytes in these shapes.

    Raises
    ------
    WireError
        With reason ``count``, ``dtype`` or ``shape``.
    """
    if len(arrays) != len(shapes):
        raise WireError("count", f"expected {len(shapes)} arrays, got {len(arrays)}")
    for array, shape in zip(arrays, shapes, strict=True):
        if array.dtype != np.uint8:
            raise WireError("dtype", f"expected uint8, got {array.dtype}")
        if array.shape != shape:
            raise WireError("shape", f"expected {shape}, got {array.shape}")
    return arrays


def _is_bytes(array: npt.NDArray[Any], shape: tuple[int, ...]) -> bool:
    return array.dtype == np.uint8 and array.shape == shape
