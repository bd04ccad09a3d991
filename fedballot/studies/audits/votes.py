"""Worlds for noisy votes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fedballot.privacy.audit.mechanisms import Finding
from fedballot.privacy.mechanisms.votes import NoisyVotes
from fedballot.privacy.mechanisms.weighted import WeightedVotes
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
    settings = _settings(desk, epsilon=_of_all(one), sigma=one.sigma)
    return _voted(desk, part, settings, claim)


@client_audit(WeightedVotes, "weighted votes")
def weighted_votes(desk: Desk, part: str, claim: float) -> list[Finding]:
    """The same of a client with half of the target, whose vote counts less and claims less."""
    one = WeightedVotes.solve(claim, DELTA, queries=1, max_votes=1, min_clients=CLIENTS, colluders=COLLUDERS)
    targets = (_of_all(one) / 2, _of_all(one))
    dealt = replace(desk, choice={**desk.choice, "client_epsilons": targets})
    return _voted(dealt, part, _settings(dealt, epsilon=targets[1]), claim)


def _of_all(one: NoisyVotes) -> float:
    """Epsilon of as many queries as clients are asked."""
    return replace(one, queries=QUERIES, max_votes=QUERIES).epsilon(DELTA)


def _settings(desk: Desk, **noise: float) -> Any:
    return desk.settings(
        clients=CLIENTS,
        min_clients=CLIENTS,
        colluders=COLLUDERS,
        public_size=QUERIES,
        client_models="logistic-regression",
        unit="client",
        abstain=False,
        vote_fraction=1.0,
        k=1,  # with one neighbour the votes are one-hot too
        **noise,
    )


def _voted(desk: Desk, part: str, settings: Any, claim: float) -> list[Finding]:
    data, queries = three_classes(), np.arange(QUERIES, dtype=np.int32)
    noisy = desk.mechanism(settings, data, [queries], part)
    reach = noisy.swaps("client")
    residuals, inside, outside = [], [], []
    for _ in desk.rounds("votes", desk.times(QUERIES)):
        own, noise = [], np.zeros((QUERIES, len(data.classes)))
        for client_id in range(HONEST):
            client = desk.client(settings, data, client_id)
            answer = Integers(noise.shape).read(desk.answer(client, [queries]))
            weight = client.composition(queries).parts[part].swaps("client")
            own.append(weight * desk.exact(client, [queries], part).astype(np.int64))
            noise += answer - own[-1]
        column = own[0].argmax(axis=1)
        residuals.append(noise)
        inside.append((noise + own[0])[queries, column])
        outside.append(noise[queries, (column + 1) % noise.shape[1]])
    claim = claim if reach == noisy.ballot else replace(noisy, queries=1, max_votes=1).epsilon(DELTA)
    declared = least_variance((noisy.ballot * noisy.sigma) ** 2, reach, claim)
    return layers_of(residuals, declared, inside, outside, claim)
