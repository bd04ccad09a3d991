"""The party's side of FedAUX itself: full models from the server's weights, and private scores beside them.

Paper: Sattler et al. 2021, "FedAUX: Leveraging unlabeled auxiliary data in federated learning", as told in "FedAUXfdp:
Differentially private one-shot federated distillation", section 3: the scores are private, the models are not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from flwr.common import Scalar

from fedballot.clients.base import Arrays, Refusal
from fedballot.clients.frozen import public_features
from fedballot.clients.private_heads import Features, HeadClient, HeadSettings
from fedballot.clients.weights import WeightsClient, WeightsSettings
from fedballot.errors import SettingsError
from fedballot.settings import EXTRACTORS, setting
from fedballot.wire import pack_halves


@dataclass(frozen=True)
class FedauxSettings(WeightsSettings, HeadSettings):
    """Settings of FedAUX; with `extractor = "simclr-M"`, M the clients' model, all models begin as the extractor."""

    client_models: tuple[str, ...] = setting(("resnet8-gn",), "the one learner that all train", reads="site")
    server_model: str = setting(
        "logistic-regression", "not used: the server trains the clients' learner", reads="server"
    )
    extractor: str = setting(
        "simclr-resnet8-gn", "frozen features of the scores; simclr-M also starts the models M", site_limit=EXTRACTORS
    )
    rounds: int = setting(5, "rounds of training, averaging and distillation", low=1, site_limit=(1, 1000))
    precision: Literal["float32", "float16"] = setting(  # type: ignore[assignment]  # of weights; heads are float16
        "float32", "how the difference of the weights is sent", site_limit=("float32", "float16")
    )
    epsilon: float = setting(math.inf, "`inf`: models have no noise", above=0, infinite=True, site_limit=(1e-3, 1000.0))
    score_epsilon: float = setting(
        0.1, "privacy target of the score head; `inf`: no noise", above=0, infinite=True, site_limit=(1e-3, 1000.0)
    )
    weighting: Literal["probabilities", "logits"] = setting(
        "probabilities", "what of the models is averaged", reads="server"
    )

    def check(self) -> None:
        super().check()
        if not math.isinf(self.epsilon):
            raise SettingsError(
                f"epsilon={self.epsilon:g}, but fedaux adds no noise to models: leave it out, or run fedauxfdp"
            )

    @property
    def with_scores(self) -> bool:
        return True

    @property
    def score_target(self) -> float:
        return self.score_epsilon


class FedauxClient(WeightsClient[FedauxSettings]):
    """A party of FedAUX: it tells the difference of its weights, and its score head, which is paid for once."""

    def answer(self, arrays: Arrays, config: dict[str, Scalar]) -> Arrays:
        """Difference of the weights (d,), and the score head (p,), the same in every round of a run."""
        if len(arrays) not in (1, 2):
            raise Refusal("request", "a request must hold the weights, and those of the extractor where there are any")
        party = self.party
        network = np.asarray(arrays[1], dtype=np.float32) if len(arrays) == 2 else None
        public = public_features(party.settings, party.data, party.device, network)
        run = str(config["request"]).rpartition("/")[0]
        head = HeadClient(party).score_head(Features(public, party.private()), run)
        return [*super().answer(arrays[:1], config), pack_halves(head)]
