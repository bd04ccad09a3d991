"""The client's side of methods that share weights: train from the server's weights, answer with the difference.

Paper: McMahan et al. 2017, "Communication-efficient learning of deep networks from decentralized data", Algorithm 1,
ClientUpdate. These are the baselines of the papers: the project's own methods share predictions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fedballot.clients.base import Arrays, BallotClient, Release
from fedballot.clients.workspace import EVALUATED, Refusal
from fedballot.core.errors import DataError
from fedballot.learners.base import Learner
from fedballot.learners.flat import flatten, unflatten
from fedballot.learners.objectives import DomainAdversarial, Objective, Proximal, combined
from fedballot.settings.weights import ProxSettings, WeightsSettings
from fedballot.wire.codec import Halves, Singles
from fedballot.wire.messages import Config
from fedballot.wire.packing import WireError

Floats = npt.NDArray[np.float32]


S = TypeVar("S", bound=WeightsSettings)


def difference_codec(settings: WeightsSettings, size: int) -> Halves | Singles:
    """How the difference of two weight vectors (d,) is sent: in the precision that the settings name."""
    return Halves((size,)) if settings.precision == "float16" else Singles((size,))


@dataclass(frozen=True, eq=False)
class Start:
    """A request: the round, and the weights (d,) that training starts from."""

    round: int
    weights: Floats


class WeightsClient(BallotClient[S], Generic[S]):
    """One client of FederatedAveraging. It keeps nothing: the same request gets the same answer from the same data."""

    def question(self, arrays: Arrays, config: Config) -> Any:
        """The round and the weights that the server sent."""
        number = self._round(config)
        return Start(number, self._start(arrays, self.learner(number)))

    def exact(self, question: Any) -> dict[str, Any]:
        """Difference (d,) between the client's weights after training and those that the server sent."""
        start, settings = question, self.workspace.settings
        learner = self.learner(start.round)
        learner.set_weights(unflatten(start.weights, [w.shape for w in learner.get_weights()]))
        self.train(learner, start.round)
        if settings.evaluate_clients and start.round == settings.rounds:
            self.workspace.folder.note({"confusion": self.workspace.confusion(learner, EVALUATED).tolist()})
        return {"difference": flatten(learner.get_weights()) - start.weights}

    def pack(self, question: Any, release: Release) -> Arrays:
        """The difference, in the precision that the settings name."""
        difference = release["difference"]
        return difference_codec(self.workspace.settings, difference.size).pack(difference)

    def learner(self, number: int) -> Learner:
        """An untrained learner whose batches and augmentation are those of round ``number``."""
        settings = self.workspace.settings
        return self.workspace.new_learner(
            settings.model,
            epochs=settings.epochs,
            batch_size=settings.batch_size,
            lr=settings.lr,
            streams=(number,),
            optimizer=settings.client_optimizer,
        )

    def objective(self, weights: list[Floats]) -> Objective | None:
        """What local training from ``weights``, the server's, minimises beside the loss of its labels."""
        strength = self.workspace.settings.adaptation
        return DomainAdversarial(np.asarray(self.workspace.data.public_x), strength) if strength else None

    def train(self, learner: Learner, number: int) -> None:
        """Train on the client's own records in round ``number``, from the weights that the learner holds."""
        own = self.workspace.private()
        learner.fit(own.x, own.y, objective=self.objective(learner.get_weights()))

    def _round(self, config: Config) -> int:
        number, rounds = config.get("round"), self.workspace.settings.rounds
        if not isinstance(number, int) or not 1 <= number <= rounds:
            raise Refusal("request", f"round {number!r} is not one of 1..{rounds}")
        return number

    def _start(self, arrays: Arrays, learner: Learner) -> Floats:
        """The weights (d,) that the server sent, if they fit the learner."""
        own = learner.get_weights()
        try:
            start = Singles((sum(w.size for w in own),)).read(arrays)
            learner.set_weights(unflatten(start, [w.shape for w in own]))
        except (WireError, DataError) as error:
            raise Refusal("request", f"the weights cannot be read: {error}") from error
        return start


class ProxClient(WeightsClient[ProxSettings]):
    """A client of FedProx: local training is pulled towards the server's weights.

    Paper: Li et al. 2020, "Federated optimization in heterogeneous networks", Algorithm 2.
    """

    def objective(self, weights: list[Floats]) -> Objective | None:
        """Stay near the server's weights as well."""
        return combined(Proximal(weights, self.workspace.settings.mu), super().objective(weights))
