import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedballot.core.errors import DataError
from fedballot.datasets import fingerprint as module
from fedballot.datasets.fingerprint import fingerprint


def test_is_sha256_of_dtype_shape_and_bytes() -> None:
    x = np.arange(6, dtype=np.uint8).reshape(2, 3)
    assert fingerprint(x) == "sha256:" + hashlib.sha256(b"|u1 (2, 3) " + bytes(range(6))).hexdigest()


@given(st.integers(0, 59), st.integers(1, 255))
def test_any_changed_byte_changes_it(at: int, by: int) -> None:
    x = np.arange(60, dtype=np.uint8).reshape(5, 4, 3)
    changed = x.copy()
    changed.flat[at] = (int(x.flat[at]) + by) % 256
    assert fingerprint(changed) != fingerprint(x)


def test_order_shape_and_dtype_count() -> None:
    x = np.arange(12, dtype=np.uint8).reshape(4, 3)
    others = [x[::-1], x.reshape(3, 4), x.view(np.int8), x.astype(np.int16), x[:3]]
    assert len({fingerprint(array) for array in [x, *others]}) == 6


def test_layout_and_byte_order_in_memory_do_not_count() -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert fingerprint(np.asfortranarray(x)) == fingerprint(x) == fingerprint(x.astype(">f4"))


def test_chunks_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).integers(0, 256, (100, 7), dtype=np.uint8)
    whole = fingerprint(x)
    monkeypatch.setattr(module, "_CHUNK_BYTES", 50)
    assert fingerprint(x) == whole


def test_object_array_is_refused() -> None:
    with pytest.raises(DataError, match="object"):
        fingerprint(np.array([object()]))
