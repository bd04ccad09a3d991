"""Worlds for samples without noise."""

from __future__ import annotations

import numpy as np

from fedballot.datasets.federation import FederatedData
from fedballot.privacy.audit import statistics as audit
from fedballot.privacy.audit.mechanisms import ALARM, Finding
from fedballot.privacy.mechanisms.nfdp import NfdpSample
from fedballot.studies.audits.registry import client_audit
from fedballot.studies.audits.worlds import FAR, Desk, made_up, spread
from fedballot.wire.codec import Choices
from fedballot.wire.messages import Arrays

SAMPLES = 60  # answers from which sampling is judged, at each place


@client_audit(NfdpSample, "fixed sample")
def fixed_sample(desk: Desk, part: str, claim: float) -> list[Finding]:
    """How often the answer betrays the one record of another label, far from all: at three places among the records.

    What is claimed is a delta; epsilon is 0, whatever ``claim``.
    """
    n, k = 20, 5
    settings = desk.settings(
        public_size=1, queries=1, rounds=1, pretrain_epochs=0, k=k, min_size=n, share="argmax",
        client_models="knn(n_neighbors=1)",  # says what the nearest record of the sample is, and is fitted at once
    )  # fmt: skip
    pool = np.full((1, 2), FAR, dtype=np.float32)
    rows: Arrays = [np.zeros(1, dtype=np.int32)]

    def world(place: int) -> FederatedData:
        x = -1 - np.abs(spread(n, 2, 1))
        y = np.zeros(n, dtype=np.int64)
        x[place], y[place] = pool[0], 1
        return made_up([(x, y)], pool, 2)

    worlds = [world(place) for place in (0, n // 2, n - 1)]
    sample = desk.mechanism(settings, worlds[0], rows, part)

    def betrayed(number: int) -> bool:
        answer = desk.ask(settings, worlds[number % 3], rows)
        return bool(Choices((1, 2)).read(answer)[0, 1])

    seen = np.array([betrayed(number) for number in desk.rounds("samples", 3 * SAMPLES)]).reshape(SAMPLES, 3).T
    # a fault in k moves all places, a fault in the drawing some: each half of the error; the claim is tight
    found = max(audit.inclusion_bound(one, 1 - ALARM / 2) for one in (seen, seen.reshape(1, -1)))
    return [Finding("sample", sample.delta, found, found <= sample.delta)]
