"""Audits of the mechanisms through their own `release`: what `audit` finds against what is claimed."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedballot.privacy.audit import statistics as audit
from fedballot.privacy.mechanism import Auditable
from fedballot.privacy.mechanisms.class_sums import ClassSums
from fedballot.privacy.mechanisms.heads import PrivateHead, fit_head
from fedballot.privacy.mechanisms.logits import NoisyLogits
from fedballot.privacy.mechanisms.vectors import NoisyVector
from fedballot.privacy.mechanisms.votes import NoisyVotes
from fedballot.privacy.noise.randomness import NoiseSource

ALARM = 1e-4  # p-value of the variance below which the noise is not what it is said to be
CANARIES = 400


@dataclass(frozen=True)
class Finding:
    """Outcome of one layer.

    Parameters
    ----------
    layer : str
        A key of `LAYERS`.
    claim : float
        Declared variance, reach, rate of sampling or probability of being sampled; else epsilon.
    found : float
        A p-value, or a lower bound.
    passed : bool
        Whether the claim stands.
    """

    layer: str
    claim: float
    found: float
    passed: bool

    @property
    def about(self) -> tuple[str, str]:
        """What is claimed, and what was found: see `LAYERS`."""
        return LAYERS[self.layer]


LAYERS = {
    "variance": ("σ²", "p"),
    "two worlds": ("ε", "ε"),
    "one run": ("ε", "ε"),
    "reach": ("Δ", "p"),
    "batches": ("rate", "p"),
    "sample": ("δ", "δ"),
}
"""What each layer's claim is about, and what it finds: a p-value, or a lower bound on what is claimed."""


def audit_worst_case(mechanism: Auditable, noise: NoiseSource, runs: int = 20_000) -> list[Finding]:
    """Audit any mechanism on the two neighbouring values that it names as its worst case."""
    case = mechanism.worst_case()

    def scores(exact: Any) -> NDArray[np.float64]:
        """Of releases that hold one client's exact value, among others of the world without the unit."""
        seen = np.empty(runs)
        for run in range(runs):
            total = mechanism.release(exact, noise)
            for _ in range(case.shares - 1):
                total = total + mechanism.release(case.outside, noise)
            seen[run] = case.score(total)
        return seen

    bound = audit.two_worlds_bound(scores(case.inside), scores(case.outside), case.delta)
    return [Finding("two worlds", case.epsilon, bound, bound <= case.epsilon)]


def audit_votes(noisy: NoisyVotes, delta: float, noise: NoiseSource, runs: int = 20_000) -> list[Finding]:
    """Audit noisy votes at client level; power needs an epsilon of about 1 for one query, see `audit`.

    Parameters
    ----------
    noisy : NoisyVotes
        Only its noise counts: queries are set to what each layer needs, and with kNN one neighbour is audited.
    delta : float
    noise : NoiseSource
    runs : int
        Runs of each world; every query is an independent run of the mechanism with one query.
    """
    many = _with_queries(noisy, runs)
    votes = np.zeros((runs, 2), dtype=np.int64)
    blank = votes.copy()
    votes[:, 1] = 1
    noise_only = _sum_of_shares(many, blank, noise)
    declared = (noisy.ballot * noisy.sigma) ** 2
    with_votes = _sum_of_shares(many, votes, noise)
    claim = _with_queries(noisy, 1).epsilon(delta)
    return [
        *first_layers(noise_only, declared, with_votes[:, 1], noise_only[:, 1], claim, delta),
        _votes_in_one_run(noisy, delta, noise),
    ]


