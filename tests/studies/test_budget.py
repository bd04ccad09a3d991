"""The planner against the mechanisms themselves, the papers' figures, and common sense."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedballot.core.errors import SettingsError
from fedballot.privacy.accounting import gaussian
from fedballot.privacy.mechanisms.votes import NoisyVotes
from fedballot.report.budget_plot import planning_figure
from fedballot.studies.budget import (
    MOST,
    ROUTES,
    clients_curve,
    epsilon,
    largest_rho,
    make_plan,
    noise_curve,
    votes_curve,
)

MNIST = NoisyVotes.solve(4.3, 1e-3, queries=3000, max_votes=1650, min_clients=100)


def test_the_paper_s_mnist_row_needs_a_fifth_less_noise() -> None:
    plan = make_plan(MNIST, 1e-3, "client", 4.3)
    assert plan.fits and plan.row("client", "exact").votes == 1650
    paper = plan.row("client", "mironov")
    assert paper.saved == pytest.approx(0.209, abs=0.001)
    # epsilon = 4.3 fixes votes/sigma^2 only: 1.04 by the paper's conversion, 1.66 exactly
    assert 1650 / paper.sigma**2 == pytest.approx(1.035, abs=0.005)
    assert 1650 / plan.noisy.sigma**2 == pytest.approx(1.656, abs=0.005)
    assert plan.row("client", "renyi").saved == pytest.approx(0.088, abs=0.001)
    # by one query more than a share of 0.55 turns into another vote
    assert plan.row("client", "exact").queries == 3001


def test_known_figures_of_one_hundred_clients() -> None:
    noisy = NoisyVotes(500, 500, 25.0, 100)
    plan = make_plan(noisy, 1e-5, "client")
    assert plan.target == plan.row("client", "exact").epsilon == pytest.approx(3.8486, abs=1e-3)
    assert plan.row("record", "exact").epsilon == pytest.approx(5.7595, abs=1e-3)
    assert plan.server_epsilon == pytest.approx(133.09, abs=0.1)


@settings(max_examples=25, deadline=None)
@given(
    target=st.floats(0.1, 8.0),
    queries=st.integers(1, 3000),
    share=st.floats(0.05, 1.0),
    clients=st.integers(2, 300),
    unit=st.sampled_from(["client", "record"]),
)
def test_every_figure_is_what_the_mechanism_says(target, queries, share, clients, unit) -> None:
    votes = max(1, int(share * queries))
    noisy = NoisyVotes.solve(target, 1e-4, queries=queries, max_votes=votes, min_clients=clients, unit=unit)
    plan = make_plan(noisy, 1e-4, unit, target)
    assert plan.fits
    for row in plan.rows:
        exact = plan.row(row.unit, "exact")
        assert row.epsilon == epsilon(noisy, 1e-4, row.unit, row.route)
        assert row.epsilon >= exact.epsilon * (1 - 1e-9) and row.votes <= exact.votes and 0 <= row.saved < 1
        # least noise: it keeps the target, a little less does not, unless shares cannot be smaller
        at = replace(noisy, sigma=row.sigma * (1 + 1e-9))
        assert epsilon(at, 1e-4, row.unit, row.route) <= target * (1 + 1e-6)
        if at.share_sigma > 2.01:
            assert epsilon(replace(noisy, sigma=row.sigma * 0.999), 1e-4, row.unit, row.route) > target
        # most votes: they fit, one more does not
        if row.votes:
            fitting = replace(noisy, queries=row.votes, max_votes=row.votes)
            assert epsilon(fitting, 1e-4, row.unit, row.route) <= target * (1 + 1e-6)
        assert row.votes < MOST
        over = replace(noisy, queries=row.votes + 1, max_votes=row.votes + 1)
        assert epsilon(over, 1e-4, row.unit, row.route) > target * (1 - 1e-6)
        # queries at the same share of votes
        assert row.queries * votes // queries <= row.votes < (row.queries + 1) * votes // queries or not row.votes


@given(target=st.floats(0.01, 50), delta=st.floats(1e-9, 0.1))
@settings(max_examples=50, deadline=None)
def test_largest_rho_is_the_inverse_of_each_conversion(target: float, delta: float) -> None:
    classic = largest_rho(target, delta, "mironov")
    assert gaussian.epsilon_rdp_classic(classic, delta) == pytest.approx(target, rel=1e-9)
    assert gaussian.epsilon_rdp(largest_rho(target, delta, "renyi"), delta) == pytest.approx(target, rel=1e-6)


def test_a_target_that_is_missed_says_by_how_much() -> None:
    plan = make_plan(NoisyVotes(2000, 1000, 30.0, 90), 1e-3, "client", 2.0)
    own = plan.row("client", "exact")
    assert not plan.fits and own.epsilon > 2 and own.sigma > 30 and own.votes < 1000
    none = make_plan(NoisyVotes(5, 3, 3.0, 1), 1e-3, "record", 0.1).row("record", "exact")
    assert (none.votes, none.queries) == (0, 0)


def test_integer_shares_have_a_smallest_size() -> None:
    noisy = NoisyVotes.solve(50.0, 1e-3, queries=100, max_votes=10, min_clients=400)
    plan = make_plan(noisy, 1e-3, "client", 50.0)
    assert plan.at_smallest_noise and noisy.share_sigma == pytest.approx(2.0)
    assert all(row.sigma >= noisy.sigma * (1 - 1e-9) for row in plan.rows)
    assert not make_plan(MNIST, 1e-3, "client").at_smallest_noise


def test_votes_are_counted_to_a_million() -> None:
    plan = make_plan(NoisyVotes(3000, 3000, 4000.0, 1000, 10), 1e-3, "client", 500.0)
    assert {row.votes for row in plan.rows} == {MOST}


def test_curves_pass_through_the_plan_and_run_the_right_way() -> None:
    plan = make_plan(MNIST, 1e-3, "client", 4.3)
    for curve, rises in ((noise_curve(plan), False), (votes_curve(plan), True), (clients_curve(plan), False)):
        assert curve.x[0] < curve.at < curve.x[-1]
        for route in ROUTES:
            line = curve.lines[route]
            seen = np.isfinite(line)
            steps = np.diff(line[seen])
            assert np.all(steps > 0) if rises else np.all(steps < 0)
            here = float(np.interp(math.log(curve.at), np.log(curve.x[seen]), line[seen]))
            assert here == pytest.approx(plan.row("client", route).epsilon, rel=0.01)
        exact, paper = curve.lines["exact"], curve.lines["mironov"]
        assert np.all(exact[np.isfinite(exact)] < paper[np.isfinite(exact)])


@pytest.mark.filterwarnings("error:.*constrained_layout.*")
@pytest.mark.parametrize(
    ("noisy", "unit", "target"),
    [
        (MNIST, "client", 4.3),
        (NoisyVotes(1, 1, 30.0, 3), "record", None),
        (NoisyVotes(1, 1, 3.0, 1), "client", 1e-4),
        (NoisyVotes(3000, 3000, 4000.0, 1000, 10), "client", 500.0),
        (NoisyVotes(50, 50, 10.0, 3, k=5), "record", 1.0),
    ],
)
def test_the_picture_is_drawn_for_every_plan(noisy, unit, target, tmp_path) -> None:
    path = tmp_path / "plan.png"
    planning_figure(make_plan(noisy, 1e-3, unit, target)).savefig(path)
    assert path.read_bytes()[:4] == b"\x89PNG" and path.stat().st_size > 20_000


def test_knn_counts_are_planned_with_the_paper_s_factor_k() -> None:
    noisy = NoisyVotes(500, 500, 5.0, 1, k=10)
    plan = make_plan(noisy, 1e-5, "record")
    assert plan.row("record", "exact").epsilon == pytest.approx(2.594, abs=0.01)
    assert plan.row("record", "renyi").epsilon == pytest.approx(10.725, abs=0.001)


@pytest.mark.parametrize("target", [0.0, -1.0, math.inf, math.nan])
def test_a_target_out_of_range_is_refused(target: float) -> None:
    with pytest.raises(SettingsError, match="epsilon"):
        make_plan(MNIST, 1e-3, "client", target)
