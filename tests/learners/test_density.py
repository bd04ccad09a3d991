"""Density ratios: what is solved, what they say of Gaussians, and how wide the kernel is."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from fedballot.learners.density import density_ratio, kernel, kernel_width


def samples(mean: float, n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 1, (n, 2))


def test_the_ratio_of_two_gaussians_rises_and_falls_as_it_should() -> None:
    above, below, x = samples(1, 400, 0), samples(0, 400, 1), samples(0.5, 300, 2)
    found = density_ratio(x, above, below, width=1.0)
    true = multivariate_normal.pdf(x, [1, 1]) / multivariate_normal.pdf(x, [0, 0])
    assert np.corrcoef(np.argsort(found.argsort()), np.argsort(true.argsort()))[0, 1] > 0.9


def test_the_ratio_is_a_minimum_of_the_penalised_squared_error() -> None:
    """J(w) = |w|^2 on q / 2n - mean w on p + lambda/2 |w|^2 in the kernel's space; no step from w makes it smaller."""
    above, below, width = samples(1, 12, 0), samples(0, 9, 1), 0.7
    points = np.concatenate([below, above])
    gram, n = kernel(points, points, width), len(below)
    weights = np.linalg.solve(gram + 1e-12 * np.eye(len(gram)), density_ratio(points, above, below, width))

    def loss(a: np.ndarray) -> float:
        w = gram @ a
        return float(w[:n] @ w[:n] / (2 * n) - w[n:].mean() + n**-0.5 * (a @ w) / 2)

    rng, least = np.random.default_rng(2), loss(weights)
    assert all(loss(weights + 1e-2 * rng.normal(size=len(weights))) >= least - 1e-9 for _ in range(50))


def test_records_far_from_all_have_ratio_0_and_blocks_do_not_matter() -> None:
    above, below = samples(1, 30, 0), samples(0, 30, 1)
    far = np.full((3, 2), 1e3)
    assert density_ratio(far, above, below, 1.0) == pytest.approx(0)
    x = samples(0, 5000, 3)
    assert density_ratio(x[4090:4100], above, below, 1.0) == pytest.approx(
        density_ratio(x, above, below, 1.0)[4090:4100]
    )
    assert density_ratio(x[:0], above, below, 1.0).shape == (0,)


def test_the_width_grows_with_the_records_and_is_never_0() -> None:
    x = samples(0, 100, 0)
    assert kernel_width(10 * x) == pytest.approx(10 * kernel_width(x))
    assert kernel_width(np.zeros((5, 2))) > 0 and kernel_width(x[:1]) > 0
