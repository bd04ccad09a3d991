"""Worlds for noisy histograms: records that lie in one public cell or in another, clients that are there or blank."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedballot.privacy.audit.mechanisms import Finding
from fedballot.privacy.mechanisms.histogram import LISTS, NoisyHistogram
from fedballot.studies.audits.registry import client_audit
from fedballot.studies.audits.worlds import (
    CLIENTS,
    COLLUDERS,
    HONEST,
    Desk,
    Floats,
    layers_of,
    least_variance,
    made_up,
    spread,
)
from fedballot.wire.codec import Integers

Records = tuple[npt.NDArray[np.float32], Sequence[int] | npt.NDArray[np.integer]]

CANARIES = 100
CELLS = 2 * CANARIES
REACH = 0.01  # far less than public records are apart


@client_audit(NoisyHistogram, "record counts", parts=["counts"])
def record_counts(desk: Desk, part: str, claim: float) -> list[Finding]:
    """Record j lies in cell 2 j and is of class 2 j, or 2 j + 1 twice: it moves four counts."""
    pool = spread(CELLS, 4, 1)
    others: list[Records] = [(pool[:1], [0])] * (CLIENTS - 1)
    pairs = np.arange(CELLS).reshape(CANARIES, 2)

    def scores(side: int) -> Floats:
        """One release: along what each record moves, 1 for the second of its places and -1 for the first."""
        rows = pairs[:, side]
        cells, classes = _asked(desk, claim, [(pool[rows], rows), *others], pool)[0]
        cells[0] -= HONEST - 1  # what the other clients hold is known
        classes[0] -= HONEST - 1
        lean = (cells[pairs] + classes[pairs]) @ np.array([-1, 1])
        return np.asarray(lean / math.sqrt(2 * LISTS))

    inside, outside = [], []
    for _ in desk.rounds("record counts", desk.times(CANARIES)):
        inside.append(scores(1))
        outside.append(scores(0))
    noisy = _noisy(desk, claim, pool, part)
    residuals = [*(one - 1 for one in inside), *(other + 1 for other in outside)]
    return layers_of(residuals, least_variance(noisy.sigma**2, 2.0, claim), inside, outside, claim)


@client_audit(NoisyHistogram, "client shares", parts=["shares"])
def client_shares(desk: Desk, part: str, claim: float) -> list[Finding]:
    """A client whose records all lie in one place, or that is blank; every other place shows how blank ones look."""
    pool = spread(CELLS, 4, 1)
    parts: list[Records] = [(pool[:1].repeat(3, axis=0), [0, 0, 0])] * CLIENTS
    residuals, inside, outside = [], [], []
    for _ in desk.rounds("client shares", desk.times(CELLS)):
        (cells, classes), exact = _asked(desk, claim, parts, pool)
        cells[0] -= exact[0]
        classes[0] -= exact[CELLS + 1]
        reach = float(np.linalg.norm(exact)) / HONEST
        noise = (cells + classes) / math.sqrt(LISTS)
        residuals.append(noise)
        inside.append(noise + reach)
        outside.append(noise)
    noisy = _noisy(desk, claim, pool, part)
    return layers_of(
        residuals, least_variance(noisy.sigma**2, noisy.steps * math.sqrt(LISTS), claim), inside, outside, claim
    )


def _settings(desk: Desk, claim: float) -> dict[str, object]:
    return {
        "clients": CLIENTS,
        "min_clients": CLIENTS,
        "colluders": COLLUDERS,
        "public_size": CELLS,
        "cells": CELLS,
        "extractor": "none",
        "epsilon": claim,
        "unit": "client",  # unless the desk's choice says otherwise
    }


def _request() -> list[npt.NDArray[np.generic]]:
    return [np.arange(CELLS, dtype=np.int32), np.full(CELLS, REACH, dtype=np.float32)]


def _noisy(desk: Desk, claim: float, pool: npt.NDArray[np.float32], part: str) -> NoisyHistogram:
    data = made_up([(pool[:1], [0])] * CLIENTS, pool, CELLS)
    noisy: NoisyHistogram = desk.mechanism(desk.settings(**_settings(desk, claim)), data, _request(), part)
    return noisy


def _asked(
    desk: Desk, claim: float, parts: Sequence[Records], pool: npt.NDArray[np.float32]
) -> tuple[tuple[Floats, Floats], Floats]:
    """Counts by cell and near counts by class in a sum of all secret shares; and the same sum without noise."""
    settings, data = desk.settings(**_settings(desk, claim)), made_up(parts, pool, CELLS)
    total, exact = np.zeros((2, CELLS + 1 + 2 * CELLS))
    for client_id in range(HONEST):
        client = desk.client(settings, data, client_id)
        total += Integers(total.shape).read(desk.answer(client, _request()))
        (own,) = client.exact(client.question(_request(), {})).values()
        exact += own
    return (total[:CELLS].copy(), total[CELLS + 1 : 2 * CELLS + 1].copy()), exact
