"""Settings of FedKD as printed and of its sound variant, and the noisy logits that follow from them.

Paper: "Preserving privacy in federated learning with ensemble cross-domain knowledge distillation", Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal

from fedballot.core.setting import Condition, again, setting, where
from fedballot.privacy.mechanism import Composition, Facts, unprotected
from fedballot.privacy.mechanisms.logits import NoisyLogits
from fedballot.settings.parts import (
    ClientEvaluation,
    CommonSettings,
    LocalTraining,
    NoiseSeed,
    PrivacyTarget,
    Queries,
    ServerTraining,
)
from fedballot.settings.propagation import Propagation
from fedballot.settings.robust import RobustAggregation
from fedballot.settings.summed import SummedSettings
from fedballot.settings.targets import solved
from fedballot.wire.secagg import Form

PROPAGATED = where("student", "propagated")
SOFTENED = Condition(
    "distill_loss=kl and student=distilled",
    lambda settings: settings.distill_loss == "kl" and settings.student == "distilled",
)


@dataclass(frozen=True)
class EnsembleSettings(
    Propagation, NoiseSeed, Queries, ServerTraining, LocalTraining, ClientEvaluation, CommonSettings
):
    """What both kinds of FedKD share: what is asked, and how the server learns from it."""

    answers: int = setting(
        1,
        "answers to each public image, all but the first to shifted copies; each is a query of its own",
        low=1,
        site_limit=(1, 100),
    )
    student: Literal["distilled", "propagated"] = setting(
        "distilled",
        "how the server learns: from the ensemble's answers, or from those and the label that a record's neighbours in "
        "the public pool bear out, which takes classes to be about even there",
        reads="server",
        headline=True,
    )
    distill_loss: Literal["l2", "mae", "kl"] = setting(
        "l2",
        "loss of the server; l2 and mae compare logits (equation 7), kl probabilities (equation 5)",
        reads="server",
        read_if=where("student", "distilled"),
    )
    temperature: float = setting(3.0, "temperature of the loss, tau", above=0, reads="server", read_if=SOFTENED)
    neighbours: int = again(Propagation, "neighbours", 5, read_if=PROPAGATED)
    spread: float = again(Propagation, "spread", 0.9, read_if=PROPAGATED)
    graph_features: str = again(Propagation, "graph_features", "auto", read_if=PROPAGATED)

    @property
    def record_count(self) -> int:
        """Public records asked about."""
        return super().query_count

    @property
    def query_count(self) -> int:
        """Number of queries Q: an answer to a copy of a record reveals as much as one to another record."""
        return self.record_count * self.answers


@dataclass(frozen=True)
class FedkdSettings(RobustAggregation, EnsembleSettings):
    """Settings of FedKD as printed; S and gamma in the paper are levels and gamma."""

    levels: int = setting(
        200,
        "quantisation levels S; up to 256 take a byte per logit, up to 16 half",
        low=2,
        high=65536,
        site_limit=(2, 65536),
    )
    gamma: float = setting(
        1.0, "the server's Laplace noise has scale 1/gamma; `inf`: no noise", above=0, infinite=True, reads="server"
    )
    weights: Literal["class-counts", "equal"] = setting(
        "class-counts",
        "how clients count (equation 1); class-counts: by their exact counts, which must be public",
        site_limit=("class-counts", "equal"),
    )
    ensemble: Literal["mean", "pairwise"] = setting(
        "mean",
        "how logits combine; mean: class by class (equation 1); pairwise: by differences between classes that a client "
        "has, for clients with few classes each",
        reads="server",
        read_if=where("weights", "class-counts"),
    )
    logit_bound: float = setting(
        0.0,
        "public bound of the quantiser, larger logits are cut; 0: a client's own largest logit, sent too",
        low=0,
        site_limit=(0.0, 1e6),
    )

    @property
    def pairwise(self) -> bool:
        """Whether logits combine by pairs of classes, for which the server must know who has which."""
        return self.ensemble == "pairwise" and self.weights == "class-counts"

    def composition(self, facts: Facts) -> Composition:
        return unprotected(
            "Quantised logits of each client; Laplace noise that the server adds to their average",
            unit="client",
            adjacency="zero-out",
            n=self.clients,
        )


@dataclass(frozen=True)
class FedkdDpSettings(PrivacyTarget, EnsembleSettings, SummedSettings):
    """Settings of the sound variant: clipped logits, equal weights, Gaussian noise on the sum."""

    queries: int = again(
        Queries, "queries", 200, help="public records that clients answer; noise grows with their root; 0: all"
    )
    epsilon: float = again(PrivacyTarget, "epsilon", 8.0)
    spread: float = again(EnsembleSettings, "spread", 0.99)
    logit_bound: float = setting(
        1.0, "largest norm of a record's logits, B; larger ones are cut", above=0, site_limit=(1e-6, 1e6)
    )

    def composition(self, facts: Facts) -> Composition:
        noisy = mechanism(self, facts.classes)
        return Composition(
            {"logits": noisy},
            "noisy sum of logits",
            "client",
            "zero-out",
            self.delta,
            trust=self.trust,
            seeded=self.noise_seed is not None,
            amplified=self.secure_aggregation,
            stated=lambda: noisy.guarantees(
                self.delta,
                **self.seen(facts),
                seeded=self.noise_seed is not None,
                clients=self.clients,
            ),
        )


@lru_cache(maxsize=4)
def mechanism(settings: FedkdDpSettings, n_classes: int) -> NoisyLogits:
    """The noisy sum of logits with the least noise that the settings allow."""
    solve = partial(
        NoisyLogits.solve,
        delta=settings.delta,
        queries=settings.query_count,
        classes=n_classes,
        bound=settings.logit_bound,
        min_clients=settings.min_clients,
        colluders=settings.colluders,
    )
    return solved("epsilon", settings.epsilon, solve)


def ballot_form(settings: FedkdDpSettings, n_classes: int) -> Form:
    """Form of a client's integers (Q, C), as secure aggregation needs it."""
    return Form((settings.query_count, n_classes), mechanism(settings, n_classes).mechanism.largest)
