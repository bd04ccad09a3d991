"""The unit "person": what all of b records of one person cost, each by a second route."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedballot.core.errors import SettingsError
from fedballot.privacy.accounting import GaussianCost, PoissonCost
from fedballot.privacy.guarantee import Guarantee
from fedballot.privacy.mechanisms import heads
from fedballot.privacy.mechanisms.class_sums import ClassSums
from fedballot.privacy.mechanisms.heads import PrivateHead, fit_head
from fedballot.privacy.mechanisms.laplace import NoisyValues
from fedballot.privacy.mechanisms.logits import NoisyLogits
from fedballot.privacy.mechanisms.nfdp import NfdpSample, per_class_cost
from fedballot.privacy.mechanisms.subsampled import SubsampledGaussian
from fedballot.privacy.mechanisms.vectors import clip_rows
from fedballot.privacy.mechanisms.votes import NoisyVotes
from fedballot.privacy.noise.randomness import seeded_noise

DELTA = 1e-5


def knn_histogram(points: np.ndarray, labels: np.ndarray, query: float, k: int, classes: int) -> np.ndarray:
    nearest = np.lexsort((np.arange(len(points)), np.abs(points - query)))[:k]
    return np.bincount(labels[nearest], minlength=classes)


@pytest.mark.parametrize(("k", "b"), [(1, 1), (3, 1), (3, 2), (3, 3), (2, 4), (6, 2)])
def test_neighbours_that_a_person_swaps(k: int, b: int) -> None:
    """All worlds of a person's b records on a line among four others, five queries each."""
    noisy = NoisyVotes(1, 1, 50.0, 1, k=k)
    rng = np.random.default_rng(k * 10 + b)
    reach = noisy.ballot * noisy.sensitivity("person", b)
    cost, seen = noisy.cost("person", b), 0.0
    for _ in range(400):
        others, other_labels = rng.integers(0, 5, 4).astype(float), rng.integers(0, 3, 4)
        worlds = [
            (np.r_[others, rng.integers(0, 5, b)], np.r_[other_labels, np.full(b, rng.integers(0, 3))])
            for _ in range(2)
        ]
        for query in range(5):
            one, other = (knn_histogram(x, y, query, k, 3) for x, y in worlds)
            seen = max(seen, float(np.linalg.norm(one - other)))
            assert np.count_nonzero(one - other) <= cost.coordinates
    assert seen <= reach * (1 + 1e-12) and cost.sensitivity == pytest.approx(reach)
    assert seen == pytest.approx(reach)  # and it can come to that


def test_votes_of_a_person_cost_what_those_of_a_record_do_unless_neighbours_vote() -> None:
    plain = NoisyVotes(30, 20, 9.0, 4)
    assert plain.cost("person", 7) == plain.cost("record")
    assert plain.cost_alone("person", 7) == plain.cost_alone("record") == plain.cost_alone("client")
    knn = NoisyVotes(30, 30, 9.0, 4, k=5)
    assert knn.cost("person", 1) == knn.cost("record") and knn.cost_alone("person", 9) == knn.cost_alone("client")
    values = [knn.epsilon(DELTA, "person", b) for b in (1, 2, 4, 5, 6)]
    assert values == sorted(values) and values[3] == values[4]
    solved = NoisyVotes.solve(
        2.0, DELTA, queries=30, max_votes=30, min_clients=4, k=5, unit="person", records_per_person=3
    )
    assert 1.99 < solved.epsilon(DELTA, "person", 3) <= 2.0 < solved.epsilon(DELTA, "person", 4)


@given(st.integers(0, 2**32), st.integers(1, 6))
@settings(max_examples=15, deadline=None)
def test_no_person_moves_a_head_further_than_said(seed: int, b: int) -> None:
    n, lam, rng = 12, 0.05, np.random.default_rng(seed)
    x = clip_rows(rng.normal(size=(n, 3)) * 2, 1.0)
    y = rng.integers(0, 3, n)
    other_x, other_y = x.copy(), y.copy()
    other_x[:b], other_y[:b] = -x[:b], (y[:b] + 1) % 3
    moved = np.linalg.norm(fit_head(x, y, 3, lam).weights - fit_head(other_x, other_y, 3, lam).weights)
    assert moved <= heads.sensitivity(lam, n, 1e-7, b)


