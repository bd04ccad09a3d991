"""Settings of FedAUXfdp, and of FedAUX with a frozen extractor and without.

Paper: "FedAUXfdp: Differentially private one-shot federated distillation".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from fedballot.core.errors import SettingsError
from fedballot.core.setting import Condition, again, setting, where
from fedballot.datasets.own import SITES
from fedballot.privacy.mechanism import Composition, Exact, Facts, unprotected
from fedballot.privacy.mechanisms.parts import OwnSums
from fedballot.settings.class_sums import ClassSumSettings, sums_mechanism
from fedballot.settings.heads import (
    DistilledHeadSettings,
    FeddSettings,
    FrozenSettings,
    HeadSettings,
    ScoreTarget,
    head_mechanisms,
    record_level,
)
from fedballot.settings.parts import LocalTraining, ServerEpochs
from fedballot.settings.weights import DomainAdaptation, Weighting, WeightsSettings

LOGISTIC = where("head", "logistic")
SUMS = where("head", "class-sums")


@dataclass(frozen=True)
class FedauxfdpSettings(ScoreTarget, FeddSettings, ClassSumSettings):
    """Settings of FedAUXfdp."""

    head: Literal["class-sums", "logistic"] = setting(
        "class-sums",
        "what is released: class counts and sums at once, or the paper's score and class heads",
        site_limit=("class-sums", "logistic"),
    )
    score_epsilon: float = again(
        ScoreTarget, "score_epsilon", 0.1, help="privacy target of the score head; `inf`: no noise", read_if=LOGISTIC
    )
    lam: float = again(HeadSettings, "lam", 0.01, read_if=LOGISTIC)
    mechanism: Literal["tight", "paper"] = again(HeadSettings, "mechanism", "tight", read_if=LOGISTIC)
    share: Literal["heads", "predictions"] = again(FeddSettings, "share", "heads", read_if=LOGISTIC)
    embedding: Literal["landmarks", "pca"] = again(ClassSumSettings, "embedding", "landmarks", read_if=SUMS)
    dimension: int = again(
        ClassSumSettings,
        "dimension",
        0,
        help="coordinates of that space; 0: 512 landmarks, or components by the noise and the numbers of records",
        read_if=SUMS,
    )
    records: int = again(
        ClassSumSettings,
        "records",
        0,
        help="about how many records a client holds, public; 0: the mean of the partition",
        read_if=Condition(
            "head=class-sums, embedding=pca and dimension=0",
            lambda settings: settings.head == "class-sums" and settings.embedding == "pca" and not settings.dimension,
        ),
    )

    def check(self) -> None:
        super().check()
        if self.head == "class-sums" and self.mechanism == "paper":
            raise SettingsError("mechanism=paper is the noise of logistic heads: set head=logistic with it")
        if self.head == "class-sums" and self.share == "predictions":
            raise SettingsError(
                "share=predictions: the server adds class sums up before it can say what they mean for a record, and "
                "they are smaller: leave it out, or set head=logistic"
            )
        planned = self.head == "class-sums" and self.embedding == "pca" and not self.dimension
        if planned and self.dataset == SITES and not self.records:
            raise SettingsError(
                "records=0, but sites keep their numbers to themselves, and the dimension is planned for a number: "
                "set records to about what a site holds, or set dimension"
            )

    @property
    def logistic(self) -> bool:
        return self.head == "logistic"

    @property
    def with_scores(self) -> bool:
        return self.logistic

    @property
    def score_target(self) -> float:
        return self.score_epsilon if self.logistic else math.inf

    def composition(self, facts: Facts) -> Composition:
        if self.logistic:
            return HeadSettings.composition(self, facts)
        noisy = sums_mechanism(self, facts.classes, facts.features)
        noise = "with Gaussian noise, in one release" if noisy else "without noise"
        sums = OwnSums(noisy, facts.records, facts.classes)
        return record_level(self, {"sums": sums}, f"Class counts and sums of each client {noise}", facts)


@dataclass(frozen=True)
class FedauxFSettings(ScoreTarget, LocalTraining, DistilledHeadSettings):
    """Settings of FedAUX with a frozen extractor: private scores, class heads without noise."""

    client_models: tuple[str, ...] = again(
        LocalTraining,
        "client_models",
        ("linear-torch",),
        help="learners of the clients' class heads, on frozen features",
    )
    epochs: int = again(LocalTraining, "epochs", 40, help="epochs of a class head")

    @property
    def sends(self) -> Literal["heads", "predictions"]:
        return "predictions"

    def composition(self, facts: Facts) -> Composition:
        parts = {"predictions": Exact(), "scores": head_mechanisms(self, facts)["scores"]}
        return record_level(self, parts, "Predictions without noise, and the score head of each client", facts)


@dataclass(frozen=True)
class FedauxSettings(ScoreTarget, ServerEpochs, DomainAdaptation, Weighting):
    """Settings of FedAUX; with `extractor = "simclr-M"`, M the clients' model, all models begin as the extractor."""

    client_models: tuple[str, ...] = again(
        LocalTraining, "client_models", ("resnet8-gn",), help="the one learner that all train"
    )
    extractor: str = again(
        FrozenSettings,
        "extractor",
        "simclr-resnet8-gn",
        help="frozen features of the scores; simclr-M also starts the models M",
    )
    rounds: int = again(WeightsSettings, "rounds", 5, help="rounds of training, averaging and distillation")
    weighting: Literal["probabilities", "logits"] = again(
        DistilledHeadSettings, "weighting", "probabilities", help="what of the models is averaged"
    )

    def composition(self, facts: Facts) -> Composition:
        return unprotected("Models without noise, beside scores with noise")

    def scores(self, facts: Facts) -> Composition:
        """Of the score head alone, which is paid for once."""
        scores = head_mechanisms(self, facts)["scores"]
        return record_level(self, {"scores": scores}, "Score head of each client", facts)
