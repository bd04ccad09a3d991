"""Worlds for private linear heads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.clients.frozen import split_public
from fedballot.clients.private_heads import head_codec
from fedballot.datasets.federation import FederatedData
from fedballot.privacy.audit.mechanisms import Finding, vector_variance
from fedballot.privacy.mechanisms.heads import PrivateHead, fit_head, prepare
from fedballot.studies.audits.registry import client_audit
from fedballot.studies.audits.worlds import FAR, Desk, Floats, layers_of, least_variance, made_up, spread

CANARIES, REST = 100, 900


@client_audit(PrivateHead, "class head", parts=("classes",))
def class_head(desk: Desk, part: str, claim: float) -> list[Finding]:
    """Each canary of label 1 points one way or the other, far beyond the bound; the rest, of label 0, nowhere."""
    settings = _settings(desk, claim, public=20)
    labels = np.repeat([1, 0], [CANARIES, REST])
    blank = np.zeros((REST, CANARIES), dtype=np.float32)

    def expected(x: npt.NDArray[np.float32], pool: npt.NDArray[np.float32]) -> Floats:
        return fit_head(prepare(x, 1.0), labels, 2, settings.lam).weights

    return _two_sided(desk, settings, part, "class head", 0, labels, blank, expected, claim)


@client_audit(PrivateHead, "score head", parts=("scores",))
def score_head(desk: Desk, part: str, claim: float) -> list[Finding]:
    """As `class_head`; all records are of label 1, and the public negatives are many."""
    settings = _settings(desk, claim, public=1000, pretrain_share=0.9)
    labels = np.ones(CANARIES, dtype=np.int64)
    blank = np.zeros((0, CANARIES), dtype=np.float32)

    def expected(x: npt.NDArray[np.float32], pool: npt.NDArray[np.float32]) -> Floats:
        _, auxiliary = split_public(len(pool), settings.pretrain_share, settings.seed)
        both = np.vstack([prepare(x, 1.0), prepare(pool[auxiliary], 1.0)])
        return fit_head(both, np.repeat([1, 0], [CANARIES, REST]), 2, 2 * settings.lam).weights

    return _two_sided(desk, settings, part, "score head", 1, labels, blank, expected, claim)


def _settings(desk: Desk, claim: float, *, public: int, pretrain_share: float = 0.2) -> Any:
    return desk.settings(
        public_size=public,
        pretrain_share=pretrain_share,
        extractor="none",
        epsilon=claim,
        score_epsilon=claim,
    )


def _two_sided(
    desk: Desk,
    settings: Any,
    part: str,
    label: str,
    which: int,
    labels: npt.NDArray[np.int64],
    blank: npt.NDArray[np.float32],
    expected: Callable[[npt.NDArray[np.float32], npt.NDArray[np.float32]], Floats],
    claim: float,
) -> list[Finding]:
    """Scores along each canary's feature of the head number ``which`` that is told."""
    pool = spread(settings.public_size, CANARIES, 1)
    pool /= np.linalg.norm(pool, axis=1, keepdims=True)  # the public bound is 1

    def world(sign: int) -> tuple[FederatedData, Floats]:
        x = np.vstack([sign * FAR * np.eye(CANARIES, dtype=np.float32), blank])
        w = expected(x, pool)
        return made_up([(x, labels)], pool, 2), (w[1] - w[0])[1:] / math.sqrt(2)

    (one, lean), (other, opposite) = world(1), world(-1)
    noisy = desk.mechanism(settings, one, [], part)
    shapes = [(2, noisy.features), *([(noisy.features,)] if settings.with_scores else [])]

    def scores(data: FederatedData) -> Floats:
        answer = head_codec(settings, shapes).read(desk.ask(settings, data, []))[which].astype(np.float64)
        head = answer[1] - answer[0] if which == 0 else answer
        return np.asarray(head[1:] / math.sqrt(2))  # the noise of one weight

    inside, outside = [], []
    for _ in desk.rounds(label, desk.times(CANARIES)):
        inside.append(scores(one))
        outside.append(scores(other))
    residuals = [*(seen - lean for seen in inside), *(seen - opposite for seen in outside)]
    declared = least_variance(vector_variance(noisy.mechanism), noisy.mechanism.sensitivity, claim)
    return layers_of(residuals, declared, inside, outside, claim)
