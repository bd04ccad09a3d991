"""Worlds for noisy weights: noise of the server, and noise in every step of a client."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.datasets.federation import FederatedData
from fedballot.methods.registry import get_method
from fedballot.privacy.audit import statistics as audit
from fedballot.privacy.audit.mechanisms import Finding, by_p_value, first_layers
from fedballot.privacy.mechanisms.parts import NoisySteps, ServerNoise
from fedballot.runs.engine import new_strategy
from fedballot.strategies.base import Answer
from fedballot.studies.audits.registry import client_audit
from fedballot.studies.audits.worlds import DELTA, FAR, Desk, Floats, layers_of, least_variance, made_up, spread

CANARIES = 200
BATCHES = 20  # answers from which sampling is judged
SUMS = 2000  # most noisy sums of the server, of which each is one run only


@client_audit(ServerNoise, "the server's sum")
def client_sums(desk: Desk, part: str, claim: float) -> list[Finding]:
    """The server's average of one real client's difference, far longer than the clip, or of nobody's."""
    settings = desk.settings(
        rounds=1, epochs=1, lr=FAR, clip=0.1, epsilon=claim, client_models="linear-torch", public_size=10, batch_size=8
    )
    data = made_up([(spread(8, 3, 1), [0, 1] * 4)], spread(10, 3, 2), 2)
    seeded = settings if desk.seed is None else replace(settings, noise_seed=desk.seed)
    strategy: Any = new_strategy(get_method(desk.method), seeded, data, request_id="audit")
    start = strategy.request(1)
    noisy = desk.mechanism(settings, data, start, part).noisy
    answer = Answer(0, strategy.read(desk.ask(settings, data, start)), 0.0, 0.0)
    along = answer.ballot / np.linalg.norm(answer.ballot.astype(np.float64))

    def noisy_sum(answers: list[Answer]) -> Floats:
        strategy.round_records.append({})  # another round: other noise
        return np.asarray(strategy.averaging().of(answers) * settings.divisor)

    inside, outside, residuals = [], [], []
    for _ in desk.rounds("the server's sum", min(desk.runs, SUMS)):
        total = noisy_sum([])
        outside.append(total @ along)
        residuals.append(total)
        inside.append(noisy_sum([answer]) @ along)
    declared = least_variance((noisy.multiplier * noisy.clip) ** 2, noisy.clip, claim)
    return first_layers(np.concatenate(residuals), declared, np.array(inside), np.array(outside), claim, DELTA)


@dataclass(frozen=True, eq=False)
class _Canaries:
    """Records whose gradients at weights 0 are at right angles and far longer than the clip.

    Of two classes at probability 1/2 each, on inputs e_i, which `linear-torch` normalises: with the bias, their inner
    products are next to 0.
    """

    count: int

    def records(self, present: npt.NDArray[np.integer]) -> npt.NDArray[np.float32]:
        return np.asarray(FAR * np.eye(self.count, dtype=np.float32)[present])

    @property
    def directions(self) -> Floats:
        """Minus the gradients of label 1, of norm 1, (count, 2 count + 2)."""
        x = np.eye(self.count)
        z = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
        wide = np.hstack([-z, z, np.tile([-1.0, 1.0], (self.count, 1))])
        return np.asarray(wide / np.linalg.norm(wide, axis=1, keepdims=True))


def _descent(desk: Desk, settings: Any, data: FederatedData, weights: int) -> Floats:
    """Minus the sum of all noisy sums of a round, from weights 0."""
    answer = desk.ask(settings, data, [np.zeros(weights, dtype=np.float32)])[0]
    return np.asarray(answer.astype(np.float64) * settings.batch_size / settings.lr)


@client_audit(NoisySteps, "noisy steps")
def record_sums(desk: Desk, part: str, claim: float) -> list[Finding]:
    """Whole batches, one step: every second canary is there, its gradient far longer than the clip."""
    settings = desk.settings(
        rounds=1, epochs=1, rate=1.0, lr=1.0, batch_size=1, clip=0.5, epsilon=claim, client_models="linear-torch",
        public_size=10,
    )  # fmt: skip
    canaries = _Canaries(CANARIES)
    present, pool = np.arange(0, CANARIES, 2), canaries.records(np.arange(10))
    data = made_up([(canaries.records(present), np.ones(len(present), dtype=np.int64))], pool, 2)
    weights = 2 * CANARIES + 2
    noisy = desk.mechanism(settings, data, [np.zeros(weights, dtype=np.float32)], part).noisy
    directions = canaries.directions
    expected = directions @ (noisy.clip * directions[present].sum(axis=0))
    seen = [
        directions @ _descent(desk, settings, data, weights)
        for _ in desk.rounds("noisy steps", desk.times(CANARIES // 2))
    ]
    declared = least_variance((noisy.multiplier * noisy.clip) ** 2, noisy.clip, claim)
    residuals = [one - expected for one in seen]
    return layers_of(residuals, declared, [one[::2] for one in seen], [one[1::2] for one in seen], claim)


@client_audit(NoisySteps, "Poisson batches")
def record_batches(desk: Desk, part: str, claim: float) -> list[Finding]:
    """At next to no noise: which records were in how many batches."""
    rate, steps = 0.25, 4
    settings = desk.settings(
        rounds=1, epochs=1, rate=rate, lr=1e-6, batch_size=1, clip=0.5, noise_multiplier=0.02, epsilon=claim,
        client_models="linear-torch", public_size=10,
    )  # fmt: skip
    canaries = _Canaries(CANARIES)
    everybody = canaries.records(np.arange(CANARIES))
    data = made_up([(everybody, np.ones(CANARIES, dtype=np.int64))], everybody[:10], 2)
    seen = [
        np.rint(canaries.directions @ _descent(desk, settings, data, 2 * CANARIES + 2) / settings.clip)
        for _ in desk.rounds("batches", BATCHES)
    ]
    drawn = np.array(seen, dtype=np.int64)
    return [by_p_value("batches", rate, audit.poisson_p_value(drawn, steps, rate))]


@client_audit(NoisySteps, "images")
def record_reach(desk: Desk, part: str, claim: float) -> list[Finding]:
    """At little noise: how far the sum over a batch of images moves without the first of them."""
    n = 60
    settings = desk.settings(
        rounds=1, epochs=1, rate=1.0, lr=1.0, batch_size=1, clip=1.0, noise_multiplier=0.05, epsilon=claim,
        client_models="linear-torch", public_size=10,
    )  # fmt: skip
    generator = np.random.default_rng(1)
    x = generator.integers(0, 256, (n, 8, 8)).astype(np.uint8)
    y = generator.integers(0, 3, n)
    weights = 3 * 64 + 3
    worlds = [made_up([(x[first:], y[first:])], x[:10], 3) for first in (0, 1)]
    noisy = desk.mechanism(settings, worlds[0], [np.zeros(weights, dtype=np.float32)], part).noisy
    sums = [_descent(desk, settings, worlds[number], weights) for number in desk.rounds("a record's reach", 2)]
    variance = 2 * (noisy.multiplier * noisy.clip) ** 2
    return [by_p_value("reach", noisy.clip, audit.reach_p_value(sums[0] - sums[1], noisy.clip, variance))]
