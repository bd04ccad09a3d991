"""The client's side of FedAUXfdp, and of FedAUX with a frozen extractor: what leaves is about frozen features.

Paper: "FedAUXfdp: Differentially private one-shot federated distillation", Algorithm 1 and section 3.
`head = "logistic"` is the paper's: a score head against public negatives and a class head, each with its own budget.
`head = "class-sums"` is ours: class counts and sums in one release.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedballot.clients.base import Arrays, Release
from fedballot.clients.class_sums import SumsClient, SumsQuestion
from fedballot.clients.private_heads import (
    Features,
    HeadClient,
    HeadQuestion,
    distil_rows,
    fit_score_head,
    pack,
)
from fedballot.clients.workspace import EVALUATED
from fedballot.core.seeds import seed_of
from fedballot.distillation.certainty import score
from fedballot.learners.registry import make_learner
from fedballot.settings.fedaux import FedauxfdpSettings, FedauxFSettings


class FedauxfdpClient(SumsClient[FedauxfdpSettings], HeadClient[FedauxfdpSettings]):
    """A client of FedAUXfdp: class sums, or the paper's heads."""

    def exact(self, question: HeadQuestion) -> dict[str, Any]:
        """Of class sums, or of heads."""
        sums = isinstance(question, SumsQuestion)
        return SumsClient.exact(self, question) if sums else HeadClient.exact(self, question)

    def pack(self, question: HeadQuestion, release: Release) -> Arrays:
        """Heads or what they say of the public records, or class sums [(C, 1 + d)]."""
        if not isinstance(question, SumsQuestion):
            return super().pack(question, release)
        return pack([release["sums"]], self.workspace.settings)


class FedauxFClient(HeadClient[FedauxFSettings]):
    """A client of FedAUX with a frozen extractor: its class head is any learner, trained without noise."""

    def exact(self, question: HeadQuestion) -> dict[str, Any]:
        """Predictions of the class learner on the public records (Q, C), and the score head (2, p)."""
        workspace, settings = self.workspace, self.workspace.settings
        features, names = Features(question.public, workspace.private()), settings.client_models
        learner = make_learner(
            names[workspace.client_id % len(names)],
            n_classes=len(workspace.data.classes),
            input_shape=(features.width,),
            seed=seed_of(settings.seed, workspace.client_id),
            device=workspace.device,
            epochs=settings.epochs,
            batch_size=settings.batch_size,
            lr=settings.lr,
        ).fit(features.private.astype(np.float32), features.own.y)
        if settings.evaluate_clients:
            test = features.prepared(np.asarray(workspace.data.test_x[:EVALUATED])).astype(np.float32)
            self.note(learner.predict_logits(test).argmax(axis=1))
        logits = learner.predict_logits(distil_rows(question.public).astype(np.float32)).astype(np.float64)
        return {"predictions": logits, "scores": fit_score_head(features, settings.lam)}

    def pack(self, question: HeadQuestion, release: Release) -> Arrays:
        """Predictions (Q, C) and private scores (Q,)."""
        logits, pair = release["predictions"], release["scores"]
        scores = score(distil_rows(question.public), pair[1] - pair[0])
        return pack([logits - logits.mean(axis=1, keepdims=True), scores], self.workspace.settings)
