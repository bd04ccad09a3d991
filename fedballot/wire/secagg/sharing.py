"""Shamir's secret sharing in GF(2^128), for many secrets at once.

Source: Shamir 1979, "How to share a secret". A secret of 16 bytes is the constant term of a polynomial whose other
coefficients are random; holder number x keeps its value at the field element whose bits are those of x. The field is
that of `pycryptodome`'s ``Shamir``, so shares are the same bytes: polynomials over GF(2) modulo
x^128 + x^7 + x^2 + x + 1, most significant byte first. Every 16 bytes are a field element, so nothing is rejected or
biased.

Secrets and shares only go through shifts, AND and XOR of whole arrays: no branch and no place in memory depends on
them. What is computed otherwise is made of the holders' numbers alone, which are public.
"""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from fedballot.wire.secagg.messages import SECRET, Bytes

AT_ONCE = 4096  # field elements whose product stays in a core's cache

Elements = npt.NDArray[np.uint64]  # (..., 2): the high and the low half
Numbers = npt.NDArray[np.integer]

_ONE, _TOP = np.uint64(1), np.uint64(63)
_REST = np.uint64(0b10000111)  # x^128 in the field
_MODULUS = 1 << 128 | 0b10000111


def split(secrets: Bytes, threshold: int, holders: int) -> Bytes:
    """Shares of secrets, uint8 (n, 16), for holders 1, 2, ..., uint8 (n, holders, 16); ``threshold`` restore one."""
    count = len(secrets)
    drawn = np.frombuffer(os.urandom((threshold - 1) * count * SECRET), dtype=np.uint8)
    coefficients = [*_elements(drawn.reshape(threshold - 1, count, SECRET)), _elements(secrets)]
    points = np.arange(1, holders + 1)
    values = np.zeros((count, holders, 2), dtype=np.uint64)
    for coefficient in coefficients:
        values = _scaled(values, points) ^ coefficient[:, None]
    return _octets(values)


def join(numbers: Numbers, shares: Bytes) -> Bytes:
    """The secrets, uint8 (n, 16), of which each row has as many shares as the threshold.

    Parameters
    ----------
    numbers
        Of the holders, from 1, all different in a row, (n, threshold).
    shares
        Theirs, uint8 (n, threshold, 16).
    """
    rows, place = np.unique(numbers, axis=0, return_inverse=True)
    secrets, step = np.empty((len(shares), SECRET), dtype=np.uint8), max(1, AT_ONCE // numbers.shape[1])
    weights = np.concatenate([_weights(rows[first : first + step]) for first in range(0, len(rows), step)])
    for first in range(0, len(shares), step):
        part = slice(first, first + step)
        terms = _product(weights[place.ravel()[part]], _elements(shares[part]))
        secrets[part] = _octets(np.bitwise_xor.reduce(terms, axis=1))
    return secrets


def _weights(numbers: Numbers) -> Elements:
    """Lagrange's weights at zero: of share j the product of x_m / (x_m - x_j) over all m but j; (n, threshold, 2)."""
    above = np.broadcast_to(_one(), (len(numbers), 2))
    below = _scaled(np.broadcast_to(_one(), (*numbers.shape, 2)), numbers)
    for other in numbers.T:
        above = _scaled(above, other)
        apart = numbers ^ other[:, None]
        below = _scaled(below, np.where(apart, apart, 1))
    return _product(np.broadcast_to(above[:, None], below.shape), _inverse(below.reshape(-1, 2)).reshape(below.shape))


def _inverse(values: Elements) -> Elements:
    """1 / values, (n, 2), public and none 0: one inversion, and three products for each of the others."""
    if len(values) == 1:
        whole = _reciprocal(int(values[0, 0]) << 64 | int(values[0, 1]))
        return np.array([[whole >> 64, whole & (1 << 64) - 1]], dtype=np.uint64)
    odd = len(values) % 2
    pairs = np.concatenate([values, _one()[None]]) if odd else values
    left, right = pairs[0::2], pairs[1::2]
    inverse = _inverse(_product(left, right))
    both = np.stack([_product(inverse, right), _product(inverse, left)], axis=1).reshape(-1, 2)
    return both[: len(values)]


def _reciprocal(value: int) -> int:
    """value^(2^128 - 2), which is 1 / value; of a public number."""
    square, result = value, 1
    for _ in range(127):
        square = _public_product(square, square)
        result = _public_product(result, square)
    return result


def _public_product(left: int, right: int) -> int:
    result = 0
    while right:
        if right & 1:
            result ^= left
        left = (left << 1) ^ ((left >> 127) * _MODULUS)
        right >>= 1
    return result


def _product(left: Elements, right: Elements) -> Elements:
    """left times right, of one shape (..., 2)."""
    result = np.zeros_like(left)
    for half in (0, 1):
        for bit in range(63, -1, -1):
            chosen = -((right[..., half] >> np.uint64(bit)) & _ONE)  # all ones or all zeros
            result = _doubled(result) ^ (left & chosen[..., None])
    return result


def _scaled(values: Elements, factors: Numbers) -> Elements:
    """Values times small public numbers, whose shape fits (...,)."""
    result = np.zeros_like(values)
    for bit in range(int(factors.max()).bit_length() - 1, -1, -1):
        chosen = -((factors.astype(np.uint64) >> np.uint64(bit)) & _ONE)
        result = _doubled(result) ^ (values & chosen[..., None])
    return result


def _doubled(values: Elements) -> Elements:
    """Values times x."""
    high, low = values[..., 0], values[..., 1]
    out = np.empty_like(values)
    out[..., 0] = (high << _ONE) | (low >> _TOP)
    out[..., 1] = (low << _ONE) ^ ((high >> _TOP) * _REST)
    return out


def _one() -> Elements:
    return np.array([0, 1], dtype=np.uint64)


def _elements(octets: Bytes) -> Elements:
    """16 bytes each as a field element, (..., 2)."""
    return np.ascontiguousarray(octets).view(">u8").astype(np.uint64)


def _octets(values: Elements) -> Bytes:
    """Field elements as 16 bytes each, (..., 16)."""
    return values.astype(">u8").view(np.uint8)
