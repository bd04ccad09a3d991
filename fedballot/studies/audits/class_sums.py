"""Worlds for noisy class sums, of one client and of several."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fedballot.clients.private_heads import head_codec
from fedballot.datasets.embedding import fit_embedding, nearness
from fedballot.privacy.audit.mechanisms import Finding, vector_variance
from fedballot.privacy.mechanisms.class_sums import SENSITIVITY
from fedballot.privacy.mechanisms.parts import OwnSums, SharedSums
from fedballot.studies.audits.registry import client_audit
from fedballot.studies.audits.worlds import (
    CLIENTS,
    COLLUDERS,
    Desk,
    Floats,
    layers_of,
    least_variance,
    made_up,
    spread,
)
from fedballot.wire.codec import Integers
from fedballot.wire.messages import Arrays

CANARIES = 200


@client_audit(OwnSums, "class sums")
def own_sums(desk: Desk, part: str, claim: float) -> list[Finding]:
    """Class sums of one client, which has all the noise itself."""
    return _class_sums(desk, part, claim, 1)


@client_audit(SharedSums, "class sums")
def shared_sums(desk: Desk, part: str, claim: float) -> list[Finding]:
    """The sum over several clients, each with a share of the noise."""
    return _class_sums(desk, part, claim, CLIENTS)


def _class_sums(desk: Desk, part: str, claim: float, clients: int) -> list[Finding]:
    """Each record's label is one of two of its own: 2 j or 2 j + 1 for record j."""
    summed, width, coordinates, public = clients > 1, 4, 3, 60
    classes = 2 * (CANARIES + clients)  # the others' records have classes of their own
    settings = desk.settings(
        clients=clients,
        min_clients=clients,
        colluders=COLLUDERS,
        public_size=public,
        extractor="none",
        dimension=coordinates,
        records=CANARIES,
        epsilon=claim,
    )
    pool, x = spread(public, width, 1), spread(CANARIES, width, 2)
    asked: Arrays = []
    if settings.with_landmarks:
        asked = [spread(coordinates, width, 3)]
        z = nearness(fit_embedding(pool, width).transform(x), asked[0])
    else:
        z = fit_embedding(pool, coordinates).transform(x)

    def world(side: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        return x, 2 * np.arange(CANARIES) + side

    others = [(x[:1], [2 * (CANARIES + client_id)]) for client_id in range(1, clients)]
    noisy = desk.mechanism(settings, made_up([world(0), *others], pool, classes), asked, part).noisy
    own = np.hstack([np.ones((CANARIES, 1)), z.astype(np.float64)]) * noisy.scale  # what a record adds to its class
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    vector, shape = noisy.mechanism, (classes, 1 + coordinates)

    def scores(side: int) -> Floats:
        """One release: how far each record's pair of classes leans to the second of them; 1 apart between the sides."""
        total, data = np.zeros(shape), made_up([world(side), *others], pool, classes)
        for client_id in range(vector.min_clients - vector.colluders):
            answer = desk.ask(settings, data, asked, client_id)
            if summed:
                total += noisy.read(Integers(shape).read(answer).astype(np.int64)) * noisy.scale
            else:
                total += head_codec(settings, [shape]).read(answer)[0] * noisy.scale
        pairs = total[: 2 * CANARIES].reshape(CANARIES, 2, -1)
        return np.asarray(((pairs[:, 1] - pairs[:, 0]) * own).sum(axis=1) / math.sqrt(2))

    inside, outside = [], []
    for _ in desk.rounds("class sums", desk.times(CANARIES)):
        inside.append(scores(1))
        outside.append(scores(0))
    residuals = [*(one - math.sqrt(0.5) for one in inside), *(other + math.sqrt(0.5) for other in outside)]
    declared = least_variance(vector_variance(vector), SENSITIVITY, claim)
    return layers_of(residuals, declared, inside, outside, claim)
