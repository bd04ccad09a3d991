"""The exact Gaussian mechanism against dp-accounting, long arithmetic and its own inverses."""

import math

import dp_accounting
import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedballot.core.errors import SettingsError
from fedballot.privacy.accounting import gaussian


def long_log_delta(mu: float, epsilon: float) -> float:
    """The closed form of Balle and Wang in enough digits to survive its cancellation."""
    with mpmath.workdps(80 + int(epsilon + 2 * abs(math.log10(mu)))):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        cdf = lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2  # noqa: E731
        return float(mpmath.log(cdf(m / 2 - e / m) - mpmath.exp(e) * cdf(-m / 2 - e / m)))


@pytest.mark.parametrize("mu", [1e-10, 1e-5, 0.01, 0.0999, 0.101, 0.7, 1.0, 1.01, 3.0, 25.0])
@pytest.mark.parametrize("t", [-20.0, -1.01, -0.99, 0.0, 0.5, 2.9, 3.1, 10.0, 36.0])
def test_log_delta_agrees_with_long_arithmetic(mu: float, t: float) -> None:
    epsilon = mu * (t + mu / 2)
    if epsilon < 0:
        epsilon = 0.0
    assert gaussian.log_delta(mu, epsilon) == pytest.approx(long_log_delta(mu, epsilon), abs=2e-12)


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.1, 4.3, 100.0, 1e4])
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-5, 1e-3, 0.9])
def test_the_three_solvers_invert_each_other(epsilon: float, delta: float) -> None:
    mu = gaussian.mu(epsilon, delta)
    assert gaussian.log_delta(mu, epsilon) == pytest.approx(math.log(delta), rel=1e-12, abs=1e-11)
    assert gaussian.log_delta(mu, epsilon) <= math.log(delta) + 1e-13 * abs(math.log(delta))
    assert gaussian.epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-8, abs=1e-12)
    assert gaussian.sigma(3.0, epsilon, delta) == pytest.approx(3.0 / mu)


@given(st.floats(0.01, 30), st.floats(-12, -0.1))
@settings(max_examples=60, deadline=None)
def test_agrees_with_dp_accounting(mu: float, log10_delta: float) -> None:
    delta = 10**log10_delta
    theirs = dp_accounting.get_epsilon_gaussian(1 / mu, delta)
    assert gaussian.epsilon(mu, delta) == pytest.approx(theirs, rel=1e-7, abs=1e-9)


@given(st.floats(1e-3, 20), st.floats(0, 50), st.floats(1.001, 3))
@settings(max_examples=60, deadline=None)
def test_delta_falls_with_epsilon_and_rises_with_mu(mu: float, epsilon: float, factor: float) -> None:
    here = gaussian.log_delta(mu, epsilon)
    assert gaussian.log_delta(mu, epsilon + 0.01) < here or here > -1e-9
    assert gaussian.log_delta(mu * factor, epsilon) >= here


@given(st.floats(1e-3, 5), st.floats(1e-12, 0.1))
@settings(max_examples=60, deadline=None)
def test_renyi_routes_are_ordered_bounds(mu: float, delta: float) -> None:
    exact = gaussian.epsilon(mu, delta)
    improved = gaussian.epsilon_rdp(mu * mu / 2, delta)
    assert exact <= improved * (1 + 1e-9) + 1e-12
    assert improved <= gaussian.epsilon_rdp_classic(mu * mu / 2, delta) + 1e-9


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.3, 50.0])
def test_rho_of_a_renyi_budget(epsilon: float) -> None:
    assert gaussian.epsilon_rdp(gaussian.rho_rdp(epsilon, 1e-5), 1e-5) == pytest.approx(epsilon, rel=1e-9)


def test_many_releases_are_one() -> None:
    assert gaussian.compose_mu(*[0.01] * 10_000) == pytest.approx(1.0)


def test_classical_sigma_is_refused_where_it_is_not_proved() -> None:
    assert gaussian.classical_sigma(2.0, 0.5, 1e-5) == pytest.approx(2 * math.sqrt(2 * math.log(1.25e5)) / 0.5)
    with pytest.raises(SettingsError, match="below 1"):
        gaussian.classical_sigma(1.0, 1.0, 1e-5)


@pytest.mark.parametrize("bad", [math.nan, -1.0, math.inf])
def test_refuses_what_is_no_epsilon(bad: float) -> None:
    with pytest.raises(SettingsError, match="epsilon"):
        gaussian.mu(bad, 1e-5)


@pytest.mark.parametrize("bad", [math.nan, 0.0, 1.0, -0.1])
def test_refuses_what_is_no_delta(bad: float) -> None:
    with pytest.raises(SettingsError, match="delta"):
        gaussian.epsilon(1.0, bad)
