"""The private methods that share weights: noise on the cohort's sum (DP-FedAvg), or in every local step (DP-FedSGD).

Papers: McMahan et al. 2018, "Learning differentially private recurrent language models", Algorithm 1; Abadi et al.
2016, "Deep learning with differential privacy", Algorithm 1, run by each client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.clients.base import Arrays, Release
from fedballot.clients.weights import Start, WeightsClient, difference_codec
from fedballot.core.errors import DataError
from fedballot.learners.base import Learner
from fedballot.privacy.mechanism import Facts, Mechanism
from fedballot.privacy.mechanisms.subsampled import SubsampledGaussian
from fedballot.privacy.noise.randomness import NoiseSource, secret_noise
from fedballot.settings.weights_private import DpFedavgSettings, DpFedsgdSettings, record_mechanism


class DpFedavgClient(WeightsClient[DpFedavgSettings]):
    """A client of DP-FedAvg: it trusts the server to clip, to add the noise, and to show nothing but the result.

    It is charged for each round in which it is drawn, without amplification: it, and whoever knows that it was drawn,
    cannot count on the draw being secret. A client that is not drawn pays nothing, for nothing of it is in that sum.
    """

    _difference: npt.NDArray[Any] | None = None

    def facts(self, question: Start) -> Facts:
        return replace(super().facts(question), weights=question.weights.size)

    def noisy(self, question: Start, parts: Mapping[str, Mechanism], exact: Mapping[str, Any]) -> Release:
        """Whether there is one: it may be large, and the same request makes the same one again."""
        self._difference = exact["difference"]
        if not np.isfinite(self._difference).all():
            raise DataError("the difference of the weights is not finite")
        return {"difference": np.array([self._difference.any()], dtype=np.int8)}

    def blank(self, question: Start) -> dict[str, Any]:
        return {"difference": np.zeros(question.weights.size, np.float32)}

    def pack(self, question: Start, release: Release) -> Arrays:
        if self._difference is None and release["difference"][0]:
            self.drawn(question, self.composition(question))  # made again; blank if that fails now
        difference = self.blank(question)["difference"] if self._difference is None else self._difference
        return difference_codec(self.workspace.settings, difference.size).pack(difference)


class DpFedsgdClient(WeightsClient[DpFedsgdSettings]):
    """A client of DP-FedSGD: what it tells is private already, whoever reads it."""

    def facts(self, question: Start) -> Facts:
        return replace(super().facts(question), weights=question.weights.size)

    def noisy(self, question: Start, parts: Mapping[str, Mechanism], exact: Mapping[str, Any]) -> Release:
        """The difference as it is sent."""
        difference = super().noisy(question, parts, exact)["difference"]
        (array,) = difference_codec(self.workspace.settings, difference.size).pack(difference)
        return {"difference": array}

    def blank(self, question: Start) -> dict[str, Any]:
        """The same steps without a record in any of their batches."""
        settings = self.workspace.settings
        mechanism = record_mechanism(settings, question.weights.size)
        noise, nobody = self.noise("difference", question), np.zeros((0, question.weights.size))
        steps = sum(mechanism.release(nobody, noise) for _ in range(settings.steps))
        return {"difference": np.asarray(-settings.lr / settings.batch_size * steps, dtype=np.float32)}

    def pack(self, question: Start, release: Release) -> Arrays:
        return [release["difference"]]

    def noise(self, part: str, question: Start) -> NoiseSource:
        """Each round has a stream of its own."""
        return secret_noise(self.workspace.settings.noise_seed, self.workspace.client_id, question.round)

    def train(self, learner: Learner, number: int) -> None:
        """Noisy steps on Poisson batches of the client's own records."""
        own, settings = self.workspace.private(), self.workspace.settings
        size = sum(w.size for w in learner.get_weights())
        mechanism = replace(record_mechanism(settings, size), population=len(own.y))
        noise = secret_noise(settings.noise_seed, self.workspace.client_id, number)
        learner.sgd_steps(
            own.x,
            own.y,
            _poisson_batches(mechanism, settings.steps, noise),
            lambda found: mechanism.release(found, noise) / settings.batch_size,
        )


def _poisson_batches(mechanism: SubsampledGaussian, steps: int, noise: NoiseSource) -> Iterator[npt.NDArray[np.int64]]:
    return (mechanism.cohort(noise) for _ in range(steps))
