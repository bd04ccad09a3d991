"""Settings of the baselines that share nothing, or everything: measurements, not releases."""

from __future__ import annotations

from dataclasses import dataclass

from fedballot.privacy.guarantee import TRUSTED_AGGREGATOR
from fedballot.privacy.mechanism import Composition, Facts, unprotected
from fedballot.settings.parts import CommonSettings, LocalTraining, ServerTraining


@dataclass(frozen=True)
class StandaloneSettings(LocalTraining, CommonSettings):
    """Settings of clients that train by themselves."""

    def composition(self, facts: Facts) -> Composition:
        return measurement("Accuracies told for comparison")


@dataclass(frozen=True)
class PooledSettings(ServerTraining, CommonSettings):
    """Settings of a single model that is trained in one place."""

    def composition(self, facts: Facts) -> Composition:
        return measurement("Pooling all records in one place")


def measurement(words: str) -> Composition:
    """The composition of what is told for measuring only."""
    return unprotected(words, unit="client", view="output only", trust=TRUSTED_AGGREGATOR)