def test_the_head_of_a_person_comes_near_its_bound() -> None:
    """Strong regularisation: the solution is the mean of the gradients at zero, and b opposite records add up."""
    n, lam, b = 12, 200.0, 4
    x, y = np.tile([1.0, 0.0], (n, 1)), np.zeros(n, dtype=np.int64)
    other = y.copy()
    other[:b] = 1
    moved = np.linalg.norm(fit_head(x, y, 2, lam).weights - fit_head(x, other, 2, lam).weights)
    assert moved == pytest.approx(b * math.sqrt(2) / (lam * n), rel=1e-2)  # only e_y moves there: half of the bound
    assert heads.sensitivity(lam, n, 0.0, 1) < moved < heads.sensitivity(lam, n, 0.0, b)
    assert heads.sensitivity(lam, n, 0.0, 100) == heads.sensitivity(lam, n, 0.0, n)
    head = PrivateHead(1000, 10, 3, 0.01, 2.0)
    slack = 2 * head.max_gradient / head.lam
    one, many = heads.sensitivity(0.01, 1000) + slack, 5 * heads.sensitivity(0.01, 1000) + slack
    assert head.cost("person", 5).sensitivity - head.cost("person", 1).sensitivity == pytest.approx(
        (many - one) / head.mechanism.grid
    )
    assert head.cost("person", 1) == head.cost() and head.cost("person", 5).share_sigma == head.cost().share_sigma


@given(st.integers(0, 2**32), st.integers(1, 5), st.booleans())
@settings(max_examples=40, deadline=None)
def test_no_person_moves_class_sums_further_than_said(seed: int, b: int, worst: bool) -> None:
    mechanism, rng = ClassSums(3, 2, 5.0), np.random.default_rng(seed)

    def world() -> tuple[np.ndarray, np.ndarray]:
        if worst:  # all alike, of one class
            x, y = np.tile(clip_rows(rng.normal(size=(1, 2)) * 9, 1.0), (b, 1)), np.full(b, rng.integers(0, 3))
        else:
            x, y = clip_rows(rng.normal(size=(b, 2)), 1.0), rng.integers(0, 3, b)
        return x, y

    others = clip_rows(rng.normal(size=(4, 2)), 1.0), rng.integers(0, 3, 4)
    steps = [mechanism.steps(np.r_[x, others[0]], np.r_[y, others[1]], seeded_noise(1)) for x, y in (world(), world())]
    moved = float(np.linalg.norm(steps[0] - steps[1]))
    assert moved <= mechanism.cost("person", b).sensitivity


def test_blocks_save_nothing() -> None:
    mechanism, b = ClassSums(3, 2, 5.0), 4
    x = np.tile([0.6, 0.8], (b, 1))
    one, other = (mechanism.steps(x, np.full(b, label), seeded_noise(1)) for label in (0, 2))
    moved = float(np.linalg.norm(one - other)) * mechanism.mechanism.grid
    assert moved == pytest.approx(b * math.sqrt(2), rel=2e-3)
    assert mechanism.cost("person", b).sensitivity * mechanism.mechanism.grid == pytest.approx(
        b * math.sqrt(2), rel=2e-3
    )


@pytest.mark.parametrize("n", [1, 2, 4, 5])
@pytest.mark.parametrize("replacement", [True, False])
def test_the_chance_that_a_sample_meets_a_person(n: int, replacement: bool) -> None:
    for k in range(1, 5 if replacement else n + 1):
        draws = itertools.product(range(n), repeat=k) if replacement else itertools.combinations(range(n), k)
        drawn = [set(one) for one in draws]
        for b in range(1, n + 2):
            counted = sum(bool(one & set(range(b))) for one in drawn) / len(drawn)
            assert NfdpSample(n, k, replacement).hit(b) == pytest.approx(counted, rel=1e-12)
            assert NfdpSample(n, k, replacement).cost("person", b).delta == NfdpSample(n, k, replacement).hit(b)
    assert NfdpSample(2880, 60, False).hit() == 60 / 2880


@pytest.mark.parametrize("replacement", [True, False])
def test_a_person_in_several_classes_is_met_most_often_in_one(replacement: bool) -> None:
    samples = [NfdpSample(6, 2, replacement), NfdpSample(9, 4, replacement), NfdpSample(7, 1, replacement)]
    for b in (1, 2, 3, 5):
        missed = 1.0
        for split in itertools.product(range(b + 1), repeat=3):
            if sum(split) == b:
                parts = [s.hit(c) for s, c in zip(samples, split, strict=True) if c]
                missed = min(missed, math.prod(1 - part for part in parts))
        assert per_class_cost(samples, b).delta == pytest.approx(1 - missed, rel=1e-12)


@pytest.mark.parametrize("b", [1, 2, 5])
def test_values_of_a_person_by_the_odds_of_the_noise_itself(b: int) -> None:
    mechanism = NoisyValues(1.0, 4.0, values=3)
    steps, scale = b * 1000 + 1, mechanism.scale_steps
    x = np.arange(-60000, 60000)
    odds = (np.abs(x - steps) - np.abs(x)) / scale  # of a discrete Laplace and itself, moved
    assert mechanism.cost("person", b).epsilon == pytest.approx(float(odds.max()), rel=1e-12)
    assert mechanism.cost("person", b).count == 3


