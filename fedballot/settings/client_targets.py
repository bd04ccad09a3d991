"""Privacy targets of single clients: the votes of those that allow less count less.

Source: Boenisch et al. 2022, "Individualized PATE", as in `fedballot.privacy.mechanisms.weighted`.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import cycle, islice
from typing import Any

from fedballot.core.errors import SettingsError
from fedballot.core.setting import Settings, setting
from fedballot.privacy.guarantee import Unit
from fedballot.privacy.mechanisms.votes import NoisyVotes
from fedballot.privacy.mechanisms.weighted import WHOLE, WeightedVotes
from fedballot.privacy.words import up


@dataclass(frozen=True)
class ClientTargets(Settings):
    """Of methods whose clients vote, and may have privacy targets of their own."""

    client_epsilons: tuple[float, ...] = setting(
        (),
        "privacy targets of the clients, comma-separated, dealt out in turn; under a smaller one a vote counts less, "
        "and the largest must be epsilon; empty: all have epsilon",
        above=0,
        site_limit=(1e-3, 1000.0),
        headline=True,
    )

    def check(self) -> None:
        super().check()
        settings: Any = self
        targets, words = self.client_epsilons, f"client_epsilons={shown(self.client_epsilons)}"
        if not targets:
            return
        if math.isinf(settings.epsilon) or settings.sigma:
            name, value = ("sigma", settings.sigma) if settings.sigma else ("epsilon", settings.epsilon)
            raise SettingsError(
                f"{words} and {name}={value:g} contradict each other: votes are weighed for noise that is solved for "
                f"epsilon={shown((max(targets),))}; set that and sigma=0, or leave client_epsilons out"
            )
        if len(targets) > settings.clients:
            raise SettingsError(f"{words} has {len(targets)} targets for clients={settings.clients}: name no more")
        if max(targets) != settings.epsilon:
            raise SettingsError(
                f"{words}: the largest must be epsilon={shown((settings.epsilon,))}, for which the noise is solved: "
                f"make it that, or set epsilon={shown((max(targets),))}"
            )


def weighted(settings: Settings) -> bool:
    """Whether the votes of some clients count less than those of others."""
    return isinstance(settings, ClientTargets) and len(set(settings.client_epsilons)) > 1


def of_client(settings: Any, noisy: NoisyVotes, client: int | None) -> NoisyVotes:
    """The mechanism of one client; None: of those whose votes count most."""
    if client is None or not isinstance(noisy, WeightedVotes):
        return noisy
    targets: tuple[float, ...] = settings.client_epsilons
    return with_target(noisy, targets[client % len(targets)], settings.delta, settings.unit)


def groups(settings: Any, noisy: NoisyVotes) -> list[tuple[str, NoisyVotes]]:
    """For each target below the largest, whose it is and their mechanism."""
    if not isinstance(noisy, WeightedVotes):
        return []
    dealt = Counter(islice(cycle(settings.client_epsilons), settings.clients))
    return [
        (
            f"the {count} client{'s' if count > 1 else ''} whose target is {shown((target,))}",
            with_target(noisy, target, settings.delta, settings.unit),
        )
        for target, count in sorted(dealt.items())[:-1]
    ]


def shown(targets: tuple[float, ...]) -> str:
    """Targets as they are written."""
    return ",".join(str(target).removesuffix(".0") for target in targets)


@lru_cache(maxsize=256)  # each client of a group asks the same, in each run
def with_target(full: WeightedVotes, epsilon: float, delta: float, unit: Unit) -> WeightedVotes:
    """The mechanism of a client with this target: of ``full`` with the largest weight that keeps to it.

    Raises
    ------
    SettingsError
        If even the smallest weight costs more.
    """
    weight = full.largest_weight(epsilon, delta, unit)
    if not weight:
        least, largest = replace(full, weight=1).epsilon(delta, unit), full.epsilon(delta, unit)
        raise SettingsError(
            f"client_epsilons: {epsilon:g} is too small a target beside the largest, {largest:.4g}: a vote that "
            f"counts 1/{WHOLE} costs epsilon {up(least)}; raise it to that, or lower the largest and epsilon"
        )
    return replace(full, weight=weight)
