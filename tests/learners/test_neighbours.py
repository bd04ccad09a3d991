"""Nearest neighbours: exact, ordered by (distance, index), whatever the blocks; and what one record can move."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedballot.core.errors import SettingsError
from fedballot.learners.neighbours import _sift, nearest, neighbour_votes


def by_definition(records, queries, k):
    """Algorithm 2, line 4, in exact arithmetic: sort all records by (distance, index), take k."""
    out = []
    for query in queries.tolist():
        keys = [
            (sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(query, record, strict=True)), index)
            for index, record in enumerate(records.tolist())
        ]
        out.append([index for _, index in sorted(keys)[:k]])
    return np.array(out)


@st.composite
def grids(draw):
    """Points on a coarse grid, so that distances tie all the time."""
    n, queries, d = draw(st.integers(1, 14)), draw(st.integers(1, 5)), draw(st.integers(1, 3))
    values = st.integers(-2, 2).map(lambda i: i / 4)
    offset = draw(st.sampled_from([0.0, 3.0, -1000.0]))
    records, asked = (
        (draw(hnp.arrays(np.float32, (rows, d), elements=values)) + offset).astype(np.float32) for rows in (n, queries)
    )
    return records, asked, draw(st.integers(1, n))


@settings(max_examples=150, deadline=None)
@given(grids(), st.integers(1, 6), st.integers(1, 15))
def test_equals_the_definition_with_ties_by_index(case, query_block, record_block):
    records, queries, k = case
    found = nearest(records, queries, k, query_block=query_block, record_block=record_block)
    np.testing.assert_array_equal(found, by_definition(records, queries, k))


@pytest.mark.parametrize("offset", [0, 100, 1e5])
def test_blocks_never_change_the_result(offset):
    rng = np.random.default_rng(0)
    records = (rng.normal(size=(700, 33)) + offset).astype(np.float32)
    records[300:400] = records[:100]  # the same record many times: ties are the rule
    queries = np.concatenate([records[250:350], (rng.normal(size=(60, 33)) + offset).astype(np.float32)])
    whole = nearest(records, queries, 25, query_block=1000, record_block=1000)
    for query_block, record_block in ((1, 700), (7, 13), (160, 25), (64, 256), (1000, 1)):
        blocks = nearest(records, queries, 25, query_block=query_block, record_block=record_block)
        np.testing.assert_array_equal(blocks, whole)
    exact = ((queries[:, None].astype(np.float64) - records) ** 2).sum(axis=2)
    np.testing.assert_array_equal(whole, np.argsort(exact, axis=1, kind="stable")[:, :25])


def test_what_the_matrix_product_cannot_tell_apart_is_told_apart():
    """Points whose squared norms swamp their differences in single precision, and are not centred away."""
    rng = np.random.default_rng(1)
    ends = np.repeat([[0.0], [3e4]], 150, axis=0)
    records = (ends + rng.normal(0, 0.05, (300, 8))).astype(np.float32)
    queries = records[::7] + np.float32(0.01)
    exact = ((queries[:, None].astype(np.float64) - records) ** 2).sum(axis=2)
    np.testing.assert_array_equal(nearest(records, queries, 9), np.argsort(exact, axis=1, kind="stable")[:, :9])


@pytest.mark.parametrize("k", [1, 3, 12])
@pytest.mark.parametrize("far", [3.4e38, -3e38, 2e19, 1e16, -1e15])
def test_records_however_far_are_counted_like_any_other(far, k):
    """One record must not make an answer fail: then all votes of a client would hang on it."""
    rng = np.random.default_rng(2)
    records, queries = (rng.normal(size=(n, 3)).astype(np.float32) for n in (12, 5))
    records[4], records[7] = far, (far, -far, 0)
    records[9] = np.finfo(np.float32).smallest_subnormal
    with np.errstate(over="raise", invalid="raise"):
        found = nearest(records, queries, k, record_block=5)
    np.testing.assert_array_equal(found, by_definition(records, queries, k))


@pytest.mark.parametrize("far", [1e4, 1e14])
def test_one_record_far_away_does_not_have_all_others_compared_again(far):
    """It would take so long that the time tells of it, and beyond a client's limit its answer would be blank."""
    rng = np.random.default_rng(3)
    records, queries = (rng.normal(size=(n, 8)).astype(np.float32) for n in (3000, 20))
    records[17] = far
    half_norms = np.float32(0.5) * np.einsum("ij,ij->i", records, records)
    rows, columns = _sift(queries, records, half_norms, 10, 4096)
    assert len(rows) < 20 * 20 and (np.bincount(rows) >= 10).all() and len(columns) == len(rows)


