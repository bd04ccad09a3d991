"""The two private kinds of FedMD: trained on one fixed random sample (FedMD-NFDP), or told with noise (FedMD-LDP).

Paper: "Federated model distillation with noise-free differential privacy", Theorems 1 and 2 and its baseline FedMD-LDP.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from fedballot.clients.base import Arrays, Asked, Part, Refusal, Release, Terms, refusals
from fedballot.clients.fedmd import FedmdClient, Floats, Indices, Task
from fedballot.datasets.examples import Examples
from fedballot.datasets.own import SITES
from fedballot.privacy.accounting import accountants as accounting
from fedballot.privacy.guarantee import Adjacency, Unit
from fedballot.privacy.mechanisms.nfdp import NfdpSample
from fedballot.privacy.mechanisms.vectors import NoisyVector, clip_rows
from fedballot.privacy.noise.randomness import NoiseSource, secret_noise
from fedballot.settings.fedmd import LdpSettings, NfdpSettings, NoisyPredictions, noisy_predictions


class NfdpClient(FedmdClient[NfdpSettings]):
    """A client that trains on its sample; the rest of its partition is never read.

    Whatever is computed from the sample, and how it fails, costs nothing beyond it.
    """

    @property
    def sampling(self) -> NfdpSample:
        """How the sample is drawn: from the client's records, and from empty seats where they are fewer than agreed."""
        settings = self.workspace.settings
        return NfdpSample(max(self.workspace.records, settings.min_size), settings.k, settings.replacement)

    @property
    def charge(self) -> NfdpSample:
        """What is charged: at a site, whose number of records is its own affair, the sample of the fewest agreed on."""
        settings = self.workspace.settings
        return replace(self.sampling, n=settings.min_size) if settings.dataset == SITES else self.sampling

    def terms(self, question: Any) -> Terms:
        also: list[tuple[Unit, Adjacency]] = [("record", "replace-one"), ("person", "replace-one")]
        return Terms("record", "add-remove", 0.0, self.charge.delta, also=also)

    def release(self, question: Task, asked: Asked) -> Release:
        """Logits of a model that has seen the sample alone, which is drawn and charged once."""
        self.sample()
        with self.workspace.limit():
            return self.exact(question)

    def own(self) -> Examples:
        """The sampled records, duplicates included where drawn with replacement."""
        workspace, drawn = self.workspace, self.sample()
        filled = drawn[drawn < workspace.records]
        if filled.size == 0:
            raise Refusal("empty", "no seat of the sample is filled")
        if workspace.read is not None:
            everything, rows = workspace.read(), workspace.ranks()[filled] if workspace.ranks else filled
            return Examples(x=np.asarray(everything.x[rows]), y=np.asarray(everything.y[rows]))
        chosen, everything = workspace.data.parts[workspace.client_id][filled], workspace.data.private
        return Examples(x=np.asarray(everything.x[chosen]), y=np.asarray(everything.y[chosen]))

    def sample(self) -> Indices:
        """The sampled seats, sorted; in the ledger before the first epoch, and the same ever after."""
        ledger, noise = self.workspace.open_ledger(self.terms(None)), self.noise("sample", None)
        with refusals():
            cost = self.charge.cost(self.workspace.counted(ledger.account.unit))
            return ledger.sample(self.sampling, noise, cost, version=self.workspace.version)


class LdpClient(FedmdClient[LdpSettings]):
    """A client that trains on all its records and adds noise to what it tells."""

    @property
    def mechanism(self) -> NoisyPredictions:
        """The noise on predictions."""
        return noisy_predictions(self.workspace.settings, len(self.workspace.data.classes))

    def terms(self, question: Any) -> Terms:
        noisy, delta = self.mechanism, self.workspace.settings.delta
        # a blank answer lies within the bound, and a record or person moves no more than the whole client
        also: list[tuple[Unit, Adjacency]] = [
            ("client", "zero-out"),
            ("record", "replace-one"),
            ("person", "replace-one"),
        ]
        budget = accounting.least_budget([noisy.mechanism.cost()] * noisy.releases, delta, noisy.accountant)
        return Terms("client", "replace-one", budget, delta, noisy.accountant, also)

    def parts(self, question: Task, unit: Unit) -> dict[str, Part]:
        noisy = self.mechanism.mechanism
        grid = noisy.grid if isinstance(noisy, NoisyVector) else 1.0

        def release(logits: Floats, noise: NoiseSource) -> Floats:
            return np.asarray(noisy.release(bounded(logits, self.workspace.settings), noise) * grid, dtype=np.float32)

        return {"predictions": Part(noisy.cost(), release)}

    def blank(self, question: Task) -> dict[str, Any]:
        return {"predictions": np.zeros((len(question.asked), len(self.workspace.data.classes)), np.float32)}

    def pack(self, question: Task, release: Release) -> Arrays:
        """Noisy predictions, float32 (Q, C)."""
        return [release["predictions"]]

    def noise(self, part: str, question: Task) -> NoiseSource:
        """Each round has a stream of its own."""
        return secret_noise(self.workspace.settings.noise_seed, self.workspace.client_id, question.round)


def bounded(logits: Floats, settings: LdpSettings) -> npt.NDArray[np.float64]:
    """What is told of logits (Q, C) before the noise, each row within the mechanism's bound."""
    if settings.share == "logits" and settings.noise == "gaussian":
        return clip_rows(logits, settings.logit_bound)
    if settings.share == "logits":
        return np.clip(logits.astype(np.float64), -settings.logit_bound, settings.logit_bound)
    if settings.share == "argmax":
        return np.asarray(np.eye(logits.shape[1])[logits.argmax(axis=1)])
    return np.asarray(softmax(logits.astype(np.float64), axis=1))
