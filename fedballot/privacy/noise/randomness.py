"""Where random bits come from, and exact draws that use integers only."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
AnyInts = NDArray[Any]  # int64, or object holding Python's unbounded integers

# denominator * trial number must stay below 2^63; this leaves room for 8,191 trials of Bernoulli(exp(-x))
SMALL = 1 << 50


@dataclass(frozen=True)
class NoiseSource:
    """A stream of uniform 64-bit words.

    Parameters
    ----------
    private : bool
        False where the words can be reproduced, so that a guarantee resting on them must be stamped "seeded".
    words : callable
        words(count) returns `count` uniform uint64.
    """

    private: bool
    words: Callable[[int], NDArray[np.uint64]]


def os_noise() -> NoiseSource:
    """Return the operating system's cryptographic generator: the only source of noise that protects anybody."""
    return NoiseSource(True, lambda count: np.frombuffer(os.urandom(8 * count), dtype=np.uint64))


def seeded_noise(seed: int) -> NoiseSource:
    """Return a reproducible source, for tests and experiments only; marked `private=False`."""
    generator = np.random.default_rng(seed)
    # what `integers` over all of 64 bits gives, at a third of the time for few
    return NoiseSource(False, generator.bit_generator.random_raw)


def uniform_below(bounds: Ints, source: NoiseSource) -> Ints:
    """Draw one unbiased integer in [0, bound) for each bound (1 <= bound < 2^63), by rejection."""
    bound = bounds.astype(np.uint64)
    draws, complete = _below(bound, source)
    (waiting,) = (~complete).nonzero()
    while len(waiting):  # hardly ever, where the bounds are far below 2^64
        draws[waiting], complete = _below(bound[waiting], source)
        waiting = waiting[~complete]
    return draws


def _below(bound: NDArray[np.uint64], source: NoiseSource) -> tuple[Ints, Bools]:
    """One try for each bound: an integer, and whether it may be kept."""
    word = source.words(len(bound))
    value = word % bound
    # word - value is a multiple of the bound: the last, incomplete block would favour small values
    complete = word - value <= np.uint64(0) - bound
    return value.astype(np.int64), complete


def bernoulli(numerators: AnyInts, denominators: AnyInts, source: NoiseSource) -> Bools:
    """Draw Bernoulli(numerator / denominator) exactly, elementwise, 0 <= numerator <= denominator, denominator > 0."""
    if numerators.dtype != object and denominators.dtype != object:
        return uniform_below(denominators, source) < numerators
    successes = np.zeros(len(numerators), dtype=np.bool_)
    going, rest = np.arange(len(numerators)), numerators
    while len(going):  # compare a uniform number with the binary expansion, 62 digits at a time
        shifted = rest * (1 << 62)
        digits = shifted // denominators[going]
        word = (source.words(len(going)) >> np.uint64(2)).astype(np.int64)
        successes[going[word < digits]] = True
        equal = word == digits
        rest = (shifted - digits * denominators[going])[equal]
        going = going[equal]
    return successes


def bernoulli_exp(numerators: AnyInts, denominators: AnyInts, source: NoiseSource) -> Bools:
    """Draw Bernoulli(exp(-numerator / denominator)) exactly, elementwise, numerator >= 0.

    Source: Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (2020), Algorithm 1.
    Denominators of 2^50 and more are computed with Python's integers, about ten times slower.
    """
    if len(denominators) and denominators.max() >= SMALL:
        numerators, denominators = numerators.astype(object), denominators.astype(object)
    whole = numerators // denominators
    accepted = np.ones(len(numerators), dtype=np.bool_)
    going = np.flatnonzero(whole > 0)
    left = whole[going]
    while len(going):  # exp(-whole) is that many successes of exp(-1) in a row
        hit = exp_minus_one(len(going), source)
        accepted[going[~hit]] = False
        left, going = left[hit] - 1, going[hit]
        left, going = left[left > 0], going[left > 0]
    rest = np.flatnonzero(accepted)
    accepted[rest] = _exp_fraction((numerators - whole * denominators)[rest], denominators[rest], source)
    return accepted


def exp_minus_one(size: int, source: NoiseSource) -> Bools:
    """Draw `size` times Bernoulli(exp(-1)) exactly."""
    ones = np.ones(size, dtype=np.int64)
    return _exp_fraction(ones, ones, source)


def geometric(size: int, source: NoiseSource) -> Ints:
    """Draw the number of successes of Bernoulli(exp(-1)) before its first failure."""
    count = np.zeros(size, dtype=np.int64)
    going = np.arange(size)
    while len(going):
        going = going[exp_minus_one(len(going), source)]
        count[going] += 1
    return count


def _exp_fraction(numerators: AnyInts, denominators: AnyInts, source: NoiseSource) -> Bools:
    """Bernoulli(exp(-x)) for x in [0, 1]: 1 if the first failing trial of Bernoulli(x / k), k = 1, 2, ..., is odd."""
    odd = np.empty(len(numerators), dtype=np.bool_)
    going = np.arange(len(numerators))
    trial = 1
    while len(going):
        hit = bernoulli(numerators, denominators * trial, source)
        odd[going[~hit]] = trial % 2 == 1
        going, numerators, denominators = going[hit], numerators[hit], denominators[hit]
        trial += 1
    return odd


def secret_noise(seed: int | None, client_id: int, stream: int = 0) -> NoiseSource:
    """Randomness from the operating system, unless the settings seed it."""
    if seed is None:
        return os_noise()
    return seeded_noise(int(np.random.SeedSequence([seed, client_id, stream]).generate_state(1)[0]))
