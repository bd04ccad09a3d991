"""Shamir's sharing of many secrets at once, against plain integers and against pycryptodome."""

from __future__ import annotations

import os

import numpy as np
import pytest
from Crypto.Protocol.SecretSharing import Shamir
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedballot.wire.secagg import sharing

MODULUS = (1 << 128) | 0b10000111


def product(left: int, right: int) -> int:
    """In GF(2^128), by the definition."""
    result = 0
    while right:
        if right & 1:
            result ^= left
        right >>= 1
        left <<= 1
        if left >> 128:
            left ^= MODULUS
    return result


def power(value: int, exponent: int) -> int:
    result = 1
    for bit in bin(exponent)[2:]:
        result = product(result, result)
        if bit == "1":
            result = product(result, value)
    return result


def restored(shares: dict[int, bytes]) -> bytes:
    """By Lagrange's formula, with plain integers."""
    secret = 0
    for x, share in shares.items():
        above, below = 1, 1
        for other in shares:
            if other != x:
                above, below = product(above, other), product(below, x ^ other)
        weight = product(above, power(below, 2**128 - 2))
        secret ^= product(weight, int.from_bytes(share))
    return secret.to_bytes(16)


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, int, int]:
    holders = draw(st.integers(1, 40))
    secrets = draw(st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=5))
    array = np.stack([np.frombuffer(secret, dtype=np.uint8) for secret in secrets])
    return array, draw(st.integers(1, holders)), holders


@settings(max_examples=12, deadline=None)
@given(cases(), st.randoms(use_true_random=False))
def test_any_threshold_of_shares_restores_and_all_three_agree(case, random) -> None:
    secrets, threshold, holders = case
    shares = sharing.split(secrets, threshold, holders)
    chosen = np.array([sorted(random.sample(range(1, holders + 1), threshold)) for _ in secrets])
    of_chosen = np.take_along_axis(shares, chosen[:, :, None] - 1, axis=1)
    assert np.array_equal(sharing.join(chosen, of_chosen), secrets)
    for secret, numbers, row in zip(secrets, chosen.tolist(), of_chosen, strict=True):
        pairs = {number: share.tobytes() for number, share in zip(numbers, row, strict=True)}
        assert restored(pairs) == secret.tobytes()
        if threshold > 1:
            assert bytes(Shamir.combine(list(pairs.items()), ssss=False)) == secret.tobytes()


@settings(max_examples=20, deadline=None)
@given(st.binary(min_size=16, max_size=16), st.integers(2, 12), st.integers(0, 8))
def test_shares_of_pycryptodome_are_restored(secret, threshold, more) -> None:
    pairs = Shamir.split(threshold, threshold + more, secret, ssss=False)[-threshold:]
    numbers = np.array([[number for number, _ in pairs]])
    shares = np.stack([np.frombuffer(bytes(share), dtype=np.uint8) for _, share in pairs])
    assert sharing.join(numbers, shares[None])[0].tobytes() == secret


def test_one_share_short_says_nothing() -> None:
    """Whatever the secret, fewer shares than the threshold are uniform bytes."""
    for secret in (0, 255):
        secrets = np.full((4000, 16), secret, dtype=np.uint8)
        shares = sharing.split(secrets, 3, 5)[:, 1:3]
        counts = np.bincount(shares.ravel(), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-9
        joint = np.bincount(shares[:, 0, 0] >> 4 | shares[:, 1, 0] & 0xF0, minlength=256)
        assert stats.chisquare(joint).pvalue > 1e-9


def test_coefficients_are_drawn_anew_from_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = np.zeros((3, 16), dtype=np.uint8)
    first, second = sharing.split(secrets, 2, 3), sharing.split(secrets, 2, 3)
    assert not (first == second).all(axis=-1).any()
    assert len({share.tobytes() for share in first.reshape(-1, 16)}) == 9
    asked: list[int] = []
    monkeypatch.setattr(os, "urandom", lambda size: asked.append(size) or bytes(size))
    sharing.split(secrets, 4, 6)
    assert asked == [3 * 3 * 16]


def test_many_rows_are_joined_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "AT_ONCE", 8)
    secrets = np.frombuffer(os.urandom(50 * 16), dtype=np.uint8).reshape(50, 16)
    shares = sharing.split(secrets, 3, 4)
    numbers = np.array([[1, 2, 4], [2, 3, 4]] * 25)
    assert np.array_equal(sharing.join(numbers, np.take_along_axis(shares, numbers[:, :, None] - 1, axis=1)), secrets)
