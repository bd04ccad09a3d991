"""What a run of one round keeps before its server learns, and what becomes of it when the server dies meanwhile."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flwr.common import Context

from fedballot.clients.pate import PateClient
from fedballot.core.errors import RunError, SettingsError
from fedballot.core.files import read_arrays, read_json
from fedballot.core.progress import Silent
from fedballot.core.setting import build, names_of
from fedballot.methods.registry import get_method
from fedballot.runs.engine import federated_data, make_client
from fedballot.runs.run_config import client_number
from fedballot.strategies.one_shot import OneShotStrategy, measured
from tests.conftest import SMALL
from tests.inprocess import run_here

FOUR = {**SMALL, "clients": 4, "public_size": 120, "server_epochs": 2}
MASKED = {"secure_aggregation": True, "min_clients": 3}
VOTES = {"epsilon": 40.0, "sigma": 4.0}
LOGITS = {"queries": 50, "epsilon": 1000.0}
SUMS = {"extractor": "pca", "components": 20, "epsilon": 5.0}
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "votes": ("pate-fl", VOTES, "total"),
    "votes under masks": ("pate-fl", VOTES | MASKED, "total"),
    "logits": ("fedkd", {"queries": 50}, "consensus"),
    "noisy logits": ("fedkd-dp", LOGITS, "total"),
    "noisy logits under masks": ("fedkd-dp", LOGITS | MASKED, "total"),
    "class sums": ("fedauxfdp", SUMS, "soft_labels"),
    "shares of class sums under masks": ("fedauxfdp-sum", SUMS | MASKED, "total"),
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "cache"))


class Broken:
    """A student that cannot be trained."""

    def __init__(self, *args: Any, **given: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        raise MemoryError("the student")


def never(context: Any) -> Any:
    raise AssertionError("a client was asked again")


def of(method: str, given: dict[str, Any]) -> Any:
    kind = get_method(method).settings
    common = {name: value for name, value in FOUR.items() if name in names_of(kind)}
    return build(kind, common, {"noise_seed": 1} | given)


def ledgers(out: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(out.glob("clients/*/ledger/ledger.jsonl"))]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_run_that_dies_while_its_student_trains_goes_on_from_what_it_has_kept(
    case: tuple[str, dict[str, Any], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, given, kept = case
    settings, out = of(method, given), tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(OneShotStrategy, "new_student", Broken)
        with pytest.raises(RunError, match=r"MemoryError: the student. Their answers are kept: go on with --resume"):
            run_here(method, settings, out)
    assert read_json(out / "result.json")["status"] == "failed" and (out / "checkpoint.npz").exists()
    checkpoint, charged = (out / "checkpoint.npz").read_bytes(), ledgers(out)
    result = run_here(method, settings, out, resume=True, client=never)
    assert result["status"] == "done" and result["clients"] == {
        "asked": 4,
        "answered": 4,
        "rejected": {},
        "first_details": {},
    }
    assert (out / "checkpoint.npz").read_bytes() == checkpoint and ledgers(out) == charged
    # it ends as one that nothing has happened to
    whole = run_here(method, settings, tmp_path / "whole")
    same = [read_arrays(path / "checkpoint.npz")[kept] for path in (out, tmp_path / "whole")]
    assert np.array_equal(*same) and same[0].any()
    assert result["metrics"] == whole["metrics"] and result["guarantees"] == whole["guarantees"]
    assert result["rounds"][0]["metrics"] == whole["rounds"][0]["metrics"]


def test_a_run_whose_server_model_fails_late_is_finished_with_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, out = of("pate-fl", VOTES), tmp_path / "run"
    other = dataclasses.replace(settings, server_model="knn(n_neighbors=3)")
    with monkeypatch.context() as patch:
        patch.setattr(OneShotStrategy, "new_student", Broken)
        with pytest.raises(RunError, match=r"\(logistic-regression\): MemoryError.* --set server_model=ANOTHER"):
            run_here("pate-fl", settings, out)
    checkpoint, charged = (out / "checkpoint.npz").read_bytes(), ledgers(out)
    with pytest.raises(SettingsError, match="settings differ from the run's own: epsilon"):
        run_here("pate-fl", dataclasses.replace(other, epsilon=41.0), out, resume=True)
    with pytest.raises(SettingsError, match="settings differ from the run's own: server_epochs"):
        run_here("pate-fl", dataclasses.replace(other, server_epochs=3), out, resume=True)
    result = run_here("pate-fl", other, out, resume=True, client=never)
    assert (out / "checkpoint.npz").read_bytes() == checkpoint and ledgers(out) == charged and len(charged) == 4
    # it is what a run with the other model from the start would have been
    whole = run_here("pate-fl", other, tmp_path / "whole")
    assert result["metrics"] == whole["metrics"] and result["guarantees"] == whole["guarantees"]
    # and says what has happened
    (change,) = result["changed"]
    assert {**change, "when": ""} == {
        "setting": "server_model",
        "from": "logistic-regression",
        "to": "knn(n_neighbors=3)",
        "when": "",
    }
    assert result["settings"]["server_model"] == "knn(n_neighbors=3)"
    assert any("server_model was 'logistic-regression' when clients were asked" in line for line in result["warnings"])
    assert read_json(out / "run.json")["changed"] == [change] and "changed" not in whole
    # a run that is done stays what it is
    with pytest.raises(SettingsError, match="settings differ from the run's own: server_model"):
        run_here("pate-fl", settings, out, resume=True)


def test_before_all_have_answered_the_server_model_stays(tmp_path: Path) -> None:
    settings, out = of("pate-fl", VOTES), tmp_path / "run"

    def gone(context: Context) -> Any:
        raise OSError("no client")

    with pytest.raises(RunError, match="only 0 of 4 clients"):
        run_here("pate-fl", settings, out, client=gone)
    with pytest.raises(SettingsError, match="settings differ from the run's own: server_model"):
        run_here("pate-fl", dataclasses.replace(settings, server_model="knn"), out, resume=True)


class Misnamed(PateClient):
    """Gives its votes another name than the composition does."""

    def exact(self, question: Any) -> dict[str, Any]:
        return {"ballots": super().exact(question)["votes"]}


def test_a_run_whose_answers_lack_a_part_of_the_composition_ends_in_words(tmp_path: Path) -> None:
    """Every client answers blank then, which looks like any other answer: the server must not learn from it."""
    settings, out = of("pate-fl", VOTES), tmp_path / "run"

    def client(context: Context) -> Misnamed:
        return Misnamed(make_client("pate-fl", settings, out / "clients", client_number(context)).workspace)

    with pytest.raises(RunError, match="the work of 4 clients failed behind their charge"):
        run_here("pate-fl", settings, out, client=client)
    words = (out / "clients" / "00000" / "errors.txt").read_text()
    assert "the composition names a part 'votes', which the answer lacks" in words
    assert not (out / "checkpoint.npz").exists()


def test_scores_of_other_records_are_refused_in_words() -> None:
    data = federated_data(of("pate-fl", VOTES))
    scores = np.zeros((len(data.test_y), 10))
    assert measured(data, scores)["server_accuracy"] == np.mean(data.test_y == 0)
    with pytest.raises(ValueError, match=f"scored 7 records: give scores of the {len(scores)} test records"):
        measured(data, scores[:7])


class Watched(Silent):
    def __init__(self) -> None:
        self.stages: list[tuple[str, int]] = []
        self.done: list[int] = []

    def start(self, label: str, total: int) -> None:
        self.stages.append((label, total))
        self.done.clear()

    def advance(self, steps: int = 1) -> None:
        self.done.append(steps)


def test_models_that_take_steps_of_their_own_fill_one_bar() -> None:
    watched = Watched()
    advance = OneShotStrategy.steps(SimpleNamespace(progress=watched), "server: student", 6, 2)  # type: ignore[arg-type]
    for done, of in ((1, 3), (2, 3), (3, 3), (1, 1)):  # a network of three epochs, then an estimator in one go
        advance(done, of)
    assert watched.stages == [("server: student", 12)]
    assert watched.done == [2, 2, 2, 6]


@pytest.mark.parametrize("case", ["logits", "class sums", "votes"])
def test_the_servers_training_is_shown_to_its_end(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    method, given, _ = CASES[case]
    watched = Watched()
    monkeypatch.setattr("tests.inprocess.Silent", lambda: watched)
    run_here(method, of(method, given), tmp_path / "run")
    label, total = watched.stages[-1]
    assert label.startswith("server: ") and sum(watched.done) == total > 0
