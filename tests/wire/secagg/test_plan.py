"""Who must be there, and who sits beside whom."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedballot.core.errors import SettingsError
from fedballot.wire.secagg import Form, Plan, make_plan
from fedballot.wire.secagg.plan import MAX_STUCK, betrays, graph, near, seats, stuck, unbroken


def test_the_modulus_is_as_small_as_clients_times_range_allow() -> None:
    plan = Plan(100, 90, 0, 22, 12)
    assert [plan.bits(Form((1,), largest)) for largest in (0, 1, 5, 6)] == [1, 8, 10, 11]
    assert plan.bits(Form((1,), 2**55)) == 63
    with pytest.raises(SettingsError, match="more than 63"):
        plan.bits(Form((1,), 2**57))


def connected(beside: dict[int, list[int]], among: set[int]) -> bool:
    reached, front = set(), [min(among)]
    while front:
        reached |= set(front)
        front = [peer for client_id in front for peer in beside[client_id] if peer in among and peer not in reached]
    return reached == among


def test_the_graph_is_connected_even_and_drawn_from_what_all_were_shown() -> None:
    for n, k in ((100, 22), (23, 22), (7, 2), (2, 20)):
        order = seats("view", list(range(n)))
        beside = graph(order, k)
        assert beside == {client_id: near(order, client_id, k) for client_id in order}
        assert sorted(order) == list(range(n)) and order == seats("view", list(range(n)))
        assert all(client_id in beside[peer] for client_id in beside for peer in beside[client_id])
        assert {len(peers) for peers in beside.values()} == {min(k, n - 1)}
        assert connected(beside, set(order))
    assert seats("view", list(range(100))) != seats("another", list(range(100)))
    # every client is as likely to sit beside a given one
    first = [near(seats(str(draw), list(range(9))), 0, 2) for draw in range(2000)]
    assert stats.chisquare(np.bincount(np.ravel(first), minlength=9)[1:]).pvalue > 1e-6


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_honest_clients_of_a_sum_hang_together_wherever_colluders_sit_and_whoever_is_missing(data) -> None:
    n, t, half = data.draw(st.integers(9, 30)), data.draw(st.integers(0, 3)), data.draw(st.integers(1, 6))
    plan = Plan(n, 2, t, 2 * half, half + 1)
    order, gone = list(range(n)), data.draw(st.sets(st.integers(0, n - 1), max_size=n - 2))
    # the worst that a server can do: two gaps anywhere
    for start in data.draw(st.lists(st.integers(0, n - 1), max_size=2)):
        gone |= {(start + step) % n for step in range(data.draw(st.integers(0, half)))}
    inside = sorted(set(order) - gone)
    colluders = set(data.draw(st.permutations(inside))[:t])
    if len(inside) > t and unbroken(order, inside, plan):
        assert connected(graph(order, 2 * half), set(inside) - colluders)


def test_a_gap_on_the_circle_is_seen() -> None:
    plan, order = Plan(30, 20, 1, 8, 6), list(range(30))
    for gap, whole in ((2, True), (3, False), (4, False)):  # of four in a row more than one must be there
        for start in (0, 10, 28):
            gone = {(start + step) % 30 for step in range(gap)}
            assert unbroken(order, sorted(set(order) - gone), plan) is whole
    assert unbroken(order, [0, 29], Plan(30, 20, 1, 29, 16))  # everybody is next to everybody


def test_plans_are_small_safe_and_complete_for_few_clients() -> None:
    assert make_plan(3, 2) == Plan(3, 2, 0, 2, 2)
    assert make_plan(10, 9) == Plan(10, 9, 0, 9, 6)
    assert make_plan(10, 9, 3) == Plan(10, 9, 3, 9, 7)
    for n, m, t in ((50, 45, 5), (100, 90, 5), (100, 90, 10), (500, 450, 25), (500, 450, 50), (1000, 900, 50)):
        chosen = make_plan(n, m, t)
        # all colluders may sit beside one client, and the missing beside another
        assert 2 * chosen.threshold > chosen.neighbours + 1 + t and chosen.neighbours // 2 > t
        assert m >= chosen.quorum and 2 * chosen.quorum > n + t
        assert chosen.neighbours < n and stuck(chosen) <= MAX_STUCK
    assert [make_plan(n, n * 9 // 10).neighbours for n in (100, 500, 1000)] == [20, 28, 32]


def test_t_colluders_break_some_plans_and_not_others() -> None:
    assert not betrays(Plan(100, 90, 5, 30, 19)) and betrays(Plan(100, 90, 5, 30, 18))
    assert not betrays(Plan(100, 90, 9, 20, 16)) and betrays(Plan(100, 90, 10, 20, 16))
    assert not betrays(Plan(10, 9, 3, 9, 7)) and betrays(Plan(10, 9, 3, 9, 6))
    assert not betrays(Plan(3, 3, 1, 2, 3))  # in the complete graph nobody can be cut off


def test_the_chance_of_being_stuck_is_what_a_simulation_finds() -> None:
    rng, n, missing, k, threshold, t = np.random.default_rng(0), 60, 20, 12, 8, 1
    plan, stuck_runs = Plan(n, n - missing, t, k, threshold), 0
    order = list(range(n))
    for _ in range(3000):
        gone = set(rng.permutation(n)[:missing].tolist())
        stuck_runs += sum(peer in gone for peer in near(order, 0, k)) > k + 1 - threshold
        stuck_runs += sum(peer in gone for peer in range(k // 2)) > k // 2 - t - 1
    assert stuck(plan) == pytest.approx(n * stuck_runs / 3000, rel=0.2)
    assert stuck(Plan(n, plan.quorum - 1, t, k, threshold)) == 1


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"clients": 1, "min_clients": 1}, "clients=1 is too few"),
        ({"clients": 10, "min_clients": 4}, "min_clients must be at least 6"),
        ({"clients": 10, "min_clients": 9, "colluders": 8}, "min_clients must be at least 10"),
        ({"clients": 10, "min_clients": 9, "threshold": 5}, "share_threshold=5"),
        ({"clients": 10, "min_clients": 9, "threshold": 11}, "share_threshold=11"),
        ({"clients": 100, "min_clients": 90, "neighbours": 7}, "mask_neighbours=7 is odd"),
        ({"clients": 100, "min_clients": 90, "neighbours": 4}, "mask_neighbours=4"),
    ],
)
def test_settings_under_which_nothing_is_safe_are_refused(sizes, words) -> None:
    with pytest.raises(SettingsError, match=words):
        make_plan(**sizes)
