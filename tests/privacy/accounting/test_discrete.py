"""Accounting for sums of discrete Gaussians against direct computation and dp-accounting's loss distributions."""

import math
import time

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from fedballot.core.errors import SettingsError
from fedballot.privacy.accounting import discrete, gaussian


def law_of_sum(share_sigma: float, shares: int) -> np.ndarray:
    """Probabilities of a sum of discrete Gaussians by convolution, centred."""
    x = np.arange(-60, 61)
    one = np.exp(-(x**2) / (2 * share_sigma**2))
    one /= one.sum()
    total = one
    for _ in range(shares - 1):
        total = np.convolve(total, one)
    return total


def delta_by_enumeration(law: np.ndarray, shift: int, epsilon: float) -> float:
    padded = np.concatenate([np.zeros(shift), law])
    moved = np.concatenate([law, np.zeros(shift)])
    return float(np.maximum(padded - math.exp(epsilon) * moved, 0).sum())


@pytest.mark.parametrize(("share", "shares"), [(2.0, 1), (2.0, 3), (2.5, 4), (4.0, 2)])
@pytest.mark.parametrize("delta", [1e-2, 1e-4])
def test_one_coordinate_agrees_with_enumeration(share: float, shares: int, delta: float) -> None:
    epsilon = discrete.epsilon_unit_shifts(delta, 1, share, shares)
    true = delta_by_enumeration(law_of_sum(share, shares), 1, epsilon)
    assert true <= delta * (1 + 1e-6)
    continuous = gaussian.epsilon(1 / (share * math.sqrt(shares)), delta)
    if epsilon > continuous * (1 + 1e-9):  # where the integers are what binds, the bound is exact
        assert true == pytest.approx(delta, rel=1e-5)
    assert epsilon <= continuous * 1.02


def test_integer_shifts_agree_with_enumeration() -> None:
    law = law_of_sum(3.0, 4)
    for shift in (1, 2, 5):
        epsilon = discrete.epsilon_integer_shifts(1e-4, shift, 1, 3.0, 4)
        assert delta_by_enumeration(law, shift, epsilon) <= 1e-4
        assert epsilon <= gaussian.epsilon(shift / 6, 1e-4) * 1.06


@pytest.mark.parametrize("coordinates", [10, 300])
def test_many_coordinates_agree_with_loss_distributions(coordinates: int) -> None:
    sigma, delta = 20.0, 1e-4
    theirs = pld.from_discrete_gaussian_mechanism(sigma, sensitivity=1, value_discretization_interval=1e-5)
    upper = theirs.self_compose(coordinates).get_epsilon_for_delta(delta)
    ours = discrete.epsilon_unit_shifts(delta, coordinates, sigma)
    assert ours <= upper * (1 + 1e-6)  # theirs rounds losses up
    assert ours == pytest.approx(upper, rel=2e-3)


@pytest.mark.parametrize("coordinates", [30, 1000, 100_000])
@pytest.mark.parametrize(("share", "shares"), [(2.0, 1), (2.0, 100), (25.0, 10)])
def test_integer_noise_costs_next_to_nothing(coordinates: int, share: float, shares: int) -> None:
    exact = gaussian.epsilon(math.sqrt(coordinates / shares) / share, 1e-5)
    assert exact <= discrete.epsilon_unit_shifts(1e-5, coordinates, share, shares) <= exact * (1 + 1e-3)


def test_the_two_ways_of_summing_a_tail_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinates, sigma = 900, 30.0  # variance 810,000: summed directly, just below the switch
    for delta in (1e-3, 1e-10):
        direct = discrete.epsilon_unit_shifts(delta, coordinates, sigma)
        with monkeypatch.context() as patch:
            patch.setattr(discrete, "_DIRECT", 0.0)
            bounded = discrete.epsilon_unit_shifts(delta, coordinates, sigma)
        assert direct <= bounded <= direct + 6 / (coordinates * sigma**2)


@pytest.mark.parametrize(("share", "shares"), [(0.4, 1), (0.9, 1), (1.3, 1)])
def test_coarse_noise_of_a_single_share_is_still_bounded(share: float, shares: int) -> None:
    epsilon = discrete.epsilon_unit_shifts(1e-2, 1, share, shares)
    assert delta_by_enumeration(law_of_sum(share, shares), 1, epsilon) <= 1e-2
    assert discrete.epsilon_integer_shifts(1e-2, 1.0, 1, share) >= epsilon * (1 - 1e-9)


def test_refuses_shares_that_do_not_add_up() -> None:
    with pytest.raises(SettingsError, match="below 2"):
        discrete.epsilon_unit_shifts(1e-5, 10, 1.9, 2)
    with pytest.raises(SettingsError, match=r"0\.5"):
        discrete.tau(0.4, 2)
    with pytest.raises(SettingsError, match="shares"):
        discrete.epsilon_unit_shifts(1e-5, 10, 3.0, 0)


def test_a_million_coordinates_take_no_time() -> None:
    start = time.process_time()
    discrete.epsilon_unit_shifts(1e-5, 1_000_000, 40.0, 100)
    assert time.process_time() - start < 1


def test_tau_of_very_many_shares_is_bounded_without_summing_them_all() -> None:
    k = np.arange(1.0, 3_000_000)
    exact = 10 * float(np.sum(np.exp(-2 * (math.pi * 0.6) ** 2 * k / (k + 1))))
    assert exact <= discrete.tau(0.6, 3_000_000) <= exact * (1 + 1e-4)
    assert discrete.tau(0.6, 10**14) > 1e11  # at once, and nothing that could be used
