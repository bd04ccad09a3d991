"""The sound variant of FedKD: clipped logits, equal weights, Gaussian noise on the sum.

"Preserving privacy in federated learning with ensemble cross-domain knowledge distillation" weighs clients by exact
class counts and scales by the largest logit, neither of which is protected. Here each client clips its logits for each
query to a public L2 norm B, all clients weigh the same, and only the noisy sum over the clients is seen.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError
from fedballot.privacy.accounting import IntegerCost, gaussian, shares_that_came
from fedballot.privacy.guarantee import (
    SELF,
    TRUSTED_AGGREGATOR,
    Guarantee,
    Status,
    Unit,
    all_records,
    secure_aggregation,
)
from fedballot.privacy.mechanism import Mechanism
from fedballot.privacy.mechanisms.vectors import NoisyVector, clip_rows
from fedballot.privacy.noise.randomness import NoiseSource


@dataclass(frozen=True)
class NoisyLogits(Mechanism):
    """One release of the summed logits of all queries; client level, zero-out: sensitivity B sqrt(Q).

    Parameters
    ----------
    queries, classes : int
        Q and C.
    bound : float
        B, public.
    sigma : float
        Standard deviation of the noise on the sum, in logits.
    min_clients, colluders : int
        As in `NoisyVotes`.
    """

    queries: int
    classes: int
    bound: float
    sigma: float
    min_clients: int
    colluders: int = 0

    def __post_init__(self) -> None:
        gaussian.check_positive("bound", self.bound)
        self.mechanism.cost()

    @property
    def mechanism(self) -> NoisyVector:
        """The noisy vector that is released."""
        cells = self.queries * self.classes
        return NoisyVector(self.sensitivity, cells, self.sigma, self.min_clients, self.colluders)

    @property
    def sensitivity(self) -> float:
        """Return B sqrt(Q)."""
        return self.bound * math.sqrt(self.queries)

    def cost(self, unit: Unit = "client", records_per_person: int = 1) -> IntegerCost:
        """Return what the release costs towards whoever sees the sum.

        Replacing a record, or all records of a person, may turn every row of its client round: 2 B sqrt(Q).
        """
        return self.mechanism.cost() if unit == "client" else self.mechanism.cost(2 * self.sensitivity)

    def cost_alone(self) -> IntegerCost:
        """Return what replacing all logits of a client costs towards whoever sees them with the client's noise only."""
        return replace(self.mechanism.cost(2 * self.sensitivity), shares=1)

    def guarantees(
        self,
        delta: float,
        *,
        secure: bool = False,
        arrived: int | None = None,
        seeded: bool = False,
        clients: int | None = None,
        records_per_person: int | None = None,
    ) -> list[Guarantee]:
        """Return every statement that a report has to make about this release, see `NoisyVotes.guarantees`.

        Returns
        -------
        list of Guarantee
            Client level for the sum; without secure aggregation, client level for the server's own view. A record is
            protected as its client is: nothing bounds how far one training record moves a logit.
        """
        status: Status = "seeded" if seeded else "proved"
        came = shares_that_came(arrived, self.min_clients, self.colluders)
        more = f", with the noise of {arrived} clients" if came > self.min_clients - self.colluders else ""
        found = [
            Guarantee(
                mechanism=f"noisy sum of logits, each row cut to norm {self.bound:g}",
                unit="client",
                adjacency="zero-out",
                epsilon=replace(self.cost(), shares=came).epsilon(delta),
                delta=delta,
                view="server's view" if secure else "output only",
                trust=secure_aggregation(self.min_clients, self.colluders) if secure else TRUSTED_AGGREGATOR,
                status=status,
                accountant="exact (sum of discrete Gaussians)",
                n=clients,
                composition=f"one release of {self.queries} queries{more}",
            )
        ]
        if not secure:
            found.append(
                replace(
                    found[0],
                    adjacency="replace-one",
                    epsilon=self.cost_alone().epsilon(delta),
                    view="server's view",
                    trust=SELF,
                    mechanism="one client's own noisy logits",
                )
            )
        if records_per_person is not None:
            words = f"{found[0].composition}; {all_records(records_per_person)}"
            cost = replace(self.cost("person"), shares=came)
            person = replace(found[0], unit="person", adjacency="replace-one", n=None, composition=words)
            found.append(replace(person, epsilon=cost.epsilon(delta)))
            if not secure:
                alone = found[1]
                found.append(replace(alone, unit="person", n=None, composition=words))
        return found

    @classmethod
    def solve(
        cls,
        epsilon: float,
        delta: float,
        *,
        queries: int,
        classes: int,
        bound: float,
        min_clients: int,
        colluders: int = 0,
    ) -> "NoisyLogits":
        """Return the mechanism with the smallest sigma whose epsilon is at most the target."""
        found = NoisyVector.solve(
            epsilon,
            delta,
            sensitivity=bound * math.sqrt(queries),
            coordinates=queries * classes,
            min_clients=min_clients,
            colluders=colluders,
        )
        return cls(queries, classes, bound, found.sigma, min_clients, colluders)

    def release(self, logits: NDArray[np.floating], noise: NoiseSource) -> NDArray[np.int64]:
        """Clip one client's logits, shape (Q, C), and add its noise share; in steps of `mechanism.grid`."""
        if np.shape(logits) != (self.queries, self.classes):
            raise DataError(f"logits: expected shape {(self.queries, self.classes)}, got {np.shape(logits)}.")
        return self.mechanism.release(clip_rows(logits, self.bound), noise)
