"""Settings of methods whose clients send private linear heads on frozen features, and the noise that follows from them.

Paper: "FedAUXfdp: Differentially private one-shot federated distillation", section 3; baselines of its Table 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from fedballot.core.errors import SettingsError
from fedballot.core.setting import again, setting
from fedballot.learners.steps import SIMCLR
from fedballot.privacy.accounting import papers
from fedballot.privacy.mechanism import Composition, Exact, Facts, Mechanism
from fedballot.privacy.mechanisms.heads import Head, PrivateHead
from fedballot.privacy.noise.randomness import NoiseSource
from fedballot.settings.parts import (
    ClientEvaluation,
    CommonSettings,
    Delta,
    FeatureSteps,
    PrivacyTarget,
    ServerTraining,
    with_step,
)
from fedballot.settings.targets import solved


@dataclass(frozen=True)
class FrozenSettings(Delta, CommonSettings):
    """Settings of methods that train on the features of a frozen extractor."""

    extractor: str = setting(
        "auto",
        "frozen features: steps such as hog+pca, simclr-resnet8, or package.module:factory for a torch module",
        kind="extractor",
    )
    components: int = again(FeatureSteps, "components", 256, help="most principal components of a pca step")
    pretrain_share: float = setting(
        0.2,
        "share of the public pool that fits the extractor and is the scores' negatives",
        above=0,
        below=1,
        site_limit=(0.0, 1.0),
    )
    pretrain_epochs: int = setting(
        100,
        "epochs of contrastive pretraining",
        low=0,
        site_limit=(0, 500),
        read_if=with_step("extractor=simclr-…", SIMCLR),
    )

    def check(self) -> None:
        super().check()
        if not 0 < round(self.pretrain_share * self.public_size) < self.public_size:
            raise SettingsError(
                f"pretrain_share={self.pretrain_share:g} of public_size={self.public_size} leaves nothing to pretrain "
                "or nothing to distil on: change one of them"
            )

    @property
    def query_count(self) -> int:
        """Public records that are distilled on."""
        return self.public_size - round(self.pretrain_share * self.public_size)


@dataclass(frozen=True)
class HeadSettings(FrozenSettings):
    """Settings of methods whose clients send private logistic heads."""

    delta: float = again(Delta, "delta", 1e-5, help="of a release, added to e^epsilon times any probability; below 1/n")
    lam: float = setting(0.01, "regularisation of a logistic head, lambda", above=0, site_limit=(1e-6, 100.0))
    mechanism: Literal["tight", "paper"] = setting(
        "tight",
        "noise of logistic heads: the least that is proved, or the paper's formula",
        site_limit=("tight", "paper"),
    )

    @property
    def class_target(self) -> float:
        """Epsilon of the class head, infinite where it has no noise."""
        return math.inf

    @property
    def with_scores(self) -> bool:
        """Whether clients train a score head beside the class head."""
        return False

    @property
    def score_target(self) -> float:
        """Epsilon of the score head."""
        return math.inf

    def composition(self, facts: Facts) -> Composition:
        heads = "class and score head" if self.with_scores else "class head"
        noise = "without class noise" if math.isinf(self.class_target) else "with Gaussian noise on the weights"
        return record_level(self, head_mechanisms(self, facts), f"Logistic {heads} of each client {noise}", facts)


@dataclass(frozen=True)
class ScoreTarget(HeadSettings):
    """Of methods whose clients send a private score head."""

    score_epsilon: float = setting(
        0.1, "privacy target of the score head; `inf`: no noise", above=0, infinite=True, site_limit=(1e-3, 1000.0)
    )

    @property
    def with_scores(self) -> bool:
        return True

    @property
    def score_target(self) -> float:
        return self.score_epsilon


@dataclass(frozen=True)
class ClassHeadSettings(ClientEvaluation, HeadSettings):
    """Of methods whose clients send a class head, or its predictions on the public records."""

    precision: Literal["float16", "int8"] = setting(
        "float16", "how a release is sent; int8: 1 byte a number", site_limit=("float16", "int8")
    )

    @property
    def sends(self) -> Literal["heads", "predictions"]:
        """What leaves a client."""
        return "heads"


@dataclass(frozen=True)
class PrivateHeadSettings(ClassHeadSettings, PrivacyTarget):
    """Settings of the averaging baseline, and of all whose class heads are private."""

    epsilon: float = again(
        PrivacyTarget,
        "epsilon",
        0.5,
        help="privacy target of the class release; `inf`: no noise, no guarantee",
        infinite=True,
    )

    @property
    def class_target(self) -> float:
        return self.epsilon


STUDENT_FEATURES = 256  # principal components that a student of features sees, but where it sees what is summed


@dataclass(frozen=True)
class FrozenStudent(ServerTraining, FrozenSettings):
    """Of methods whose server distils soft labels that come of frozen features."""

    server_model: str = again(
        ServerTraining, "server_model", "logistic-regression", help="learner that the server trains on soft labels"
    )
    student_reads: Literal["features", "records"] = setting(
        "features",
        "what the server's model reads: the frozen features, or the records themselves, as a network for images does "
        "(server_model=cnn-small)",
        reads="server",
    )
    students: int = setting(
        1,
        "models that the server trains one after the other, each but the first on what the one before says of the "
        "public records; their average is the result",
        low=1,
        high=10,
        reads="server",
    )


@dataclass(frozen=True)
class DistilledHeadSettings(ClassHeadSettings, FrozenStudent):
    """Of methods whose server distils the predictions of the clients' heads on the public records."""

    weighting: Literal["probabilities", "logits"] = setting(
        "probabilities", "what of the heads is averaged", reads="server"
    )


