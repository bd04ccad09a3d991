"""Noisy histograms: how far a record, a person, a client moves them, and that costs and noise speak of just that."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedballot.clients.poll import scaled
from fedballot.core.errors import DataError, SettingsError
from fedballot.privacy.accounting import gaussian
from fedballot.privacy.checks import check_mechanism
from fedballot.privacy.mechanisms.histogram import NoisyHistogram
from fedballot.privacy.noise.randomness import os_noise, seeded_noise

CELLS, CLASSES, STEPS, DELTA = 4, 3, 1000, 1e-5
RECORD = NoisyHistogram.solve(0.5, DELTA, cells=CELLS, classes=CLASSES, min_clients=5, colluders=1)
CLIENT = NoisyHistogram.solve(0.5, DELTA, cells=CELLS, classes=CLASSES, min_clients=5, colluders=1, steps=STEPS)

records = st.lists(
    st.tuples(st.integers(0, CELLS - 1), st.booleans(), st.integers(0, CLASSES - 1)), min_size=1, max_size=12
)


def lists(rows: list[tuple[int, bool, int]], steps: int = 0) -> np.ndarray:
    """The histogram of records (cell, far, class), counted one by one."""
    first, second = np.zeros(CELLS + 1, np.int64), np.zeros(2 * CLASSES, np.int64)
    for cell, far, label in rows:
        first[CELLS if far else cell] += 1
        second[CLASSES + label if far else label] += 1
    return np.concatenate([scaled(one, steps) if steps else one for one in (first, second)])


@given(records, st.data())
def test_a_record_moves_counts_by_two_at_most_and_a_person_by_two_for_each(rows, data):
    count = data.draw(st.integers(1, len(rows)))
    others = data.draw(st.lists(records.map(lambda many: many[0]), min_size=count, max_size=count))
    moved = lists(rows) - lists([*others, *rows[count:]])
    cost = RECORD.cost("person", count)
    assert np.linalg.norm(moved) <= cost.sensitivity == 2 * count
    assert np.count_nonzero(moved) <= cost.coordinates
    if count == 1:
        assert RECORD.cost("record") == cost and cost.unit_shifts and np.abs(moved).max(initial=0) <= 1


@given(records, records)
def test_a_client_moves_scaled_counts_by_what_is_charged(rows, others):
    one, other = lists(rows, STEPS), lists(others, STEPS)
    assert one[: CELLS + 1].sum() == one[CELLS + 1 :].sum() == STEPS
    assert np.linalg.norm(one) <= CLIENT.cost("client").sensitivity
    for unit in ("record", "person"):
        assert np.linalg.norm(one - other) <= CLIENT.cost(unit, 3).sensitivity


def test_both_bounds_are_reached():
    near, far = lists([(0, False, 0)]), lists([(0, True, 2)])
    assert np.linalg.norm(near - far) == RECORD.cost("record").sensitivity
    near, far = lists([(0, False, 0)], STEPS), lists([(0, True, 2)], STEPS)
    assert np.linalg.norm(near) == pytest.approx(CLIENT.cost("client").sensitivity)
    assert np.linalg.norm(near - far) == CLIENT.cost("record").sensitivity


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=40).filter(any), st.integers(1, 10_000))
def test_scaled_counts_add_up_and_are_off_by_less_than_one(counts, steps):
    exact = np.array(counts) * steps / sum(counts)
    out = scaled(np.array(counts), steps)
    assert out.sum() == steps and (np.abs(out - exact) < 1 + 1e-6).all() and (out >= 0).all()


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
def test_noise_is_the_least_for_the_target(epsilon):
    solved = NoisyHistogram.solve(epsilon, DELTA, cells=20, classes=10, min_clients=3, colluders=1)
    assert solved.epsilon(DELTA, "record") <= epsilon
    assert solved.sigma == pytest.approx(gaussian.sigma(2.0, epsilon, DELTA), rel=0.01)
    assert replace(solved, sigma=solved.sigma * 0.999).epsilon(DELTA, "record") > epsilon
    scaled_too = NoisyHistogram.solve(epsilon, DELTA, cells=20, classes=10, min_clients=3, colluders=1, steps=STEPS)
    assert scaled_too.epsilon(DELTA, "client") <= epsilon
    assert scaled_too.sigma == pytest.approx(gaussian.sigma(STEPS * math.sqrt(2), epsilon, DELTA), rel=0.01)


def test_where_records_are_counted_a_client_is_not_protected():
    assert RECORD.cost("client") is None and RECORD.epsilon(DELTA, "client") == math.inf
    assert [one.unit for one in RECORD.guarantees(DELTA)] == ["record", "record"]


def test_the_server_sees_more_of_one_client_than_others_see_of_the_sum():
    for noisy, unit in ((RECORD, "record"), (CLIENT, "client")):
        whole, own = (one for one in noisy.guarantees(DELTA, records_per_person=None) if one.unit == unit)
        assert (whole.trust.kind, own.trust.kind) == ("trusted aggregator", "self")
        assert own.epsilon > whole.epsilon == pytest.approx(0.5, abs=1e-3) and own.adjacency == "replace-one"
        alone = replace(noisy, min_clients=1, colluders=0, sigma=noisy.share_sigma)
        assert own.epsilon == pytest.approx(alone.epsilon(DELTA, "record"))
        (secure,) = (one for one in noisy.guarantees(DELTA, secure=True, arrived=5) if one.unit == unit)
        assert (secure.view, secure.epsilon) == ("server's view", pytest.approx(whole.epsilon))
        (more,) = (one for one in noisy.guarantees(DELTA, secure=True, arrived=9) if one.unit == unit)
        assert more.epsilon < whole.epsilon and "noise of 9 clients" in more.composition
    person = next(one for one in CLIENT.guarantees(DELTA, records_per_person=3) if one.unit == "person")
    assert person.epsilon == pytest.approx(CLIENT.epsilon(DELTA, "record")) and "at most 3" in person.composition


@pytest.mark.parametrize("noisy", [RECORD, CLIENT], ids=["records", "clients"])
def test_shares_add_up_to_the_noise_that_is_charged(noisy):
    counts, rows = lists([(0, False, 0), (1, True, 2)], noisy.steps), 400
    source = os_noise()
    drawn = np.array([noisy.release(counts, source) - counts for _ in range(rows * noisy.honest)])
    total = drawn.reshape(rows, noisy.honest, -1).sum(axis=1)
    statistic = float((total**2).sum() / noisy.sigma**2)
    assert 1e-6 < stats.chi2.cdf(statistic, total.size) < 1 - 1e-6
    assert not 1e-6 < stats.chi2.cdf(statistic / 2, total.size) < 1 - 1e-6


def test_a_largest_count_is_never_exceeded():
    counts = lists([(0, False, 0)]) * 50
    drawn = [np.abs(RECORD.release(counts, seeded_noise(seed))).max() for seed in range(200)]
    assert max(drawn) <= RECORD.largest(50)


@pytest.mark.parametrize("noisy", [RECORD, CLIENT], ids=["records", "clients"])
def test_it_is_a_mechanism_like_any_other(noisy):
    check_mechanism(noisy, lists([(0, False, 0), (1, True, 2)], noisy.steps))
    assert noisy.release(np.zeros(noisy.entries, np.int64), seeded_noise(1)).shape == (noisy.entries,)  # blank


@settings(max_examples=50)
@given(records, st.integers(0, CELLS + 2 * CLASSES), st.sampled_from([-100, -1, 1, 7]))
def test_what_does_not_fit_the_cost_is_not_released(rows, place, change):
    for noisy in (RECORD, CLIENT):
        counts = lists(rows, noisy.steps)
        counts[place] += change
        with pytest.raises(DataError, match="counts"):
            noisy.release(counts, seeded_noise(1))


def test_other_shapes_and_bad_settings_are_refused():
    with pytest.raises(DataError, match="expected 11 integers"):
        RECORD.release(np.zeros(10, np.int64), seeded_noise(1))
    with pytest.raises(DataError, match="float64"):
        RECORD.release(np.zeros(11), seeded_noise(1))
    with pytest.raises(DataError, match="0 or 1000"):
        CLIENT.release(lists([(0, False, 0)]), seeded_noise(1))
    for wrong in ({"cells": 0}, {"classes": 0}, {"steps": -1}, {"colluders": 5}, {"sigma": 0.0}, {"sigma": 1.0}):
        with pytest.raises(SettingsError):
            replace(RECORD, **wrong)
