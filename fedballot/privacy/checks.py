"""Checks that every mechanism should pass, for `fedballot.testing`."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from fedballot.privacy.accounting import from_plain, to_plain
from fedballot.privacy.mechanism import Auditable, Mechanism
from fedballot.privacy.noise.randomness import NoiseSource, seeded_noise


def check_mechanism(mechanism: Mechanism, exact: Any) -> None:
    """Check one mechanism on an exact value: its costs, and where its randomness comes from.

    Raises
    ------
    AssertionError
        Naming the mechanism, and what to do.
    """
    name = type(mechanism).__name__

    def demand(holds: bool, what: str) -> None:
        if not holds:
            raise AssertionError(f"{name}: {what}")

    frozen = dataclasses.is_dataclass(mechanism) and type(mechanism).__dataclass_params__.frozen
    demand(frozen, "a mechanism is a frozen dataclass of public numbers: add @dataclass(frozen=True)")
    known = [mechanism.cost("client"), mechanism.cost("record"), mechanism.cost("person", 2)]
    for cost in [cost for cost in known if cost is not None]:
        words = f"{type(cost).__name__} does not come back from a ledger: add @register_cost"
        demand(from_plain(to_plain(cost)) == cost, words)
        demand(cost.noisy or cost.mass > 0, f"{cost} costs nothing: cost() returns None where nothing is protected")
    before, drawn = np.array(exact, copy=True), 0

    def released(seed: int) -> bytes:
        nonlocal drawn
        source = seeded_noise(seed)

        def words(count: int) -> Any:
            nonlocal drawn
            drawn += count
            return source.words(count)

        return np.asarray(mechanism.release(exact, NoiseSource(False, words))).tobytes()

    first = released(1)
    demand(np.array_equal(before, np.asarray(exact)), "release() changes its argument: work on a copy")
    demand(first == released(1), "release() uses randomness of its own: draw from the NoiseSource alone")
    if any(cost is not None and cost.noisy for cost in known):
        demand(drawn > 0, "release() has a cost, but draws nothing from the NoiseSource: add the noise")
        others = {released(seed) for seed in range(2, 12)}
        demand(others != {first}, "release() gives the same under all noise: the noise must move what is released")
    if isinstance(mechanism, Auditable):
        worst = mechanism.worst_case()
        scores = [worst.score(mechanism.release(x, seeded_noise(1))) for x in (worst.inside, worst.outside)]
        demand(bool(np.isfinite(scores).all()), f"worst_case() has scores {scores}: they must be finite numbers")