@pytest.mark.parametrize(("q", "b", "multiplier"), [(0.05, 2, 2.0), (0.01, 5, 4.0), (0.3, 3, 6.0)])
def test_a_persons_records_under_poisson_sampling_against_the_mixture_itself(
    q: float, b: int, multiplier: float
) -> None:
    """The number of a person's records in a step is binomial; the bound counts all of them wherever one is drawn."""
    cost = SubsampledGaussian(1000, q, 1.0, multiplier, 10, 100).cost("person", b)
    assert isinstance(cost, PoissonCost) and cost.q == pytest.approx(1 - (1 - q) ** b)
    assert cost.multiplier == pytest.approx(multiplier / b, rel=2e-3) and cost.multiplier < multiplier / b
    x = np.linspace(-12 * multiplier, b + 12 * multiplier, 200_001)
    without = stats.norm.pdf(x, 0, multiplier)
    chances = stats.binom.pmf(np.arange(b + 1), b, q)
    own = sum(chance * stats.norm.pdf(x, j, multiplier) for j, chance in enumerate(chances))
    farthest = (1 - cost.q) * without + cost.q * stats.norm.pdf(x, b, multiplier)
    for level in np.exp([-2.0, -0.5, -0.1, 0.0, 0.05, 0.3, 1.0, 2.0]):  # every threshold: what composes, adaptively too
        for sign in (1, -1):
            found, bound = (
                float(np.trapezoid(np.maximum(0, one - level * other), x))
                for one, other in [(own, without)[::sign], (farthest, without)[::sign]]
            )
            assert found <= bound + 1e-9


def test_subsampled_persons_at_the_limits() -> None:
    everybody = SubsampledGaussian(1000, 1.0, 1.0, 8.0, 10, 100)
    one, four = everybody.cost(), everybody.cost("person", 4)
    assert isinstance(one, GaussianCost) and isinstance(four, GaussianCost)
    assert four.mu == pytest.approx(4 * one.mu) and four.count == 10
    loud = SubsampledGaussian(1000, 0.01, 1.0, 1.0, 10, 100)
    assert isinstance(loud.cost(), PoissonCost) and isinstance(loud.cost("person", 5), GaussianCost)
    assert loud.epsilon(DELTA, 5) > loud.epsilon(DELTA)
    with pytest.raises(SettingsError, match="Poisson sampling only"):
        SubsampledGaussian(1000, 10, 1.0, 1.0, 10, 100).cost("person", 2)


def test_logits_of_a_person_are_those_of_the_client_turned_round() -> None:
    noisy = NoisyLogits(10, 4, 1.0, 20.0, 5)
    assert noisy.cost("person") == noisy.cost("record")
    assert noisy.cost("person").sensitivity == pytest.approx(2 * noisy.cost().sensitivity, rel=2e-3)
    assert replace(noisy.cost("person"), shares=1) == noisy.cost_alone()


@pytest.mark.parametrize("secure", [True, False])
def test_guarantees_for_a_person_come_last_and_say_how_many_records(secure: bool) -> None:
    votes = NoisyVotes(30, 30, 9.0, 4, k=5)
    for mechanism in (votes, NoisyLogits(10, 4, 1.0, 20.0, 5), ClassSums(3, 2, 5.0, min_clients=4)):
        without = mechanism.guarantees(DELTA, secure=secure)
        rows: list[Guarantee] = mechanism.guarantees(DELTA, secure=secure, records_per_person=3)
        added = rows[len(without) :]
        assert rows[: len(without)] == without and len(added) == (1 if secure else 2)
        for row in added:
            assert (row.unit, row.adjacency) == ("person", "replace-one")
            assert "all records of one person, at most 3 at a site" in row.composition
            assert "all records of one person" in row.sentence()
    assert votes.guarantees(DELTA, records_per_person=3)[-2].epsilon == votes.epsilon(DELTA, "person", 3)
    later = votes.guarantees(DELTA, secure=True, arrived=6, records_per_person=3)[-1]
    assert later.epsilon < votes.epsilon(DELTA, "person", 3)


@pytest.mark.parametrize(
    "cost",
    [
        lambda b: NoisyVotes(30, 30, 9.0, 4, k=5).cost("person", b),
        lambda b: PrivateHead(100, 10, 3, 0.01, 2.0).cost("person", b),
        lambda b: ClassSums(3, 2, 5.0).cost("person", b),
        lambda b: NfdpSample(10, 2).cost("person", b),
        lambda b: NoisyValues(1.0, 4.0).cost("person", b),
        lambda b: SubsampledGaussian(1000, 0.1, 1.0, 1.0, 10, 100).cost("person", b),
    ],
)
def test_refuses_a_bound_below_one(cost) -> None:
    cost(1)
    with pytest.raises(SettingsError, match="records_per_person = 0"):
        cost(0)
