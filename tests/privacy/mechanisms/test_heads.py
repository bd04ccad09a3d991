"""Private heads on real digits: the certificate, sensitivity on real neighbours, noise in the right subspace."""

import math
import time

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from fedballot.core.errors import DataError, RunError, SettingsError
from fedballot.privacy.accounting import gaussian
from fedballot.privacy.audit.statistics import near_worst_pair, variance_p_value
from fedballot.privacy.mechanisms import heads
from fedballot.privacy.noise.randomness import os_noise, seeded_noise


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    data = load_digits()
    return heads.prepare(data.data[:600], bound=60.0), data.target[:600]


@pytest.mark.parametrize("lam", [1e-4, 0.01, 1.0])
def test_solver_agrees_with_scikit_learn_and_certifies(digits, lam: float) -> None:
    x, y = digits
    head = heads.fit_head(x, y, 10, lam)
    assert head.gradient_norm <= heads.PrivateHead(600, x.shape[1], 10, lam, 1.0).max_gradient
    assert np.abs(head.weights.sum(axis=0)).max() < 1e-7
    theirs = LogisticRegression(C=heads.sklearn_c(lam, 600), fit_intercept=False, tol=1e-10, max_iter=20_000).fit(x, y)
    assert np.linalg.norm(head.weights - theirs.coef_) < 1e-3 * np.linalg.norm(theirs.coef_) + 1e-6


def test_the_size_of_the_paper_takes_well_under_a_second_and_agrees_to_eight_digits() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=2500)
    raw = np.abs(0.3 * rng.normal(size=(10, 511))[y] + rng.normal(size=(2500, 511)))
    x = heads.prepare(raw, bound=float(np.linalg.norm(raw, axis=1).max()))
    began = time.process_time()
    head = heads.fit_head(x, y, 10, 0.01)
    assert time.process_time() - began < 1.5  # 0.06 s seen on one core; of all threads together
    theirs = LogisticRegression(
        C=heads.sklearn_c(0.01, 2500), fit_intercept=False, tol=1e-12, max_iter=1000, solver="newton-cg"
    ).fit(x, y)
    assert np.abs(head.weights - theirs.coef_).max() < 1e-8


def test_neighbours_stay_within_the_sensitivity(digits) -> None:
    x, y = digits
    base = heads.fit_head(x, y, 10, 0.01)
    rng = np.random.default_rng(0)
    for _ in range(5):
        row, twin = rng.integers(600, size=2)
        changed_x, changed_y = x.copy(), y.copy()
        changed_x[row] = np.r_[0.5, -x[twin][1:]]
        changed_y[row] = (y[row] + 5) % 10
        moved = np.linalg.norm(heads.fit_head(changed_x, changed_y, 10, 0.01).weights - base.weights)
        assert 0 < moved <= heads.sensitivity(0.01, 600)


def test_a_class_that_a_client_never_saw_is_still_there(digits) -> None:
    x, y = digits
    head = heads.fit_head(x[y == 3], y[y == 3], 10, 0.01)
    assert head.weights.shape == (10, 65) and (x @ head.weights.T).argmax(axis=1).tolist() == [3] * 600


def test_counts_are_repetitions(digits) -> None:
    x, y = digits
    counts = np.arange(1, 31) % 3 + 1
    weighted = heads.fit_head(x[:30], y[:30], 10, 0.01, counts)
    repeated = heads.fit_head(np.repeat(x[:30], counts, axis=0), np.repeat(y[:30], counts), 10, 0.01)
    assert np.allclose(weighted.weights, repeated.weights, atol=1e-4)


