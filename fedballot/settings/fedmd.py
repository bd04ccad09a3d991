"""Settings of FedMD and its two private kinds, and the noise that follows from them.

Paper: "Federated model distillation with noise-free differential privacy", Theorems 1 and 2 and its baseline FedMD-LDP.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from fedballot.core.errors import SettingsError
from fedballot.privacy.accounting import accountants as accounting
from fedballot.privacy.accounting import gaussian
from fedballot.privacy.accounting.accountants import Accountant
from fedballot.privacy.mechanisms.laplace import NoisyValues
from fedballot.privacy.mechanisms.vectors import NoisyVector
from fedballot.settings.parts import CommonSettings, setting


@dataclass(frozen=True)
class FedmdSettings(CommonSettings):
    """Settings of FedMD; R, T1, T2, T3 in the paper are rounds, epochs, digest_epochs, revisit_epochs."""

    rounds: int = setting(20, "rounds of collaboration after the first predictions, R", low=1, site_limit=(1, 1000))
    queries: int = setting(
        5000, "public records per round; the whole pool where it holds fewer", low=1, site_limit=(1, 1_000_000)
    )
    pretrain_epochs: int = setting(
        20,
        "epochs on the labelled public pool before all else; 0: the pool's labels are not used",
        low=0,
        site_limit=(0, 500),
    )
    public_batch_size: int = setting(
        256, "batch size of pretraining and digest; the own records have batch_size", low=1, site_limit=(1, 4096)
    )
    digest_epochs: int = setting(2, "epochs towards the consensus each round, T2", low=0, site_limit=(0, 100))
    revisit_epochs: int = setting(1, "epochs on the own records each round, T3", low=0, site_limit=(0, 100))
    share: Literal["logits", "softmax", "argmax"] = setting(
        "argmax", "what a client tells about each public record", site_limit=("logits", "softmax", "argmax")
    )
    precision: Literal["float16", "int8"] = setting(
        "float16", "how logits and probabilities are sent; int8: 1 byte", site_limit=("float16", "int8")
    )
    digest_loss: Literal["cross-entropy", "mae", "l2"] = setting(
        "cross-entropy",
        "loss of the digest; mae and l2 compare logits, as the original FedMD does",
        site_limit=("cross-entropy", "mae", "l2"),
    )
    weights: Literal["equal", "size", "confidence"] = setting(
        "equal",
        "how clients count in the consensus; size: by their number of records, which must be public",
        reads="server",
    )

    def check(self) -> None:
        super().check()
        if self.digest_loss != "cross-entropy" and self.share != "logits":
            raise SettingsError(
                f"digest_loss={self.digest_loss} compares logits, but share={self.share}: set share=logits"
            )
        if self.weights == "confidence" and self.share == "argmax":
            raise SettingsError("weights=confidence needs probabilities, but share=argmax tells none: choose softmax")

    @property
    def query_count(self) -> int:
        """Number of public records per round, Q."""
        return min(self.queries, self.public_size)


@dataclass(frozen=True)
class NfdpSettings(FedmdSettings):
    """Settings of FedMD-NFDP."""

    k: int = setting(
        300, "records that each client draws, once and for all, and trains on", low=1, site_limit=(1, 1_000_000)
    )
    replacement: bool = setting(
        True, "draw with replacement: the more private, for it uses fewer different records", site_limit=(False, True)
    )
    noise_seed: int | None = setting(
        None, "seed the draw, for tests; the guarantee is then stamped: not private", site_limit=()
    )


@dataclass(frozen=True)
class LdpSettings(FedmdSettings):
    """Settings of FedMD-LDP."""

    share: Literal["logits", "softmax", "argmax"] = setting(
        "softmax", "what a client tells about each public record", site_limit=("logits", "softmax", "argmax")
    )
    noise: Literal["gaussian", "laplace"] = setting(
        "gaussian", "noise on each prediction that is told", site_limit=("gaussian", "laplace")
    )
    epsilon: float = setting(1.0, "privacy target of all rounds together", above=0, site_limit=(1e-3, 1000.0))
    delta: float = setting(
        1e-3, "added to e^epsilon times any probability; below 1/n", above=0, below=1, site_limit=(1e-15, 0.1)
    )
    logit_bound: float = setting(
        10.0, "largest norm of the logits told of a record; larger ones are cut", above=0, site_limit=(1e-6, 1e6)
    )
    noise_seed: int | None = setting(
        None, "seed the noise, for tests; the guarantee is then stamped: not private", site_limit=()
    )

    def check(self) -> None:
        super().check()
        if self.weights == "confidence":
            raise SettingsError("weights=confidence would read noise as confidence: set weights=equal")


@dataclass(frozen=True)
class NoisyPredictions:
    """All releases of one client together: the same noise each round, and what R + 1 rounds cost.

    A round's release is the predictions on Q records. Nothing bounds how far one training record, or all of them, move
    a prediction, so each of the Q rows may change as a whole: from one corner of the simplex to another, sqrt(2) apart,
    or from one end of the ball of clipped logits to the other. This protects the whole client, under replace-one.
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