@st.composite
def swaps(draw):
    """Two sets of labelled records that differ in one, queries, and k (which may exceed what there is)."""
    records, queries, _ = draw(grids())
    n, d = records.shape
    labels = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    other, others = records.copy(), labels.copy()
    row = draw(st.integers(0, n - 1))
    other[row] = draw(hnp.arrays(np.float32, (d,), elements=st.integers(-9, 9).map(lambda i: i / 4)))
    others[row] = draw(st.integers(0, 3))
    return (records, labels), (other, others), queries, draw(st.integers(1, n + 3))


@settings(max_examples=200, deadline=None)
@given(swaps())
def test_replacing_a_record_moves_at_most_one_vote_of_each_query(case):
    first, second, queries, k = case
    before, after = (neighbour_votes(y, nearest(x, queries, min(k, len(y))), 4) for x, y in (first, second))
    moved = after - before
    assert (np.abs(moved).sum(axis=1) <= 2).all()  # L2 of a row at most sqrt(2), as NoisyVotes.sensitivity has it
    assert (moved.sum(axis=1) == 0).all()
    assert (before.sum(axis=1) == min(k, len(first[1]))).all()


def test_an_unstable_selection_would_move_more():
    """Why the order matters: with ties broken at will, one replaced record can change two neighbours and more."""
    records, queries = np.zeros((6, 1), np.float32), np.zeros((1, 1), np.float32)
    labels = np.array([0, 0, 1, 1, 2, 2])
    counts = neighbour_votes(labels, nearest(records, queries, 2), 3)
    unstable = neighbour_votes(labels, np.array([[4, 5]]), 3)  # as good a choice by distance alone
    assert counts.tolist() == [[2, 0, 0]]
    assert np.linalg.norm(counts - unstable) > np.sqrt(2)


def test_votes_count_classes():
    votes = neighbour_votes(np.array([0, 2, 2, 1]), np.array([[0, 1, 2], [3, 3, 1]]), 4)
    assert votes.tolist() == [[1, 0, 2, 0], [0, 2, 1, 0]]


def test_memory_is_bounded_by_blocks_not_by_the_distances():
    rng = np.random.default_rng(2)
    records = rng.normal(size=(20000, 16)).astype(np.float32)
    queries = rng.normal(size=(3000, 16)).astype(np.float32)
    tracemalloc.start()
    nearest(records, queries, 10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6  # all distances at once would be 240 MB


def test_what_cannot_be_compared_is_refused():
    x = np.zeros((3, 2), np.float32)
    with pytest.raises(SettingsError, match="k=4"):
        nearest(x, x, 4)
    with pytest.raises(SettingsError, match="k=0"):
        nearest(x, x, 0)
    with pytest.raises(SettingsError, match="must be"):
        nearest(x, np.zeros((3, 5), np.float32), 1)
    with pytest.raises(SettingsError, match="must be"):
        nearest(x, x[:0], 1)
    with pytest.raises(SettingsError, match="finite float32"):
        nearest(x.astype(np.float64), x, 1)
    with pytest.raises(SettingsError, match="finite float32"):
        nearest(np.full((3, 2), np.nan, np.float32), x, 1)
