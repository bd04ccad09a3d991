"""The two private kinds of FedMD: trained on one fixed random sample (FedMD-NFDP), or told with noise (FedMD-LDP).

Paper: "Federated model distillation with noise-free differential privacy", Theorems 1 and 2 and its baseline FedMD-LDP.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fedballot.clients.base import Arrays, Asked, Release, refusals
from fedballot.clients.fedmd import FedmdClient, Indices, Task
from fedballot.clients.workspace import Refusal
from fedballot.datasets.examples import Examples
from fedballot.datasets.own import SITES
from fedballot.privacy.mechanism import Facts
from fedballot.privacy.mechanisms.nfdp import NfdpSample
from fedballot.privacy.noise.randomness import NoiseSource, secret_noise
from fedballot.settings.fedmd import LdpSettings, NfdpSettings
from fedballot.wire.codec import Singles


class NfdpClient(FedmdClient[NfdpSettings]):
    """A client that trains on its sample; the rest of its partition is never read.

    Whatever is computed from the sample, and how it fails, costs nothing beyond it.
    """

    @property
    def sampling(self) -> NfdpSample:
        """How the sample is drawn: from the client's records, and from empty seats where they are fewer than agreed."""
        settings = self.workspace.settings
        return NfdpSample(max(self.workspace.records, settings.min_size), settings.k, settings.replacement)

    def facts(self, question: Any) -> Facts:
        """At a site, whose number of records is its own affair, the fewest agreed on are charged for."""
        facts, settings = super().facts(question), self.workspace.settings
        return replace(facts, records=settings.min_size) if settings.dataset == SITES else facts

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
        composition = self.composition(None)
        ledger, noise = self.workspace.open_ledger(composition), self.noise("sample", None)
        unit = ledger.account.unit
        with refusals():
            charged = self.workspace.settings.sample(self.facts(None).records)
            cost = charged.cost(unit, self.workspace.counted(unit))
            return ledger.sample(self.sampling, noise, cost, version=self.workspace.version)


class LdpClient(FedmdClient[LdpSettings]):
    """A client that trains on all its records and adds noise to what it tells."""

    def blank(self, question: Task) -> dict[str, Any]:
        return {"predictions": np.zeros((len(question.asked), len(self.workspace.data.classes)), np.float32)}

    def pack(self, question: Task, release: Release) -> Arrays:
        """Noisy predictions, float32 (Q, C)."""
        return Singles(release["predictions"].shape).pack(release["predictions"])

    def noise(self, part: str, question: Task) -> NoiseSource:
        """Each round has a stream of its own."""
        return secret_noise(self.workspace.settings.noise_seed, self.workspace.client_id, question.round)
