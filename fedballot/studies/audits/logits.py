"""Worlds for noisy sums of clipped logits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedballot.privacy.audit.mechanisms import Finding
from fedballot.privacy.mechanisms.logits import NoisyLogits
from fedballot.studies.audits.registry import client_audit
from fedballot.studies.audits.worlds import (
    CLIENTS,
    COLLUDERS,
    DELTA,
    HONEST,
    QUERIES,
    Desk,
    layers_of,
    least_variance,
    three_classes,
)
from fedballot.wire.codec import Integers


@client_audit(NoisyLogits, "logits")
def logits(desk: Desk, part: str, claim: float) -> list[Finding]:
    """One client's logits on a query, far beyond the bound, in the sum of all, or none; a colluder's share is known."""
    bound, classes = 0.02, 3
    one = NoisyLogits.solve(
        claim, DELTA, queries=1, classes=classes, bound=bound, min_clients=CLIENTS, colluders=COLLUDERS
    )
    settings = desk.settings(
        clients=CLIENTS,
        min_clients=CLIENTS,
        colluders=COLLUDERS,
        public_size=QUERIES,
        queries=QUERIES,
        client_models="logistic-regression",
        logit_bound=bound,
        epsilon=replace(one, queries=QUERIES).mechanism.epsilon(DELTA),
    )
    data, rows = three_classes(), np.arange(QUERIES, dtype=np.int32)
    noisy = desk.mechanism(settings, data, [rows], part)
    residuals, inside, outside = [], [], []
    for _ in desk.rounds("logits", desk.times(QUERIES)):
        along, reach, noise = [], [], np.zeros((QUERIES, classes))
        for client_id in range(HONEST):
            client = desk.client(settings, data, client_id)
            steps = Integers(noise.shape).read(desk.answer(client, [rows]))
            raw = desk.exact(client, [rows], part)  # of fedkd-dp: none of them within the bound
            norms = np.linalg.norm(raw, axis=1, keepdims=True)
            along.append(raw / norms)
            reach.append(np.minimum(noisy.bound, norms))
            noise += steps * noisy.mechanism.grid - reach[-1] * along[-1]
        across = np.roll(along[0], 1, axis=1) - np.roll(along[0], -1, axis=1)  # at a right angle to three classes
        across /= np.linalg.norm(across, axis=1, keepdims=True)
        residuals.append(noise)
        inside.append((noise * along[0]).sum(axis=1) + reach[0][:, 0])
        outside.append((noise * across).sum(axis=1))
    declared = least_variance(noisy.sigma**2, noisy.bound, claim)
    return layers_of(residuals, declared, inside, outside, claim)
