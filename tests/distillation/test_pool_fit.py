"""What is concluded from a noisy poll: shares with honest errors, and no verdict that noise alone brings about."""

from __future__ import annotations

import numpy as np
import pytest

from fedballot.distillation.pool_fit import PoolFit, advice, pool_fit

POOL = np.array([40, 30, 20, 10])
CLASSES = ("ill", "well", "other")
EXPECTED = 0.1
WHO = "the clients' records"


def tally(cells: list[float], far: list[float], near: list[float] | None = None) -> np.ndarray:
    """Counts by cell, and far ones by class; near ones are of all classes alike unless told."""
    inside = [sum(cells) / len(far)] * len(far) if near is None else near
    return np.array([*cells, sum(far), *inside, *far], dtype=np.float64)


def words(fit: PoolFit) -> str:
    return ". ".join(advice(fit, CLASSES, WHO, ["old", "", "", "young"]))


def test_a_pool_of_the_same_kind_fits():
    fit = pool_fit(tally([360, 270, 180, 90], [33, 33, 34]), 5.0, POOL, EXPECTED)
    assert fit.verdict == "fits" and fit.far.value == pytest.approx(0.1, abs=0.01)
    assert not fit.far_classes and fit.idle == 0 and all(cell.state == "" for cell in fit.cells)
    assert "The pool fits: 10" in words(fit) and "learn nothing" not in words(fit)


def test_a_class_that_the_pool_lacks_is_named():
    fit = pool_fit(tally([360, 270, 100, 40], [200, 15, 15], [100, 335, 335]), 5.0, POOL, EXPECTED)
    assert fit.verdict == "fits in part" and fit.far_classes == [0]
    assert "Add public records of the class ill (67" in words(fit)
    assert [round(share.value, 2) for share in fit.class_shares] == [0.3, 0.35, 0.35]


def test_a_pool_of_another_kind_does_not_fit():
    fit = pool_fit(tally([50, 50, 50, 50], [300, 300, 200]), 5.0, POOL, EXPECTED)
    assert fit.verdict == "does not fit" and fit.far.value == pytest.approx(0.8, abs=0.01)
    assert fit.out_of_reach.value == pytest.approx((0.8 - 0.1) / 0.9, abs=0.01)
    assert "does not fit" in words(fit) and "Take one that is nearer" in words(fit)
    assert "Of these the server's model would learn nothing" in words(fit)


def test_cells_without_clients_are_idle_and_others_are_short():
    fit = pool_fit(tally([0, 0, 450, 450], [33, 33, 34]), 5.0, POOL, EXPECTED)
    assert [cell.state for cell in fit.cells] == ["idle", "idle", "short", "short"]
    assert fit.idle == pytest.approx(0.7) and fit.verdict == "fits in part"
    assert "70" in words(fit) and "(cells 1 (old), 2): votes there are guesses" in words(fit)
    assert "more than twice what the pool has in cells 3, 4 (young)" in words(fit)
    assert pool_fit(tally([0, 0, 0, 900], [33, 33, 34]), 5.0, POOL, EXPECTED).verdict == "does not fit"


@pytest.mark.parametrize(
    "counts", [tally([0] * 4, [0] * 3), tally([-9, 4, 3, 0], [3, -8, 2]), tally([30] * 4, [9] * 3)]
)
def test_where_noise_is_all_that_there_is_nothing_is_told(counts):
    fit = pool_fit(counts, 50.0, POOL, EXPECTED)
    assert fit.verdict == "cannot be told" and words(fit).startswith("It cannot be told")
    assert not fit.far_classes and fit.idle == 0 and all(cell.state == "" for cell in fit.cells)
    assert np.isfinite([fit.far.value, fit.far.error, fit.weight.value, fit.out_of_reach.error]).all()


def test_noise_alone_brings_about_no_verdict_and_errors_are_what_they_say():
    """Two thousand polls about one pool that fits: estimates are as far from the truth as they say."""
    rng, sigma, exact = np.random.default_rng(0), 14.0, tally([360, 270, 180, 90], [33, 33, 34])
    fits = [pool_fit(exact + rng.normal(0, sigma, exact.size), sigma, POOL, EXPECTED) for _ in range(2000)]
    verdicts = [fit.verdict for fit in fits]
    assert verdicts.count("fits") > 1990
    off = np.array([(fit.far.value - 0.1) / fit.far.error for fit in fits])
    assert off.std() == pytest.approx(1, abs=0.08) and abs(off.mean()) < 0.1
    cells = np.array(
        [
            [(c.clients.value - v) / c.clients.error for c, v in zip(fit.cells, (0.36, 0.27, 0.18, 0.09), strict=True)]
            for fit in fits
        ]
    )
    assert np.abs(cells.std(axis=0) - 1).max() < 0.08
    # both lists are used: a sum of one of them alone would be less certain
    assert fits[0].far.error < sigma / 1000 * 0.9


def test_what_is_told_of_many_classes_stays_short():
    far = [300.0] * 12
    fit = pool_fit(tally([300] * 4, far, [100] * 12), 5.0, POOL, EXPECTED)
    said = advice(fit, [f"class{number}" for number in range(12)], WHO, [""] * 4)
    assert len(fit.far_classes) == 12 and "class0" not in " ".join(said)  # all of them: that is said already
