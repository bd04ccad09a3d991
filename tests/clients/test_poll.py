"""What leaves a client of a poll: counts of where its records lie, each record in one place, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedballot.clients.poll import PollClient, one_class, public_view
from fedballot.clients.workspace import Workspace
from fedballot.core.folders import ClientFolder
from fedballot.core.setting import build
from fedballot.datasets.examples import Examples
from fedballot.datasets.federation import FederatedData
from fedballot.learners.cover import cover
from fedballot.privacy.ledger import Account, Ledger
from fedballot.settings.poll import PollSettings, histogram
from fedballot.wire.codec import Integers

POOL, CELLS, CLASSES, WIDTH = 60, 4, 3, 3
RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(POOL, WIDTH)).astype(np.float32)
FIELDS = {"clients": 2, "min_clients": 2, "public_size": POOL, "cells": CELLS, "extractor": "standardise"}


def world(x: np.ndarray, y: np.ndarray) -> FederatedData:
    blank = np.zeros(POOL, np.int64)
    rows = np.arange(len(x))
    classes = ("a", "b", "c")
    return FederatedData(classes, Examples(x, y), (rows, rows), PUBLIC, blank, PUBLIC[:1], blank[:1], "sha256:1", ())


def settings_of(**changes: Any) -> PollSettings:
    return build(PollSettings, FIELDS, changes)


def client(data: FederatedData, folder: Path, chosen: PollSettings | None = None, **more: Any) -> PollClient:
    return PollClient(Workspace(0, chosen or settings_of(), data, ClientFolder(folder), "cpu", **more))


def asked() -> list[np.ndarray]:
    _, features = public_view(settings_of(), world(PUBLIC[:3], np.arange(3)), "cpu")
    found = cover(features, CELLS, 0)
    return [found.cells, found.reach]


ASKED = asked()


def exact(one: PollClient, arrays: list[np.ndarray] = ASKED) -> np.ndarray:
    (counts,) = one.exact(one.question(arrays, {})).values()
    return counts


numbers = st.one_of(
    st.floats(-3, 3, width=32), st.sampled_from([np.nan, np.inf, -np.inf, 3e38, -1e20, 0.0]).map(np.float32)
)
record = st.tuples(st.lists(numbers, min_size=WIDTH, max_size=WIDTH), st.integers(0, CLASSES - 1))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(record, min_size=1, max_size=8), other=record, data=st.data())
def test_whatever_a_record_is_it_moves_four_counts_by_one_and_none_of_the_others(rows, other, data, tmp_path):
    """Also under cells and distances that a hostile server makes up, with numbers that are none, or huge."""
    place = data.draw(st.integers(0, len(rows) - 1))
    arrays = ASKED
    if data.draw(st.booleans()):
        rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
        arrays = [rng.integers(0, CELLS, POOL).astype(np.int32), rng.exponential(1, POOL).astype(np.float32)]
    found = []
    for replaced in (rows[place], other):
        many = [*rows[:place], replaced, *rows[place + 1 :]]
        x, y = np.array([x for x, _ in many], np.float32), np.array([y for _, y in many])
        found.append(exact(client(world(x, y), tmp_path), arrays))
        assert found[-1].sum() == 2 * len(rows) and (found[-1] >= 0).all()
    moved = found[0] - found[1]
    cost = histogram(settings_of(), CLASSES).cost("record")
    assert np.abs(moved).max() <= 1 and np.linalg.norm(moved) <= cost.sensitivity


def test_counts_say_where_records_lie(tmp_path):
    x = np.concatenate([PUBLIC[:20], PUBLIC[:10] + 50]).astype(np.float32)
    y = np.repeat([0, 2], [20, 10])
    counts = exact(client(world(x, y), tmp_path))
    assert counts[:CELLS].tolist() == np.bincount(ASKED[0][:20], minlength=CELLS).tolist()
    assert counts[CELLS:].tolist() == [10, 20, 0, 0, 0, 0, 10]


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_a_record_that_is_no_number_is_counted(value, tmp_path):
    """An error because of one record would tell of it: the answer of all would be blank."""
    x = PUBLIC[:4].copy()
    x[2] = value
    one = client(world(x, np.zeros(4, np.int64)), tmp_path)
    (counts,) = one.drawn(one.question(ASKED, {}), one.composition(None)).values()
    assert not one.failed and exact(one).sum() == 8 and counts.any()


def test_only_the_first_records_count_and_shares_add_up(tmp_path):
    x, y = np.concatenate([PUBLIC[:20], PUBLIC[:20] + 50]).astype(np.float32), np.zeros(40, np.int64)
    assert exact(client(world(x, y), tmp_path, settings_of(records=25)))[CELLS] == 5
    shares = exact(client(world(x, y), tmp_path, settings_of(unit="client")))
    steps = settings_of(unit="client").steps
    assert shares[: CELLS + 1].sum() == shares[CELLS + 1 :].sum() == steps and shares[CELLS] == steps / 2


def test_the_class_of_several_labels_is_the_records_own():
    y = np.array([[0, 1, 1], [0, 0, 0], [-1, 1, 0], [1, 1, 0]], np.int8)
    assert one_class(y, 3).tolist() == [1, 2, 1, 0]
    assert [one_class(y[row : row + 1], 3)[0] for row in range(4)] == one_class(y, 3).tolist()


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ([], "a cell and a distance"),
        ([ASKED[0]], "a cell and a distance"),
        ([ASKED[0][:-1], ASKED[1][:-1]], "a cell and a distance"),
        ([ASKED[0] + CELLS, ASKED[1]], "from 0 to 3"),
        ([ASKED[0] - 9, ASKED[1]], "from 0 to 3"),
        ([ASKED[1], ASKED[1]], "cells must be integers"),
        ([ASKED[0], np.where(ASKED[1] > 0, np.nan, 0).astype(np.float32)], "finite"),
        ([ASKED[0], -ASKED[1]], "from 0 on"),
        ([ASKED[0], ASKED[0]], "distances must be"),
    ],
)
def test_what_is_no_request_is_refused_unread_and_uncharged(arrays, words, tmp_path):
    def never() -> Examples:
        raise AssertionError("read")

    one = client(world(PUBLIC[:3], np.arange(3)), tmp_path, read=never)
    out, _, metrics = one.fit(arrays, {"request": "run/1", "round": 1, "fingerprint": "sha256:1"})
    assert (out, metrics["refused"]) == ([], "request") and words in str(metrics["detail"])
    assert not (tmp_path / "ledger").exists() or Ledger(tmp_path / "ledger").spent() == 0


@pytest.mark.parametrize("unit", ["record", "client"])
def test_an_answer_is_charged_once_and_a_failure_is_blank(unit, tmp_path):
    def fails() -> Examples:
        raise ValueError("patient 17")

    chosen = settings_of(unit=unit)
    one = client(world(PUBLIC[:3], np.arange(3)), tmp_path, chosen, read=fails)
    request = {"request": "run/1", "round": 1, "fingerprint": "sha256:1"}
    out, _, metrics = one.fit(ASKED, request)
    assert metrics["refused"] == "" and one.failed and "patient" not in str(metrics)
    noisy = histogram(chosen, CLASSES)
    blank = Integers((noisy.entries,)).read(out)
    assert np.abs(blank).max() <= noisy.largest(0) and blank.any()  # noise alone
    ledger = Ledger(tmp_path / "ledger")
    assert ledger.spent() == pytest.approx(chosen.epsilon, rel=1e-3)
    assert one.fit(ASKED, request)[0][0].tobytes() == out[0].tobytes() and len(ledger.costs()) == 1


@pytest.mark.parametrize(
    ("unit", "kept", "refused"),
    [
        ("record", ("record", "replace-one"), ""),
        ("record", ("person", "replace-one"), ""),
        ("record", ("client", "zero-out"), "policy"),
        ("client", ("client", "zero-out"), ""),
        ("client", ("record", "replace-one"), ""),
    ],
)
def test_a_ledger_of_either_unit_is_charged_what_its_unit_costs(unit, kept, refused, tmp_path):
    chosen = settings_of(unit=unit)
    ledger = Ledger(tmp_path / "own", Account("site", "its records", *kept, 100.0, 1e-5))
    one = client(world(PUBLIC[:3], np.arange(3)), tmp_path, chosen, ledger=ledger, records_per_person=3)
    _, _, metrics = one.fit(ASKED, {"request": "run/1", "round": 1, "fingerprint": "sha256:1"})
    assert metrics["refused"] == refused
    if not refused:
        (cost,) = ledger.costs()
        assert cost == histogram(chosen, CLASSES).cost(kept[0], 3)