def audit_head(head: PrivateHead, delta: float, noise: NoiseSource, runs: int = 4_000) -> list[Finding]:
    """Audit a private head at record level, replace-one; of `head`, features are set to what each layer needs."""
    small = PrivateHead(head.records, 2, head.classes, head.lam, head.sigma)
    one, other = audit.near_worst_pair(head.records, head.classes, head.lam)
    direction = one.weights - other.weights
    direction /= np.linalg.norm(direction)

    def scores(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        solved = one if weights is one.weights else other
        return np.array([np.sum(direction * small.release(solved, noise)) for _ in range(runs)])

    first, second = scores(one.weights), scores(other.weights)
    residuals = first - float(np.sum(direction * one.weights))
    declared = vector_variance(small.mechanism)  # the direction sums to zero: projecting leaves it alone
    claim = small.mechanism.epsilon(delta)
    return [*first_layers(residuals, declared, first, second, claim, delta), _head_in_one_run(head, delta, noise)]


def audit_logits(noisy: NoisyLogits, delta: float, noise: NoiseSource, runs: int = 20_000) -> list[Finding]:
    """Audit the noisy sum of logits at client level; as in `audit_votes`, every query is a run with one query."""
    many = replace(noisy, queries=runs, classes=2)
    claim = replace(noisy, queries=1, classes=2).mechanism.epsilon(delta)

    def seen(answered: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Sums of the first logit; one client answers with all of the bound there, or leaves the query blank."""
        release = replace(many, queries=len(answered))
        answers = np.zeros((noisy.min_clients - noisy.colluders, len(answered), 2))
        answers[0, answered, 0] = noisy.bound
        steps = np.sum([release.release(one, noise) for one in answers], axis=0)
        return np.asarray(steps[:, 0] * release.mechanism.grid, dtype=np.float64)

    outside, inside = seen(np.zeros(runs, dtype=np.bool_)), seen(np.ones(runs, dtype=np.bool_))
    coins = _coins(CANARIES, noise)
    return [
        *first_layers(outside, vector_variance(many.mechanism), inside, outside, claim, delta),
        _one_run(seen(coins) - noisy.bound / 2, coins, claim, delta),
    ]


def audit_class_sums(noisy: ClassSums, delta: float, noise: NoiseSource, runs: int = 20_000) -> list[Finding]:
    """Audit class sums at record level, replace-one: each record has a direction of its own and one of two labels."""
    many = replace(noisy, classes=2, features=CANARIES)
    claim = many.mechanism.epsilon(delta)
    records, nobody = np.eye(CANARIES), np.zeros((0, CANARIES))

    def seen(labels: NDArray[np.integer]) -> NDArray[np.float64]:
        """Half the difference of both classes' sums along each record: 1/2 for label 1, -1/2 for label 0, and noise."""
        steps = many.steps(records, labels, noise)
        for _ in range(many.min_clients - many.colluders - 1):
            steps = steps + many.steps(nobody, labels[:0], noise)
        sums = many.read(steps)[:, 1:]
        return np.asarray((sums[1] - sums[0]) / 2, dtype=np.float64)

    blocks, labels = range(-(-runs // CANARIES)), np.ones(CANARIES, dtype=np.int64)
    inside = np.concatenate([seen(labels) for _ in blocks])
    outside = np.concatenate([seen(0 * labels) for _ in blocks])
    variance = vector_variance(many.mechanism) / (1 - many.share) / 2
    coins = _coins(CANARIES, noise)
    return [
        *first_layers(outside + 0.5, variance, inside, outside, claim, delta),
        _one_run(seen(coins.astype(np.int64)), coins, claim, delta),
    ]


def first_layers(
    residuals: NDArray[np.number],
    variance: float,
    inside: NDArray[np.number],
    outside: NDArray[np.number],
    claim: float,
    delta: float,
) -> list[Finding]:
    """Noise residuals against their declared variance, and scores of runs with a unit against runs without it."""
    p_value = audit.variance_p_value(residuals, variance)
    bound = audit.two_worlds_bound(inside, outside, delta)
    return [
        by_p_value("variance", variance, p_value),
        Finding("two worlds", claim, bound, bound <= claim),
    ]


def by_p_value(layer: str, claim: float, p_value: float) -> Finding:
    """A finding that stands unless its p-value is below the alarm."""
    return Finding(layer, claim, p_value, p_value >= ALARM)


def vector_variance(vector: NoisyVector) -> float:
    """Variance of the noise on each coordinate of the sum of secret shares: sigma's, whatever the shares are."""
    return vector.sigma**2


def _coins(count: int, noise: NoiseSource) -> NDArray[np.bool_]:
    return np.asarray(noise.words(count) % np.uint64(2) == 1)


def _with_queries(noisy: NoisyVotes, queries: int) -> NoisyVotes:
    if noisy.k is None:
        return replace(noisy, queries=queries, max_votes=queries)
    return NoisyVotes(queries, queries, noisy.ballot * noisy.sigma, noisy.min_clients, noisy.colluders)


def _sum_of_shares(noisy: NoisyVotes, votes: NDArray[np.int64], noise: NoiseSource) -> NDArray[np.int64]:
    """One client's votes in a sum over all honest clients, the others blank."""
    total = noisy.release(votes, noise).astype(np.int64)
    for _ in range(noisy.honest - 1):
        total += noisy.release(np.zeros_like(votes), noise)
    return total


def _votes_in_one_run(noisy: NoisyVotes, delta: float, noise: NoiseSource, canaries: int = CANARIES) -> Finding:
    """Each canary is a client that votes on a query of its own, or not, by a fair coin."""
    many = _with_queries(noisy, canaries)
    coins = _coins(canaries, noise)
    votes = np.zeros((canaries, 2), dtype=np.int64)
    votes[coins, 1] = 1
    seen = _sum_of_shares(many, votes, noise)[:, 1]
    claim = _with_queries(noisy, 1).epsilon(delta)
    return _one_run(seen - many.swaps("client") / 2, coins, claim, delta)


def _head_in_one_run(head: PrivateHead, delta: float, noise: NoiseSource, canaries: int = CANARIES) -> Finding:
    """Canary i is the record (c, u e_i) of label 1, or by a fair coin a record (c, 0) of label 0 in its place."""
    canaries = min(canaries, head.records // 2)
    wide = PrivateHead(head.records, canaries + 1, head.classes, head.lam, head.sigma)
    coins = _coins(canaries, noise)
    inside = np.flatnonzero(coins)
    features = np.zeros((len(inside) + 1, canaries + 1))
    features[:, 0] = 0.5
    features[np.arange(len(inside)), inside + 1] = np.sqrt(0.75)
    labels = np.r_[np.ones(len(inside), dtype=np.int64), 0]
    counts = np.r_[np.ones(len(inside)), head.records - len(inside)]
    weights = wide.release(fit_head(features, labels, head.classes, head.lam, counts), noise)
    seen = weights[1, 1:] - weights[0, 1:]
    return _one_run(seen - np.median(seen), coins, wide.mechanism.epsilon(delta), delta)


def _one_run(scores: NDArray[np.floating], coins: NDArray[np.bool_], claim: float, delta: float) -> Finding:
    """Guess the half of the canaries with the most extreme scores."""
    sure = np.argsort(-np.abs(scores))[: len(scores) // 2]
    correct = int(np.count_nonzero((scores[sure] > 0) == coins[sure]))
    bound = audit.one_run_bound(len(scores), len(sure), correct, delta)
    return Finding("one run", claim, bound, bound <= claim)