@dataclass(frozen=True)
class FeddSettings(DistilledHeadSettings, PrivateHeadSettings):
    """Settings of ensemble distillation from private heads, without scores."""

    share: Literal["heads", "predictions"] = setting(
        "heads",
        "what a client sends: its private head, or the head's predictions on the public records",
        site_limit=("heads", "predictions"),
    )

    @property
    def sends(self) -> Literal["heads", "predictions"]:
        return self.share


@lru_cache(maxsize=64)
def class_mechanism(settings: HeadSettings, records: int, features: int, classes: int) -> PrivateHead | None:
    """Noise of the class head of a client with that many records; None: no noise. `features` counts the constant."""
    if math.isinf(settings.class_target):
        return None

    def solve(epsilon: float) -> PrivateHead:
        if settings.mechanism == "paper":
            sigma = papers.fedaux_sigma(classes, settings.lam, records, epsilon, settings.delta)
            return PrivateHead(records, features, classes, settings.lam, sigma)
        return PrivateHead.solve(
            epsilon, settings.delta, records=records, features=features, classes=classes, lam=settings.lam
        )

    return solved("epsilon", settings.class_target, lambda epsilon: _accounted(solve(epsilon), settings))


@lru_cache(maxsize=64)
def score_mechanism(settings: HeadSettings, records: int, features: int) -> PrivateHead | None:
    """Noise of the score head over private and negative records together: two classes and 2 lambda are one head."""
    if math.isinf(settings.score_target):
        return None

    def solve(epsilon: float) -> PrivateHead:
        if settings.mechanism != "paper":
            return PrivateHead.solve(
                epsilon, settings.delta, records=records, features=features, classes=2, lam=2 * settings.lam
            )
        # the head w = W_1 - W_0 has sensitivity 2/(lambda N), and sqrt(2) times the noise of each of the two
        sigma = papers.fedaux_score_sigma(settings.lam, records, epsilon, settings.delta) / math.sqrt(2)
        return PrivateHead(records, features, 2, 2 * settings.lam, sigma)

    return solved("score_epsilon", settings.score_target, lambda epsilon: _accounted(solve(epsilon), settings))


def _accounted(head: PrivateHead, settings: HeadSettings) -> PrivateHead:
    """The head, if what it costs is known, together with that of another head where there are two."""
    cost = head.cost()
    if settings.with_scores:
        cost.dominating()
    return head


@dataclass(frozen=True)
class ExactHead(Exact):
    """A head that leaves without noise."""

    def release(self, exact: Head, noise: NoiseSource) -> npt.NDArray[np.float64]:
        """Its weights (C, p)."""
        return exact.weights


def head_mechanisms(settings: HeadSettings, facts: Facts) -> dict[str, PrivateHead | ExactHead]:
    """The noise of each head that a client with logistic heads sends."""
    width = facts.features + 1
    out = {"classes": class_mechanism(settings, facts.records, width, facts.classes) or ExactHead()}
    if settings.with_scores:
        out["scores"] = score_mechanism(settings, facts.records + facts.negatives, width) or ExactHead()
    return out


def record_level(settings: HeadSettings, parts: Mapping[str, Mechanism], words: str, facts: Facts) -> Composition:
    """The composition of releases that protect single records, how many there are being public."""
    charged = sum(part.cost("record") is not None for part in parts.values())
    composition = Composition(
        parts,
        words,
        "record",
        "replace-one",
        settings.delta * max(1, charged),
        also=(("person", "replace-one"),),
        seeded=settings.noise_seed is not None,
        n=facts.largest_client,
        counted=f"{'one release' if charged == 1 else f'{charged} releases, composed'}; how many records a client "
        "holds is public, and extractor, clipping bound and dimension come from public data and numbers",
    )
    if settings.mechanism != "paper" or not composition.private:
        return composition
    (proved,) = composition.guarantees()
    targets = [settings.class_target, *([settings.score_target] if settings.with_scores else [])]
    claim = replace(
        proved,
        epsilon=math.fsum(targets),
        delta=settings.delta * len(targets),
        status="paper's claim" if settings.noise_seed is None else "seeded",
        accountant="Theorem 1 and the classical Gaussian, added up",
    )
    return replace(composition, stated=lambda: [claim, proved])
