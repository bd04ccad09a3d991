"""DS-FL: FedMD's clients, a server that sharpens the average of their predictions, and a model of the server's own.

Source: Itoh et al. 2020, "Distillation-based semi-supervised federated learning for communication-efficient
collaborative training with non-IID private data", Algorithm 1 and equations 14 and 15 (entropy-reduction aggregation).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from fedballot import Method
from fedballot.clients.fedmd import FedmdClient
from fedballot.core.folders import RunFolder
from fedballot.core.setting import again, setting
from fedballot.learners import storage
from fedballot.settings.fedmd import FedmdSettings
from fedballot.settings.parts import ServerTraining
from fedballot.strategies.fedmd import FedmdStrategy
from fedballot.strategies.folds import Fold
from fedballot.strategies.one_shot import measured


@dataclass(frozen=True)
class DsflSettings(ServerTraining, FedmdSettings):
    """Settings of DS-FL; T in the paper is `temperature`."""

    share: Literal["softmax"] = again(FedmdSettings, "share", "softmax", site_limit=("softmax",))
    server_epochs: int = again(ServerTraining, "server_epochs", 5, help="epochs of the server's model each round")
    temperature: float = setting(
        0.1, "of the average that is sent back; below 1 sharpens it", above=0, reads="server", headline=True
    )


def sharpen(mean: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Equation 15: the softmax of average predictions (Q, C) over the temperature."""
    return np.asarray(softmax(mean / temperature, axis=1))


class DsflStrategy(FedmdStrategy[DsflSettings]):
    """Each round: average, sharpen, distil the server's model; the model is part of the checkpoint."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.student = self.new_student(self.data.public_x.shape[1:])

    def averaging(self) -> Fold[NDArray[np.float64]]:
        return super().averaging().then(lambda mean: sharpen(mean, self.settings.temperature))

    def agree(self, server_round: int, consensus: NDArray[np.float64]) -> dict[str, Any]:
        metrics, rows = super().agree(server_round, consensus), self.queries(server_round)
        self.student.distill(self.data.public_x[rows], consensus.astype(np.float32))
        return {**metrics, **self.accuracy()}

    def accuracy(self) -> dict[str, Any]:
        """Of the server's model, on the test records."""
        return measured(self.data, self.student.predict_logits(self.data.test_x))

    def state(self) -> Mapping[str, NDArray[Any]]:
        return {**super().state(), "student": storage.to_array(self.student)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().restore(state)
        storage.from_array(self.student, state["student"])

    def outcome(self) -> Mapping[str, Any]:
        outcome = super().outcome()
        return {**outcome, "metrics": {**outcome["metrics"], **self.accuracy()}}

    def save(self, folder: RunFolder) -> None:
        super().save(folder)
        self.student.save(folder.path / "server-model-0")


METHOD = Method(
    name="ds-fl",
    summary="FedMD whose server sharpens the average of the predictions, and learns from it",
    sends="predictions on public data, each round",
    protects="nothing: predictions may tell about training records",
    from_whom="nobody",
    source="Distillation-based semi-supervised federated learning (DS-FL), Algorithm 1",
    settings=DsflSettings,
    client=FedmdClient,
    strategy=DsflStrategy,
)
