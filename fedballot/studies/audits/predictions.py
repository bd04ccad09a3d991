"""Worlds for noisy predictions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fedballot.core.errors import SettingsError
from fedballot.privacy import accounting
from fedballot.privacy.audit.mechanisms import Finding
from fedballot.privacy.mechanisms.predictions import NoisyPredictions
from fedballot.privacy.mechanisms.vectors import NoisyVector
from fedballot.studies.audits.registry import client_audit
from fedballot.studies.audits.worlds import (
    DELTA,
    QUERIES,
    Desk,
    Floats,
    layers_of,
    least_variance,
    made_up,
    spread,
)


@client_audit(NoisyPredictions, "predictions")
def predictions(desk: Desk, part: str, claim: float) -> list[Finding]:
    """A client whose model puts each public record into one corner, or into the other."""
    one = NoisyVector.solve(claim, DELTA, sensitivity=math.sqrt(2), coordinates=2)
    whole = replace(one, sensitivity=one.sensitivity * math.sqrt(QUERIES), coordinates=2 * QUERIES)
    both = 2  # releases of a run of one round
    settings = desk.settings(
        public_size=QUERIES,
        queries=QUERIES,
        rounds=1,
        share="argmax",
        pretrain_epochs=0,
        client_models="logistic-regression",
        epsilon=accounting.epsilon([whole.cost()] * both, DELTA),
    )
    pool = np.abs(spread(QUERIES, 2, 1)) + 1
    x, rows = np.vstack([pool[:20], -pool[:20]]), np.arange(QUERIES, dtype=np.int32)
    worlds = [made_up([(x, np.repeat([label, 1 - label], 20))], pool, 2) for label in (0, 1)]
    noisy = desk.mechanism(settings, worlds[0], [rows], part).noisy
    if not isinstance(noisy, NoisyVector):
        raise SettingsError(f"the audit of predictions knows Gaussian noise only, not {type(noisy).__name__}")

    def scores(label: int) -> tuple[Floats, Floats]:
        seen = desk.ask(settings, worlds[label], [rows])[0].astype(np.float64)
        return (seen[:, 1] - seen[:, 0]) / math.sqrt(2), seen - np.eye(2)[label]

    inside: list[Floats] = []
    outside: list[Floats] = []
    residuals: list[Floats] = []
    for _ in desk.rounds("predictions", desk.times(QUERIES)):
        for label, into in ((1, inside), (0, outside)):
            seen, noise = scores(label)
            into.append(seen)
            residuals.append(noise)
    declared = least_variance(noisy.sigma**2, math.sqrt(2), claim)
    return layers_of(residuals, declared, inside, outside, claim)
