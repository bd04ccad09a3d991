"""The two private kinds of FedMD: trained on one fixed random sample (FedMD-NFDP), or told with noise (FedMD-LDP).

Paper: "Federated model distillation with noise-free differential privacy", Theorems 1 and 2 and its baseline FedMD-LDP.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from fedballot.clients.base import Arrays, Refusal
from fedballot.clients.fedmd import FedmdClient, FedmdSettings, Floats, Indices, Task
from fedballot.datasets.examples import Examples
from fedballot.errors import SettingsError
from fedballot.privacy import accounting, gaussian
from fedballot.privacy.accounting import Accountant
from fedballot.privacy.laplace import NoisyValues
from fedballot.privacy.ledger import Ledger
from fedballot.privacy.nfdp import NfdpSample
from fedballot.privacy.randomness import secret_noise
from fedballot.privacy.vectors import NoisyVector, clip_rows
from fedballot.settings import setting


@dataclass(frozen=True)
class NfdpSettings(FedmdSettings):
    """Settings of FedMD-NFDP."""

    k: int = setting(300, "records that each party draws, once and for all, and trains on", low=1)
    replacement: bool = setting(True, "draw with replacement: the more private, for it uses fewer different records")
    noise_seed: int | None = setting(None, "seed the draw, for tests; the guarantee is then stamped: not private")


@dataclass(frozen=True)
class LdpSettings(FedmdSettings):
    """Settings of FedMD-LDP."""

    share: Literal["logits", "softmax", "argmax"] = setting("softmax", "what a party tells about each public record")
    noise: Literal["gaussian", "laplace"] = setting("gaussian", "noise on each prediction that is told")
    epsilon: float = setting(1.0, "privacy target of all rounds together", above=0)
    delta: float = setting(1e-3, "added to e^epsilon times any probability; below 1/n", above=0, below=1)
    logit_bound: float = setting(10.0, "largest norm of the logits told of a record; larger ones are cut", above=0)
    noise_seed: int | None = setting(None, "seed the noise, for tests; the guarantee is then stamped: not private")

    def check(self) -> None:
        super().check()
        if self.weights == "confidence":
            raise SettingsError("weights=confidence would read noise as confidence: set weights=equal")


class NfdpClient(FedmdClient[NfdpSettings]):
    """A party that trains on its sample; the rest of its partition is never read."""

    def own(self) -> Examples:
        """The sampled records, duplicates included where drawn with replacement."""
        party = self.party
        rows = party.data.parts[party.agent]
        if rows.size == 0:
            raise Refusal("empty", "the party has no private records")
        if rows.size < party.settings.min_size:
            raise Refusal("size", "the party holds fewer records than min_size, on which the guarantee rests")
        chosen = rows[self.sample(rows.size)]
        everything = party.data.private
        return Examples(x=np.asarray(everything.x[chosen]), y=np.asarray(everything.y[chosen]))

    def sample(self, n: int) -> Indices:
        """The k of n indices, sorted; in the ledger before the first epoch, and the same ever after."""
        party, settings = self.party, self.party.settings
        sample = NfdpSample(n, settings.k, settings.replacement)
        # named by its size: a fingerprint would read records outside the sample; an exchange costs what a removal does
        ledger = party.open_ledger(
            "record", "add-remove", 0.0, sample.delta, also=[("record", "replace-one")], data=f"{n} records"
        )
        return ledger.sample(sample, secret_noise(settings.noise_seed, party.agent))


@dataclass(frozen=True)
class NoisyPredictions:
    """All releases of one party together: the same noise each round, and what R + 1 rounds cost.

    A round's release is the predictions on Q records. Nothing bounds how far one training record, or all of them, move
    a prediction, so each of the Q rows may change as a whole: from one corner of the simplex to another, sqrt(2) apart,
    or from one end of the ball of clipped logits to the other. This protects the whole party, under replace-one.
    """

    mechanism: NoisyVector | NoisyValues
    releases: int
    accountant: Accountant

    def epsilon(self, delta: float) -> float:
        """Epsilon of all releases."""
        return accounting.epsilon([self.mechanism.cost()] * self.releases, delta, self.accountant)


@lru_cache(maxsize=4)
def noisy_predictions(settings: LdpSettings, n_classes: int) -> NoisyPredictions:
    """The least noise with which all rounds together stay within epsilon.

    Raises
    ------
    SettingsError
        If no noise reaches the target.
    """
    cells, releases = settings.query_count * n_classes, settings.rounds + 1
    logits = settings.share == "logits"

    def by_sigma(sigma: float) -> NoisyPredictions:
        row = 2 * settings.logit_bound if logits else math.sqrt(2)
        sensitivity = row * math.sqrt(settings.query_count)
        return NoisyPredictions(NoisyVector(sensitivity, cells, sigma), releases, "exact")

    def by_scale(scale: float) -> NoisyPredictions:
        value = 2 * settings.logit_bound if logits else 1.0
        return NoisyPredictions(NoisyValues(value, scale, cells), releases, "rdp")

    gauss = settings.noise == "gaussian"
    at: Callable[[float], NoisyPredictions] = by_sigma if gauss else by_scale
    sensitivity = at(1.0).mechanism.sensitivity
    if gauss:
        low = gaussian.sigma(sensitivity * math.sqrt(releases), settings.epsilon, settings.delta)
        high = 2 * low
    else:
        low = sensitivity / settings.epsilon
        high = 2 * low * cells * releases
    return at(accounting.smallest(lambda x: at(x).epsilon(settings.delta) <= settings.epsilon, low, high, 1e-6))


class LdpClient(FedmdClient[LdpSettings]):
    """A party that trains on all its records and adds noise to what it tells."""

    def release(self, task: Task, logits: Floats) -> Arrays:
        """Noisy predictions, float32 (Q, C): charged before they are drawn, and the same for the same request."""
        party, settings = self.party, self.party.settings
        noisy = noisy_predictions(settings, logits.shape[1])
        noise = secret_noise(settings.noise_seed, party.agent, task.round)
        ledger = self._ledger(noisy)

        def draw() -> dict[str, npt.NDArray[np.float32]]:
            values = bounded(logits, settings)
            drawn = noisy.mechanism.release(values, noise)
            grid = noisy.mechanism.grid if isinstance(noisy.mechanism, NoisyVector) else 1.0
            return {"release": (drawn * grid).astype(np.float32)}

        kept = ledger.release(task.request, noisy.mechanism.cost(), draw, seeded=not noise.private)
        return [kept["release"]]

    def _ledger(self, noisy: NoisyPredictions) -> Ledger:
        delta = self.party.settings.delta
        return self.party.open_ledger(
            "agent",
            "replace-one",
            noisy.epsilon(delta),
            delta,
            noisy.accountant,
            # a blank answer lies within the bound, and one record moves no more than the whole party
            also=[("agent", "zero-out"), ("record", "replace-one")],
        )


def bounded(logits: Floats, settings: LdpSettings) -> npt.NDArray[np.float64]:
    """What is told of logits (Q, C) before the noise, each row within the mechanism's bound."""
    if settings.share == "logits" and settings.noise == "gaussian":
        return clip_rows(logits, settings.logit_bound)
    if settings.share == "logits":
        return np.clip(logits.astype(np.float64), -settings.logit_bound, settings.logit_bound)
    if settings.share == "argmax":
        return np.asarray(np.eye(logits.shape[1])[logits.argmax(axis=1)])
    return np.asarray(softmax(logits.astype(np.float64), axis=1))
