"""Settings of a poll about the public pool, and the noisy histogram that follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar, Literal

from fedballot.core.errors import SettingsError
from fedballot.core.setting import again, setting
from fedballot.privacy.guarantee import ADJACENCY, Unit
from fedballot.privacy.mechanism import Composition, Facts
from fedballot.privacy.mechanisms.histogram import NoisyHistogram
from fedballot.settings.parts import FeatureSteps, Federation, PrivacyTarget
from fedballot.settings.summed import SummedSettings
from fedballot.settings.targets import solved
from fedballot.wire.secagg import Form

CELLS = 20  # where the pool is large enough
PER_CELL = 40  # least public records for a cell
STEPS = 10_000  # of a client's histogram, for ledgers about clients


@dataclass(frozen=True)
class PollSettings(PrivacyTarget, SummedSettings):
    """Settings of a poll, which reads no label of a public record and tests nothing."""

    labelled: ClassVar[bool] = False

    test_size: int = again(Federation, "test_size", 1, help="test records; a poll has no use for them")
    epsilon: float = again(PrivacyTarget, "epsilon", 0.5, help="privacy target of the sum over clients")
    unit: Literal["record", "client"] = setting(
        "record",
        "whom the target protects; client: all clients weigh the same, and it takes a hundred of them or more",
        site_limit=("record", "client"),
    )
    extractor: str = setting(
        "auto", "public features in which records are compared: steps such as hog+pca", kind="extractor", headline=True
    )
    components: int = again(FeatureSteps, "components", 64)
    cells: int = setting(
        0,
        "groups of alike public records; 0: 20, or fewer where the pool is small",
        low=0,
        high=256,
        site_limit=(0, 256),
    )
    records: int = setting(
        1_000_000,
        "most records of a client that are counted, public: the first of them",
        low=1,
        high=100_000_000,
        site_limit=(1, 100_000_000),
    )

    def check(self) -> None:
        super().check()
        if self.public_size < 2:
            raise SettingsError("public_size=1: a poll asks which public records are near, and needs at least two")
        if self.cell_count > self.public_size:
            raise SettingsError(f"cells={self.cells} is more than public_size={self.public_size}: ask for fewer cells")

    @property
    def cell_count(self) -> int:
        """Groups of public records, B."""
        return self.cells or min(CELLS, max(1, self.public_size // PER_CELL))

    @property
    def steps(self) -> int:
        """To which each client's histogram is scaled; 0: it counts records."""
        return STEPS if self.unit == "client" else 0

    def composition(self, facts: Facts) -> Composition:
        noisy = histogram(self, facts.classes)
        units: list[Unit] = ["client", "record", "person"] if self.unit == "client" else ["record", "person"]
        return Composition(
            {PART[self.unit]: noisy},
            "noisy counts of records by public cell and by class",
            self.unit,
            ADJACENCY[self.unit],
            self.delta,
            also=[(unit, ADJACENCY[unit]) for unit in units],
            trust=self.trust,
            seeded=self.noise_seed is not None,
            amplified=self.secure_aggregation,
            stated=lambda: noisy.guarantees(
                self.delta,
                **self.seen(facts),
                seeded=self.noise_seed is not None,
                clients=self.clients,
                records=facts.all_records,
                largest=facts.largest_client,
            ),
        )


PART = {"record": "counts", "client": "shares"}  # name of the one part of an answer


@lru_cache(maxsize=4)
def histogram(settings: PollSettings, classes: int) -> NoisyHistogram:
    """The mechanism with the least noise that the settings allow."""
    solve = partial(
        NoisyHistogram.solve,
        delta=settings.delta,
        cells=settings.cell_count,
        classes=classes,
        min_clients=settings.min_clients,
        colluders=settings.colluders,
        steps=settings.steps,
    )
    return solved("epsilon", settings.epsilon, solve)


def poll_form(settings: PollSettings, classes: int) -> Form:
    """Shape of a client's counts and their largest magnitude, from public numbers."""
    noisy = histogram(settings, classes)
    return Form((noisy.entries,), noisy.largest(settings.records))
