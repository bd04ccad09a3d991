"""Masks."""

from __future__ import annotations

import os

import numpy as np
import pytest
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
from scipy import stats

from fedballot.wire.secagg import crypto


def test_masks_depend_on_every_bit_of_the_secret_unlike_flower_s() -> None:
    """Flower folds the secret to 32 bits by XOR of its words: words in another order give the very same mask."""
    words = os.urandom(32)
    swapped = words[4:8] + words[:4] + words[8:]
    assert np.array_equal(pseudo_rand_gen(words, 2**16, [(50,)])[0], pseudo_rand_gen(swapped, 2**16, [(50,)])[0])
    ours = [crypto.pair_mask(secret, "s", 0, 1, 2000, 16) for secret in (words, swapped)]
    assert np.mean(ours[0] == ours[1]) < 0.01
    for bit in range(0, 256, 37):
        flipped = bytearray(words)
        flipped[bit // 8] ^= 1 << bit % 8
        assert np.mean(crypto.pair_mask(bytes(flipped), "s", 0, 1, 2000, 16) == ours[0]) < 0.01


@pytest.mark.parametrize("bits", [1, 8, 13, 16, 17, 32, 33, 63])
def test_masks_are_uniform_and_pairs_cancel(bits: int) -> None:
    values = crypto.pair_mask(b"x" * 32, "s", 3, 7, 20_000, bits)
    mine, theirs = values, crypto.pair_mask(b"x" * 32, "s", 7, 3, 20_000, bits)
    assert not ((mine + theirs) & mine.dtype.type(2**bits - 1)).any()
    top = values.astype(np.uint64) >> np.uint64(max(bits - 4, 0))
    assert stats.chisquare(np.bincount(top.astype(int), minlength=min(16, 2**bits))).pvalue > 1e-9
    for other in (("t", 3, 7), ("s", 3, 8)):  # another session, another pair
        assert bits < 8 or np.mean(crypto.pair_mask(b"x" * 32, *other, 20_000, bits) == values) < 0.02
