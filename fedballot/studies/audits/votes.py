"""Worlds for noisy votes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedballot.privacy.audit.mechanisms import Finding
from fedballot.privacy.mechanisms.votes import NoisyVotes
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


@client_audit(NoisyVotes, "votes")
def votes(desk: Desk, part: str, claim: float) -> list[Finding]:
    """One client's vote on a query in the tally, or none; a colluder's share is known."""
    one = NoisyVotes.solve(claim, DELTA, queries=1, max_votes=1, min_clients=CLIENTS, colluders=COLLUDERS)
    settings = desk.settings(
        clients=CLIENTS,
        min_clients=CLIENTS,
        colluders=COLLUDERS,
        public_size=QUERIES,
        client_models="logistic-regression",
        unit="client",
        abstain=False,
        vote_fraction=1.0,
        k=1,  # with one neighbour the votes are one-hot too
        epsilon=replace(one, queries=QUERIES, max_votes=QUERIES).epsilon(DELTA),
        sigma=one.sigma,
    )
    data, queries = three_classes(), np.arange(QUERIES, dtype=np.int32)
    noisy = desk.mechanism(settings, data, [queries], part)
    residuals, inside, outside = [], [], []
    for _ in desk.rounds("votes", desk.times(QUERIES)):
        own, noise = [], np.zeros((QUERIES, len(data.classes)))
        for client_id in range(HONEST):
            client = desk.client(settings, data, client_id)
            answer = Integers(noise.shape).read(desk.answer(client, [queries]))
            own.append(desk.exact(client, [queries], part))
            noise += answer - own[-1]
        column = own[0].argmax(axis=1)
        residuals.append(noise)
        inside.append((noise + own[0])[queries, column])
        outside.append(noise[queries, (column + 1) % noise.shape[1]])
    declared = least_variance((noisy.ballot * noisy.sigma) ** 2, noisy.ballot, claim)
    return layers_of(residuals, declared, inside, outside, claim)