def test_release_is_projected_and_has_the_declared_noise(digits) -> None:
    x, y = digits
    mechanism = heads.PrivateHead.solve(0.5, 1e-5, records=600, features=65, classes=10, lam=0.01)
    assert mechanism.sigma == pytest.approx(gaussian.sigma(heads.sensitivity(0.01, 600), 0.5, 1e-5), rel=3e-3)
    assert mechanism.mechanism.epsilon(1e-5) <= 0.5
    head = heads.fit_head(x, y, 10, 0.01)
    released = np.array([mechanism.release(head, os_noise()) for _ in range(20)])
    assert np.abs(released.sum(axis=1)).max() < 1e-9
    kept = mechanism.sigma**2 * 9 / 10  # the projection takes one of ten directions away
    assert np.mean((released - head.weights) ** 2) == pytest.approx(kept, rel=0.05)
    direction = np.zeros((10, 65))
    direction[0], direction[1] = 1, -1
    direction /= np.linalg.norm(direction)
    along = np.sum((released - head.weights) * direction, axis=(1, 2))
    assert variance_p_value(along, mechanism.sigma**2) > 1e-5


@pytest.mark.parametrize("n", [1, 3, 20, 60, 100, 120, 141, 142, 300])
@pytest.mark.parametrize("lam", [1e-3, 0.01, 1.0])
def test_a_client_of_any_size_gets_its_certificate(digits, n: int, lam: float) -> None:
    x, y = digits
    for start in range(0, 300, 75):
        rows = slice(start, start + n)
        head = heads.fit_head(x[rows], y[rows], 10, lam)
        heads.PrivateHead(n, x.shape[1], 10, lam, 1.0).certify(head)


def test_an_unfinished_solution_is_not_released(digits) -> None:
    x, _ = digits
    mechanism = heads.PrivateHead(600, x.shape[1], 10, 0.01, 1.0)
    with pytest.raises(RunError, match="nothing was released"):
        mechanism.release(heads.Head(np.zeros((10, x.shape[1])), 1e-3), seeded_noise(0))
    with pytest.raises(RunError):
        mechanism.release(heads.Head(np.zeros((10, x.shape[1])), math.nan), seeded_noise(0))


def test_prepare_keeps_every_record_in_the_unit_ball() -> None:
    raw = np.random.default_rng(0).normal(0, 10, size=(50, 8))
    ready = heads.prepare(raw, bound=5.0)
    assert ready.shape == (50, 9) and (ready[:, 0] == 0.5).all()
    assert np.linalg.norm(ready, axis=1).max() <= 1 + 1e-12
    alone = heads.prepare(raw[:1], bound=5.0)
    assert np.array_equal(alone[0], ready[0])  # one record never changes another


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        (np.ones((2, 3)), np.array([0, 1]), "norm"),
        (np.zeros((2, 3)), np.array([0, 2]), "labels"),
        (np.zeros((2, 3)), np.array([0.0, 1.0]), "labels"),
        (np.zeros((2, 3)), np.array([0]), "expected"),
        (np.full((2, 3), math.nan), np.array([0, 1]), "norm"),
    ],
)
def test_refuses_bad_data(x: np.ndarray, y: np.ndarray, says: str) -> None:
    with pytest.raises(DataError, match=says):
        heads.fit_head(x, y, 2, 0.01)


def test_refuses_bad_settings() -> None:
    with pytest.raises(SettingsError):
        heads.fit_head(np.zeros((2, 3)), np.array([0, 1]), 2, 0.0)
    with pytest.raises(SettingsError):
        heads.PrivateHead(10, 3, 1, 0.1, 1.0)
    with pytest.raises(SettingsError):
        heads.prepare(np.zeros((2, 3)), 1.0, constant=1.0)


def test_a_record_reaches_most_of_the_sensitivity() -> None:
    """It moves the heads of the near-worst pair by 0.85 of the bound: no bound a sixth smaller holds."""
    one, other = near_worst_pair(2500, 10, 0.001, 0.5)
    moved = float(np.linalg.norm(one.weights - other.weights))
    bound = heads.sensitivity(0.001, 2500)
    assert 0.85 * bound < moved <= bound


def test_what_a_solver_leaves_is_paid_for_twice() -> None:
    """A gradient of norm g is up to g/lambda away from the minimiser, in each of the two worlds."""
    mechanism = heads.PrivateHead(600, 65, 10, 0.01, 1.0)
    assert heads.sensitivity(0.01, 600, 1e-3) - heads.sensitivity(0.01, 600) == pytest.approx(0.2)
    assert mechanism.mechanism.sensitivity == heads.sensitivity(0.01, 600, mechanism.max_gradient)
