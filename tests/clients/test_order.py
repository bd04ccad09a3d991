"""The order that every private method keeps: look, charge, read, answer; a name is one question, a failure is blank."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.clients.base import LONGEST_NAME, BallotClient
from fedballot.clients.workspace import Workspace
from fedballot.core.folders import ClientFolder
from fedballot.datasets.examples import Examples
from fedballot.methods.registry import get_method
from fedballot.privacy.ledger import Account, Ledger
from fedballot.privacy.ledger.samples import SAMPLE
from fedballot.runs.engine import federated_data
from fedballot.settings.parts import CommonSettings
from tests.conftest import small_settings
from tests.strategies.test_fedmd import strategy_of

HEADS = {"extractor": "pca", "components": 20, "epsilon": 5.0}
WEIGHTS = {"client_models": "mlp-torch", "rounds": 2, "epochs": 1, "noise_multiplier": 1.0}
MODELS = {"queries": 50, "rounds": 2, "pretrain_epochs": 0}
RECORD, CLIENT = ("record", "replace-one"), ("client", "zero-out")

# what is asked, and the ledger of whose unit it is charged to
CASES: dict[str, tuple[str, dict[str, Any], tuple[str, str]]] = {
    "votes": ("pate-fl", {"sigma": 30}, CLIENT),
    "neighbours": ("private-knn-fl", {"sigma": 30, "extractor": "none+l2"}, RECORD),
    "logits": ("fedkd-dp", {"queries": 50}, CLIENT),
    "predictions": ("fedmd-ldp", {**MODELS, "epsilon": 50}, CLIENT),
    "class sums": ("fedauxfdp", HEADS, RECORD),
    "two heads": ("fedauxfdp", {**HEADS, "head": "logistic", "score_epsilon": 2.0}, RECORD),
    "what heads say": ("fedd-p", {**HEADS, "share": "predictions"}, RECORD),
    "heads": ("fedavg-p", HEADS, RECORD),
    "shares of class sums": ("fedauxfdp-sum", HEADS, RECORD),
    "counts": ("poll", {"cells": 5, "epsilon": 5.0}, RECORD),
    "shares of counts": ("poll", {"cells": 5, "epsilon": 5.0, "unit": "client"}, CLIENT),
    "differences": ("dp-fedavg", WEIGHTS, CLIENT),
    "noisy steps": ("dp-fedsgd", {**WEIGHTS, "rate": 1.0}, ("record", "add-remove")),
}
each = pytest.mark.parametrize("case", CASES)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "cache"))


class Asking:
    """A client with a ledger of its own that counts how often its records are read."""

    def __init__(self, method: str, given: dict[str, Any], kept: tuple[str, str], folder: Path, epsilon: float) -> None:
        self.method, self.folder = method, folder
        self.settings = small_settings(get_method(method).settings, {"clients": 4}, given)
        self.data = federated_data(self.settings)
        self.account = Account("site 0", "its records", *kept, epsilon, 1e-3)  # type: ignore[arg-type]
        self.ledger = Ledger(folder / "own", self.account)
        self.reads = 0
        self.arrays = strategy_of(self.settings, method).request(1)

    def records(self) -> Examples:
        self.reads += 1
        rows = self.data.parts[0]
        return Examples(np.asarray(self.data.private.x[rows]), np.asarray(self.data.private.y[rows]))

    def client(self, settings: CommonSettings | None = None, **changes: Any) -> BallotClient[Any]:
        workspace = Workspace(0, settings or self.settings, self.data, ClientFolder(self.folder), "cpu", self.ledger)
        return get_method(self.method).client_class(
            replace(workspace, **{"read": self.records, "version": "one", **changes})
        )

    def ask(self, one: BallotClient[Any], arrays: Any = None, **config: Any) -> tuple[list[np.ndarray], dict[str, Any]]:
        known = {"request": "run/1", "round": 1, "fingerprint": self.data.public_fingerprint, **config}
        found, number, metrics = one.fit(self.arrays if arrays is None else arrays, known)
        assert number == 1
        return found, metrics

    def kinds(self) -> list[str]:
        return [line["kind"] for line in self.ledger.lines()]


@pytest.fixture
def asking(tmp_path: Path) -> Callable[..., Asking]:
    def make(case: str, *, epsilon: float = 1e4, **changes: Any) -> Asking:
        method, given, kept = CASES[case]
        return Asking(method, {**given, **changes}, kept, tmp_path / "client", epsilon)

    return make


def fails() -> Examples:
    raise ValueError("patient 17")


@each
def test_a_name_stands_for_one_question(case: str, asking: Callable[..., Asking]) -> None:
    """Other arrays, settings, rounds, versions of the records under the same name: refused, unread, uncharged."""
    one = asking(case)
    first, metrics = one.ask(one.client())
    assert metrics["refused"] == "", metrics
    before, reads = one.ledger.path.read_bytes(), one.reads
    assert reads > 0 and one.kinds() == ["open", "charge", "release"]
    others = [
        one.ask(one.client(replace(one.settings, alpha=0.25))),
        one.ask(one.client(version="two")),
    ]
    if case != "predictions":  # a later round of that method brings other arrays
        others.append(one.ask(one.client(), round=2))
    if one.arrays:
        kind = one.arrays[0].dtype
        other = one.arrays[0][::-1].copy() if kind.kind in "iu" else one.arrays[0] + kind.type(0.01)
        others.append(one.ask(one.client(), [other, *one.arrays[1:]]))
    for arrays, metrics in others:
        assert (arrays, metrics["refused"]) == ([], "request"), metrics
        assert "used for another question" in metrics["detail"]
    assert one.ledger.path.read_bytes() == before and one.reads == reads
    # how many processes work, and on what, is no part of a question
    again, metrics = one.ask(one.client(replace(one.settings, workers=7, gpu_fraction=0.5)))
    assert [a.tobytes() for a in again] == [a.tobytes() for a in first]
    assert one.ledger.path.read_bytes() == before


@each
def test_a_failure_behind_the_charge_is_a_blank_answer(case: str, asking: Callable[..., Asking]) -> None:
    one = asking(case)
    broken = one.client(read=fails)
    blank, metrics = one.ask(broken)
    assert (metrics["refused"], metrics["detail"], broken.failed) == ("", "", True)
    assert "patient 17" not in str(metrics)
    assert one.kinds() == ["open", "charge", "release"] and one.ledger.spent() > 0
    assert json.loads(ClientFolder(one.folder).blank.read_text()) == {"what": "ValueError"}
    assert "patient 17" in (one.folder / "errors.txt").read_text()
    # once told it stays: a client that is sound again does not say something else under that name
    sound = one.client()
    again, _ = one.ask(sound)
    assert [a.tobytes() for a in again] == [a.tobytes() for a in blank] and not sound.failed and one.reads == 0
    usual, told = one.ask(one.client(), request="run/2")
    assert [(a.shape, a.dtype.kind) for a in usual] == [(a.shape, a.dtype.kind) for a in blank]
    assert metrics.keys() == told.keys()
    assert one.ledger.costs()[: len(one.ledger.costs()) // 2] == one.ledger.costs()[len(one.ledger.costs()) // 2 :]
    strategy_of(one.settings, one.method).read(blank)  # the server cannot tell it from another


@each
def test_a_client_that_dies_before_it_has_noted_how_good_it_is_notes_it_when_it_is_asked_again(
    case: str, asking: Callable[..., Asking], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        pass

    def dies(*_: Any) -> None:
        raise Died

    one = asking(case, rounds=1) if case == "differences" else asking(case)
    with monkeypatch.context() as patch, suppress(Died):
        patch.setattr(ClientFolder, "note", dies)
        one.ask(one.client())
    if one.kinds() == ["open", "charge", "release"]:
        pytest.skip("notes nothing in the first round")
    assert one.ask(one.client())[1]["refused"] == ""
    assert ClientFolder(one.folder).figures()


def test_a_blank_answer_has_the_public_number_of_records(asking: Callable[..., Asking]) -> None:
    """Counts are told without noise on their sum: by it a failure would be known for certain."""
    one = asking("class sums")
    for number, read in enumerate((one.records, fails)):
        ((told,), metrics) = one.ask(one.client(read=read), request=f"run/{number}")
        assert metrics["refused"] == "" and told[:, 0].sum() == pytest.approx(one.data.parts[0].size, abs=1)


@each
def test_a_client_without_records_answers_like_any_other(case: str, asking: Callable[..., Asking]) -> None:
    one = asking(case)
    empty = replace(one.data, parts=(one.data.parts[0][:0], *one.data.parts[1:]))
    arrays, metrics = one.ask(one.client(data=empty))
    assert metrics["refused"] == "" and arrays and one.kinds() == ["open", "charge", "release"]


@each
def test_a_budget_that_is_spent_refuses_before_anything_is_read(case: str, asking: Callable[..., Asking]) -> None:
    one = asking(case, epsilon=1e-3)
    for read in (one.records, fails):  # the same words whatever its records are
        arrays, metrics = one.ask(one.client(read=read))
        assert (arrays, metrics["refused"]) == ([], "budget")
        assert metrics["detail"] == "the client's privacy budget does not allow this release"
    assert one.reads == 0 and one.kinds() == ["open"] and not (one.folder / "errors.txt").exists()


@each
def test_a_request_without_a_name_is_refused_unread(case: str, asking: Callable[..., Asking]) -> None:
    one = asking(case)
    for name in ("", "a" * (LONGEST_NAME + 1), "two\nlines", 3):
        arrays, metrics = one.ask(one.client(read=fails), request=name)
        assert (arrays, metrics["refused"]) == ([], "request")
    assert one.kinds() == ["open"]


@pytest.mark.parametrize(
    ("method", "given", "kept"),
    [
        ("pate-fl", {"epsilon": "inf"}, CLIENT),
        ("private-knn-fl", {"epsilon": "inf", "extractor": "none+l2"}, RECORD),
        ("fedauxfdp", {**HEADS, "epsilon": "inf"}, RECORD),
        ("fedauxfdp", {**HEADS, "head": "logistic", "score_epsilon": "inf"}, RECORD),
        ("fedauxfdp", {**HEADS, "head": "logistic", "epsilon": "inf", "score_epsilon": 1.0}, RECORD),
        ("fedd-p", {**HEADS, "epsilon": "inf"}, RECORD),
        ("fedaux-f", {"extractor": "pca", "components": 20, "score_epsilon": 1.0}, RECORD),
        ("fedmd", MODELS, CLIENT),
        ("ds-fl", {"queries": 50}, CLIENT),
        ("selective-fd", {"queries": 50}, CLIENT),
        ("fedkt", {"queries": 50}, CLIENT),
        ("fedkd", {"queries": 50}, CLIENT),
        ("fedavg", {"client_models": "mlp-torch", "rounds": 1}, CLIENT),
        ("standalone", {}, CLIENT),
    ],
)
def test_a_site_lets_no_part_out_uncharged(
    method: str, given: dict[str, Any], kept: tuple[str, str], tmp_path: Path
) -> None:
    one = Asking(method, given, kept, tmp_path, 1e4)
    arrays, metrics = one.ask(one.client())
    assert (arrays, metrics["refused"]) == ([], "policy"), metrics
    assert "releases nothing uncharged" in metrics["detail"]
    assert one.reads == 0 and one.kinds() == ["open"]


@pytest.mark.parametrize("kept", [RECORD, CLIENT, ("client", "replace-one"), ("record", "add-remove")])
@each
def test_a_ledger_of_another_unit_is_never_charged(
    case: str, kept: tuple[str, str], asking: Callable[..., Asking]
) -> None:
    one = asking(case)
    one.ledger = Ledger(one.folder / "other", replace(one.account, unit=kept[0], adjacency=kept[1]))  # type: ignore[arg-type]
    arrays, metrics = one.ask(one.client())
    composition = one.client().composition(one.client().question(one.arrays, {"request": "run/1", "round": 1}))
    if kept in ((composition.unit, composition.adjacency), *composition.also):
        assert metrics["refused"] == "" and len(one.kinds()) == 3
    else:
        assert (arrays, metrics["refused"]) == ([], "policy") and "cannot be added" in metrics["detail"]
        assert one.reads == 0 and one.kinds() == ["open"]


def test_an_nfdp_sample_is_bound_and_all_else_comes_of_it(tmp_path: Path) -> None:
    """A name may stand for many questions there, for answers tell of the sample alone; but there is one sample."""
    one = Asking("fedmd-nfdp", {**MODELS, "k": 20}, ("record", "add-remove"), tmp_path, 1e4)
    one.ledger = Ledger(tmp_path / "wide", replace(one.account, delta=0.9))
    assert one.ask(one.client())[1]["refused"] == ""
    before = one.ledger.path.read_bytes()
    assert one.ledger.stored(SAMPLE) is None and len(one.ledger.stored(f"{SAMPLE} one")["sample"]) == 20
    assert one.ask(one.client(), [one.arrays[0][::-1].copy()])[1]["refused"] == ""
    for changed in ({"k": 21}, {"replacement": False}, {"min_size": 300}):
        arrays, metrics = one.ask(one.client(replace(one.settings, **changed)))
        assert (arrays, metrics["refused"]) == ([], "request")
    assert one.ledger.path.read_bytes() == before
