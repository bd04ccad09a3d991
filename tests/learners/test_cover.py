"""What a pool covers: about a tenth of records of its own kind are far, more of others; and of its record alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedballot.learners.cover import FAR, cover, likeness, place

RNG = np.random.default_rng(0)
POOL = np.concatenate([RNG.normal(centre, 1, (150, 5)) for centre in (-6, 0, 6)]).astype(np.float32)
COVER = cover(POOL, 6, 0)


def far_share(x: np.ndarray) -> float:
    return float(place(x.astype(np.float32), POOL, COVER.cells, COVER.reach)[1].mean())


def test_a_tenth_of_records_of_the_same_kind_are_far_and_all_of_another():
    same = np.concatenate([RNG.normal(centre, 1, (2000, 5)) for centre in (-6, 0, 6)])
    assert 0.05 < far_share(same) < FAR + 0.03
    assert far_share(RNG.normal(3, 0.3, (500, 5))) > 0.9
    assert far_share(RNG.normal(0, 3, (500, 5))) > 0.5


def test_cells_are_where_records_lie_alike_and_the_larger_come_first():
    sizes = np.bincount(COVER.cells, minlength=6)
    assert (np.diff(sizes) <= 0).all() and sizes.sum() == len(POOL) and sizes.min() > 0
    for cell in range(6):
        assert len(set(np.flatnonzero(COVER.cells == cell) // 150)) == 1  # no cell joins two groups
        assert COVER.cells[COVER.examples[cell]] == cell
    again = cover(POOL, 6, 0)
    assert again.cells.tobytes() == COVER.cells.tobytes() and again.reach.tobytes() == COVER.reach.tobytes()


def test_a_public_record_is_near_itself_and_lies_in_its_own_cell():
    cells, far = place(POOL, POOL, COVER.cells, COVER.reach)
    assert not far.any() and (cells == COVER.cells).all()


@settings(max_examples=30)
@given(st.integers(1, 60), st.floats(-(2.0**100), 2.0**100, width=32))
def test_where_a_record_lies_is_its_own_affair(count, other):
    """Bit for bit, whatever else is asked in the same call."""
    x = RNG.normal(0, 5, (count, 5)).astype(np.float32)
    together = place(np.vstack([x, np.full((3, 5), other, np.float32)]), POOL, COVER.cells, COVER.reach)
    for row in range(count):
        alone = place(x[row : row + 1], POOL, COVER.cells, COVER.reach)
        assert (together[0][row], together[1][row]) == (alone[0][0], alone[1][0])


@pytest.mark.parametrize(
    "pool",
    [np.zeros((30, 3)), np.repeat(np.eye(3), 10, axis=0), np.eye(2), np.full((25, 1), 3e8)],
    ids=["all alike", "three points", "two records", "one number"],
)
def test_odd_pools_have_cells_too(pool):
    x = pool.astype(np.float32)
    found = cover(x, min(4, len(x)), 0)
    assert np.isfinite(found.reach).all() and (found.reach >= 0).all()
    assert (found.examples >= -1).all() and (found.examples >= 0).any()
    assert not place(x, x, found.cells, found.reach)[1].any()
    assert place(x + 1e9, x, found.cells, found.reach)[1].all()


def test_a_large_pool_is_measured_in_part(monkeypatch):
    monkeypatch.setattr("fedballot.learners.cover.MEASURED", 200)
    found = cover(POOL, 6, 0)
    assert found.cells.tobytes() == COVER.cells.tobytes()
    same = np.concatenate([RNG.normal(centre, 1, (2000, 5)) for centre in (-6, 0, 6)]).astype(np.float32)
    assert 0.04 < place(same, POOL, found.cells, found.reach)[1].mean() < FAR + 0.05


def test_a_cell_is_described_by_what_sets_it_apart():
    x = np.zeros((40, 3), np.float32)
    x[:10, 1], x[:, 2] = 5, 1
    words = likeness(x, np.repeat([0, 1], [10, 30]), 3, ["age", "dose", "constant"])
    assert words == ["high dose", "low dose", ""]
    assert likeness(np.ones((4, 2), np.float32), np.zeros(4, int), 1, ["a", "b"]) == [""]
