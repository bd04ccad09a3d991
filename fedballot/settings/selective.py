"""Settings of methods that grew out of FedMD: clients that learn from an ensemble which the server has worked on.

Papers: "Distillation-based semi-supervised federated learning for communication-efficient collaborative training with
non-IID private data" (DS-FL); "Selective knowledge sharing for privacy-preserving federated distillation without a good
teacher" (Selective-FD).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedballot.core.setting import again, setting
from fedballot.settings.fedmd import ConsensusSettings
from fedballot.settings.parts import ClientFeatures, ServerFeatures, ServerTraining


@dataclass(frozen=True)
class DistilledSettings(ClientFeatures, ConsensusSettings):
    """What both share: FedMD's settings, but for labels of public records, which nobody has."""

    pretrain_epochs: int = again(ConsensusSettings, "pretrain_epochs", 0)


@dataclass(frozen=True)
class DsflSettings(ServerFeatures, ServerTraining, DistilledSettings):
    """Settings of DS-FL; T in the paper is `temperature`."""

    share: Literal["softmax"] = again(ConsensusSettings, "share", "softmax", site_limit=("softmax",))
    server_epochs: int = again(ServerTraining, "server_epochs", 5, help="epochs of the server's model each round")
    temperature: float = setting(
        0.1, "of the average that is sent back; below 1 sharpens it", above=0, reads="server", headline=True
    )


@dataclass(frozen=True)
class SelectiveSettings(DistilledSettings):
    """Settings of Selective-FD; the thresholds tau of the paper are `leave_out` and `ambiguity_limit`."""

    share: Literal["softmax", "argmax"] = again(
        ConsensusSettings,
        "share",
        "softmax",
        help="what a client sends for each public record that it answers: soft labels or hard ones",
        site_limit=("softmax", "argmax"),
    )
    leave_out: float = setting(
        0.25,
        "quantile of density ratios of a client's own records; public records of a lower ratio are not answered",
        low=0,
        below=1,
        site_limit=(0.0, 1.0),
        headline=True,
    )
    selector_records: int = setting(
        250,
        "own records of each class, and records to compare with, that density ratios are estimated from",
        low=1,
        site_limit=(1, 5000),
    )
    selector_against: Literal["pool", "uniform"] = setting(
        "pool",
        "what the density of own records is compared with: public records, or uniform noise as in the authors' code",
        site_limit=("pool", "uniform"),
    )
    selector_features: str = setting(
        "", "extractor in whose features densities are estimated; empty: those that models learn from", kind="extractor"
    )
    ambiguity: Literal["entropy", "l2"] = setting(
        "entropy",
        "what tells that the ensemble is unsure: its entropy, or its distance from the nearest hard label",
        reads="server",
    )
    ambiguity_limit: float = setting(
        0.25,
        "largest ambiguity, as a share of the largest possible one, of what is sent back",
        low=0,
        high=1,
        reads="server",
        headline=True,
    )
