"""Noisy votes: clients answer public queries with one-hot ballots, and only noisy counts per class are released.

Source: "Voting-based approaches for differentially private federated learning", Algorithms 1 and 2 and Theorem 3, with
integer noise, and with exact accounting in place of Renyi bounds.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import SettingsError
from fedballot.privacy.accounting import IntegerCost, check_records, discrete, gaussian, shares_that_came
from fedballot.privacy.accounting.papers import votes_rho
from fedballot.privacy.accounting.search import smallest_from
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
from fedballot.privacy.mechanisms.ballots import check_votes
from fedballot.privacy.noise.randomness import NoiseSource
from fedballot.privacy.noise.samplers import discrete_gaussian, largest_draw, representable_variance


@dataclass(frozen=True)
class NoisyVotes(Mechanism):
    """One release of the noisy vote counts of all queries.

    Parameters
    ----------
    queries : int
        Q, the number of public queries.
    max_votes : int
        M: a client answers at most M of them and leaves the others blank, 0 < M <= Q.
    sigma : float
        Standard deviation of the noise on the *sum*, per query and class, in ballots (one ballot = one client's full
        vote on one query; for kNN, k neighbours make one ballot).
    min_clients : int
        Clients whose answers are guaranteed to be in the sum; a run with fewer must be aborted.
    colluders : int
        Clients that may take their own noise off again.
    k : int, optional
        Private-kNN-FL: public number of neighbours of each client; votes are then counts that add up to k for every
        query, or to n for a client with n < k records, so that replacing a record moves one count by one at most
        (max_votes = queries, for a choice of queries would hang on single records).

    Raises
    ------
    SettingsError
        For values out of range, and for noise shares below 2, where integer noise does not add up as accounted.
    """

    queries: int
    max_votes: int
    sigma: float
    min_clients: int
    colluders: int = 0
    k: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.max_votes <= self.queries:
            raise SettingsError(
                f"max_votes = {self.max_votes}: must lie between 1 and the number of queries, {self.queries}."
            )
        if not 0 <= self.colluders < self.min_clients:
            raise SettingsError(
                f"colluders = {self.colluders}: must be at least 0 and below min_clients, {self.min_clients}."
            )
        if self.k is not None and not (self.k >= 1 and self.max_votes == self.queries):
            raise SettingsError(
                f"k = {self.k}, max_votes = {self.max_votes}: there must be at least 1 neighbour, voting on all "
                f"{self.queries} queries."
            )
        gaussian.check_positive("sigma", self.sigma)
        discrete.check_share(self.share_sigma, self.honest)

    @property
    def honest(self) -> int:
        """Number of noise shares that are sure to be in the sum and unknown to the adversary."""
        return self.min_clients - self.colluders

    @property
    def ballot(self) -> int:
        """Integer that a full vote adds to: 1, or k for kNN."""
        return self.k or 1

    @property
    def share_variance(self) -> Fraction:
        """Parameter s^2 of each client's discrete Gaussian share, in counts: (ballot sigma)^2 / honest, rounded up."""
        return representable_variance(self.ballot * self.sigma / math.sqrt(self.honest))

    @property
    def share_sigma(self) -> float:
        """Square root of `share_variance`, in counts."""
        return math.sqrt(self.share_variance)

    @property
    def largest(self) -> int:
        """Largest magnitude of a client's integers, see `largest_draw`."""
        return self.ballot + largest_draw(self.share_variance)

    def swaps(self, unit: Unit, records_per_person: int = 1) -> int:
        """Return how much of one query's counts the unit can take from some classes and give to others.

        The whole vote; but with kNN a record swaps one neighbour, and a person's b records at most b.
        """
        check_records(records_per_person)
        if self.k is None or unit == "client":
            return self.ballot
        return min(records_per_person if unit == "person" else 1, self.k)

    def sensitivity(self, unit: Unit, records_per_person: int = 1) -> float:
        """Return the L2 sensitivity of the sum in ballots.

        Client (zero-out): sqrt(M). Record (replace-one): sqrt(2 M), for one record may change every vote of its client,
        and all records of a person can do no more. With kNN sqrt(2 M)/k for a record, for it can swap one neighbour per
        query, and min(b, k) times that for a person's b records: in each query at most so many votes leave one class
        for another.
        """
        if unit == "client":
            return self.swaps(unit) / self.ballot * math.sqrt(self.max_votes)
        return self.swaps(unit, records_per_person) * math.sqrt(2 * self.max_votes) / self.ballot

    def cost(self, unit: Unit = "client", records_per_person: int = 1) -> IntegerCost:
        """Return what the release costs towards whoever sees the sum.

        Parameters
        ----------
        unit : {"client", "record", "person"}
        records_per_person : int
            b, of the unit "person": a public bound on the records of one person at a site.
        """
        if unit != "client":
            return self._replaced(self.swaps(unit, records_per_person), self.honest)
        cells = self.max_votes * (self.k or 1)
        reach = self.ballot * self.sensitivity(unit)
        return IntegerCost(reach, cells, self.share_sigma, self.honest, unit_shifts=self.swaps(unit) == 1)

    def cost_alone(self, unit: Unit = "client", records_per_person: int = 1) -> IntegerCost:
        """Return what a replacement costs towards whoever sees a client's answers with that client's noise only.

        All of the client's answers may change, also with one record; but for kNN a record swaps one neighbour a query.
        """
        return self._replaced(self.swaps(unit, records_per_person), 1)

    def _replaced(self, swaps: int, shares: int) -> IntegerCost:
        cells = 2 * self.max_votes * (swaps if self.k else 1)
        reach = swaps * math.sqrt(2 * self.max_votes)
        return IntegerCost(reach, cells, self.share_sigma, shares, unit_shifts=swaps == 1)

    def epsilon(self, delta: float, unit: Unit = "client", records_per_person: int = 1) -> float:
        """Return epsilon for whoever sees the sum: exact for integer noise, and never below the continuous value."""
        return self.cost(unit, records_per_person).epsilon(delta)

    def guarantees(
        self,
        delta: float,
        *,
        secure: bool = False,
        arrived: int | None = None,
        seeded: bool = False,
        claimed: bool = True,
        clients: int | None = None,
        records: int | None = None,
        largest: int | None = None,
        records_per_person: int | None = None,
    ) -> list[Guarantee]:
        """Return every statement that a report has to make about this release.

        Parameters
        ----------
        delta : float
        secure : bool
            Whether the sum is formed by secure aggregation, so that the server sees nothing but the sum.
        arrived : int, optional
            Clients whose noise is in the sum: at least `min_clients`, and with more the epsilon of the sum is smaller.
        seeded, claimed : bool
            Whether any noise came from a seed, and whether the method's paper has Theorem 3.
        clients, records, largest : int, optional
            Numbers of clients, of all their records, and of the records of the largest client, where they are known.
        records_per_person : int, optional
            A public bound on the records of one person at a site: the guarantees for a person are added at the end.

        Returns
        -------
        list of Guarantee
            For the sum of client and record; without secure aggregation, for the server's view of a client, with kNN
            of a record too; then, if claimed, the paper's Theorem 3 of both with its Renyi conversion.
        """
        claim: Status = "seeded" if seeded else "paper's claim"
        name = "noisy vote counts" if self.k is None else f"noisy vote counts of {self.k} nearest neighbours"
        releases = f"one release of {self.queries} queries, at most {self.max_votes} answered by each client"
        came = shares_that_came(arrived, self.min_clients, self.colluders)
        if came > self.honest:
            releases += f", with the noise of {arrived} clients"
        trust = secure_aggregation(self.min_clients, self.colluders) if secure else TRUSTED_AGGREGATOR
        client = Guarantee(
            mechanism=name,
            unit="client",
            adjacency="zero-out",
            epsilon=replace(self.cost("client"), shares=came).epsilon(delta),
            delta=delta,
            view="server's view" if secure else "output only",
            trust=trust,
            status="seeded" if seeded else "proved",
            accountant="exact (sum of discrete Gaussians)",
            n=clients,
            composition=releases,
        )
        record = replace(
            client,
            unit="record",
            adjacency="replace-one",
            epsilon=replace(self.cost("record"), shares=came).epsilon(delta),
            n=records,
        )
        mine = "one client's own noisy votes"
        alone = replace(client, adjacency="replace-one", view="server's view", trust=SELF, mechanism=mine)
        statements = [client, record]
        if not secure:
            statements.append(replace(alone, epsilon=self.cost_alone().epsilon(delta)))
            if self.k is not None:
                epsilon = self.cost_alone("record").epsilon(delta)
                statements.append(replace(alone, unit="record", epsilon=epsilon, n=largest))
        for exact in (client, record) if claimed else ():
            rho = votes_rho(exact.unit, self.max_votes, self.sigma * math.sqrt(came / self.honest), self.k)
            epsilon, paper = gaussian.epsilon_rdp(rho, delta), "Renyi DP, Theorem 3 of the paper, improved conversion"
            statements.append(replace(exact, epsilon=epsilon, status=claim, accountant=paper))
        if records_per_person is not None:
            words = f"{releases}; {all_records(records_per_person)}"
            epsilon = replace(self.cost("person", records_per_person), shares=came).epsilon(delta)
            statements.append(replace(record, unit="person", n=None, composition=words, epsilon=epsilon))
            if not secure:
                epsilon = self.cost_alone("person", records_per_person).epsilon(delta)
                statements.append(replace(alone, unit="person", n=None, composition=words, epsilon=epsilon))
        return statements

    @classmethod
    def solve(
        cls,
        epsilon: float,
        delta: float,
        *,
        queries: int,
        max_votes: int,
        min_clients: int,
        colluders: int = 0,
        k: int | None = None,
        unit: Unit = "client",
        records_per_person: int = 1,
    ) -> "NoisyVotes":
        """Return the mechanism with the smallest sigma whose reported epsilon is at most the target.

        Raises
        ------
        SettingsError
            As the constructor; where the target needs less noise than integer shares allow, the smallest allowed sigma
            is taken, and epsilon comes out smaller than asked.
        """
        gaussian.check_positive("epsilon", epsilon)
        start = cls(queries, max_votes, 1e6 * math.sqrt(min_clients), min_clients, colluders, k)
        low = gaussian.sigma(start.sensitivity(unit, records_per_person), epsilon, delta)
        if start.honest > 1:
            low = max(low, discrete.SMALLEST_SHARE * math.sqrt(start.honest) / start.ballot)

        def fits(sigma: float) -> bool:
            return replace(start, sigma=sigma).epsilon(delta, unit, records_per_person) <= epsilon

        return replace(start, sigma=smallest_from(fits, low))

    def release(self, votes: NDArray[np.integer], noise: NoiseSource) -> NDArray[np.int32]:
        """Add one client's noise share to its votes.

        Parameters
        ----------
        votes : ndarray of int, shape (Q, C)
            One-hot rows and blank rows; for kNN, counts that add up to k in every row, or to the same fewer.
        noise : NoiseSource

        Returns
        -------
        ndarray of int32, shape (Q, C)

        Raises
        ------
        DataError
            If a row is neither blank nor a ballot, or there are more than `max_votes` ballots.
        """
        votes = np.asarray(votes)
        check_votes(votes, self.queries, self.max_votes, self.k)
        share = discrete_gaussian(self.share_variance, votes.size, noise)
        return (votes + share.reshape(votes.shape)).astype(np.int32)
