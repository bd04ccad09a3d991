"""Settings of FedMD and its two private kinds, and the noise that follows from them.

Paper: "Federated model distillation with noise-free differential privacy", Theorems 1 and 2 and its baseline FedMD-LDP.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from fedballot.core.errors import SettingsError
from fedballot.core.setting import again, setting, where
from fedballot.privacy.accounting import papers
from fedballot.privacy.guarantee import SELF, Guarantee, Status
from fedballot.privacy.mechanism import Composition, Facts, unprotected
from fedballot.privacy.mechanisms import predictions
from fedballot.privacy.mechanisms.nfdp import NfdpSample
from fedballot.privacy.mechanisms.predictions import NoisyPredictions
from fedballot.settings.parts import (
    CLIENTS_IN_EPOCHS,
    ClientEvaluation,
    CommonSettings,
    LocalTraining,
    NoiseSeed,
    PrivacyTarget,
)
from fedballot.settings.robust import RobustAggregation
from fedballot.settings.targets import solved


@dataclass(frozen=True)
class ConsensusSettings(LocalTraining, ClientEvaluation, CommonSettings):
    """What all kinds of FedMD share; R, T1, T2, T3 in the paper are rounds, epochs, digest_epochs, revisit_epochs."""

    rounds: int = setting(20, "rounds of collaboration after the first predictions, R", low=1, site_limit=(1, 1000))
    queries: int = setting(
        5000,
        "public records per round; the whole pool where it holds fewer",
        low=1,
        site_limit=(1, 1_000_000),
        headline=True,
    )
    pretrain_epochs: int = setting(
        20,
        "epochs on the labelled public pool before all else; 0: the pool's labels are not used",
        low=0,
        site_limit=(0, 500),
    )
    public_batch_size: int = setting(
        256,
        "batch size of pretraining and digest; the own records have batch_size",
        low=1,
        site_limit=(1, 4096),
        read_if=CLIENTS_IN_EPOCHS,
    )
    digest_epochs: int = setting(
        2, "epochs towards the consensus each round, T2", low=0, site_limit=(0, 100), read_if=CLIENTS_IN_EPOCHS
    )
    revisit_epochs: int = setting(
        1, "epochs on the own records each round, T3", low=0, site_limit=(0, 100), read_if=CLIENTS_IN_EPOCHS
    )
    share: Literal["logits", "softmax", "argmax"] = setting(
        "argmax", "what a client sends for each public record", site_limit=("logits", "softmax", "argmax")
    )
    precision: Literal["float16", "int8"] = setting(
        "float16",
        "how logits and probabilities are sent; int8: 1 byte",
        site_limit=("float16", "int8"),
        read_if=where("share", "logits", "softmax"),
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
            raise SettingsError("weights=confidence needs probabilities, but share=argmax sends none: choose softmax")

    @property
    def query_count(self) -> int:
        """Number of public records per round, Q."""
        return min(self.queries, self.public_size)

    def composition(self, facts: Facts) -> Composition:
        return unprotected("Predictions without noise or sampling")


@dataclass(frozen=True)
class FedmdSettings(RobustAggregation, ConsensusSettings):
    """Settings of FedMD."""

    def check(self) -> None:
        super().check()
        if self.robust and self.share == "argmax":
            raise SettingsError(
                f"aggregation={self.aggregation} is for logits and probabilities, but share=argmax sends one vote for "
                "each query, which no client can make larger: set aggregation=mean, or share=softmax"
            )


@dataclass(frozen=True)
class NfdpSettings(NoiseSeed, ConsensusSettings):
    """Settings of FedMD-NFDP."""

    k: int = setting(
        300, "records that each client draws, once and for all, and trains on", low=1, site_limit=(1, 1_000_000)
    )
    replacement: bool = setting(
        True, "draw with replacement: the more private, for it uses fewer different records", site_limit=(False, True)
    )
    noise_seed: int | None = again(
        NoiseSeed, "noise_seed", None, help="seed the draw, for tests; the guarantee is then stamped: not private"
    )

    def sample(self, records: int) -> NfdpSample:
        """The sample of a client with that many records, and empty seats up to the fewest agreed on."""
        return NfdpSample(max(records, self.min_size), self.k, self.replacement)

    def composition(self, facts: Facts) -> Composition:
        sample = self.sample(facts.records)
        return Composition(
            {"sample": sample},
            "One fixed random sample",
            "record",
            "add-remove",
            sample.delta,
            also=(("record", "replace-one"), ("person", "replace-one")),
            seeded=self.noise_seed is not None,
            stated=lambda: self._guarantees(sample),
        )

    def _guarantees(self, sample: NfdpSample) -> list[Guarantee]:
        how = "with" if sample.replacement else "without"
        proved = Guarantee(
            mechanism=f"One fixed random sample of {sample.k} of {sample.n} records, {how} replacement",
            unit="record",
            adjacency="add-remove",
            epsilon=0.0,
            delta=sample.delta,
            view="server's view",
            trust=SELF,
            status="proved" if self.noise_seed is None else "seeded",
            accountant="exact",
            n=sample.n,
            composition="all rounds of this run, and whatever else is computed from the same sample",
            sampled=True,
        )
        status: Status = "paper's claim" if self.noise_seed is None else "seeded"
        claim = papers.nfdp_epsilon(sample.n, sample.k, sample.replacement)
        return [proved, replace(proved, epsilon=claim, status=status, accountant="Theorems 1 and 2")]


@dataclass(frozen=True)
class LdpSettings(PrivacyTarget, ConsensusSettings):
    """Settings of FedMD-LDP."""

    share: Literal["logits", "softmax", "argmax"] = again(ConsensusSettings, "share", "softmax")
    noise: Literal["gaussian", "laplace"] = setting(
        "gaussian", "noise on each prediction that is sent", site_limit=("gaussian", "laplace")
    )
    epsilon: float = again(PrivacyTarget, "epsilon", 1.0, help="privacy target of all rounds together")
    delta: float = again(PrivacyTarget, "delta", 1e-3)
    logit_bound: float = setting(
        10.0, "largest norm of a record's logits; larger ones are cut", above=0, site_limit=(1e-6, 1e6)
    )

    def check(self) -> None:
        super().check()
        if self.weights == "confidence":
            raise SettingsError("weights=confidence would read noise as confidence: set weights=equal")

    def noisy_predictions(self, classes: int) -> NoisyPredictions:
        """The least noise with which all rounds together stay within epsilon."""
        solve = partial(
            predictions.solve,
            delta=self.delta,
            noise=self.noise,
            share=self.share,
            logit_bound=self.logit_bound,
            queries=self.query_count,
            classes=classes,
            releases=self.rounds + 1,
        )
        return solved("epsilon", self.epsilon, solve)

    def composition(self, facts: Facts) -> Composition:
        noisy = self.noisy_predictions(facts.classes)
        return Composition(
            {"predictions": noisy},
            f"{self.noise.capitalize()} noise on every prediction that a client tells",
            "client",
            "replace-one",
            self.delta,
            releases=noisy.releases,
            accountant=noisy.accountant,
            # a blank answer lies within the bound, and a record or person moves no more than the whole client
            also=(("client", "zero-out"), ("record", "replace-one"), ("person", "replace-one")),
            seeded=self.noise_seed is not None,
            n=self.clients,
            counted=f"{noisy.releases} releases of {self.query_count} predictions each",
        )
