"""A frontier: the same number of trials for every method, chosen by one seed and measured by others, resumable."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fedballot.api.frontiers import searched
from fedballot.core.errors import SettingsError
from fedballot.core.files import read_json, write_json
from fedballot.core.setting import build
from fedballot.methods.registry import all_methods
from fedballot.settings.weights import FedavgSettings
from fedballot.studies.frontier import best_of, draw_trials, explore
from tests.command import fedballot
from tests.conftest import fitting
from tests.strategies.test_fedmd import run as run_here

DIGITS = {
    "dataset": "digits",
    "clients": 6,
    "private_size": 900,
    "public_size": 200,
    "test_size": 300,
    "client_models": "linear-torch",
    "rounds": 3,
    "epochs": 2,
    "lr": "5e-3",
    "batch_size": 16,
    "workers": 2,
}


def test_trials_begin_with_the_preset_and_are_the_same_for_the_same_seed():
    space = {"clip": ("1", "2"), "rounds": ("3", "4", "5")}
    drawn = draw_trials(space, 4, 0)
    assert drawn[0] == {} and len(drawn) == 4 == len({tuple(one.items()) for one in drawn})
    assert drawn == draw_trials(space, 4, 0) != draw_trials(space, 4, 1)
    assert len(draw_trials(space, 100, 0)) == 7
    assert draw_trials({}, 5, 0) == [{}]


def test_the_best_trial_is_the_first_of_equals_and_failures_do_not_count():
    assert best_of([({"a": "1"}, 0.5), ({"a": "2"}, 0.7), ({"a": "3"}, 0.7), ({"a": "4"}, None)]) == {"a": "2"}
    with pytest.raises(SettingsError, match="every trial"):
        best_of([({}, None)])
    with pytest.raises(SettingsError, match=r"every trial of the search failed: digits\.npz: no such file"):
        best_of([({}, None)], ["digits.npz: no such file"])


@pytest.mark.parametrize(
    "method", [method for method in all_methods().values() if method.search], ids=lambda one: one.name
)
def test_what_is_searched_can_be_set(method):
    for values in draw_trials(method.search, 1000, 0):
        build(method.settings, values)


def test_what_is_given_is_not_searched():
    method = all_methods()["dp-fedavg"]
    given = {"optimizer": "adamw", "client-models": "mlp-torch", "dataset": "digits"}
    assert {*searched(method, given)} == {*method.search} - {"optimizer", "client_models"}
    assert searched(method, {}) == method.search


def test_the_search_has_a_seed_of_its_own(tmp_path):
    """Runs are replaced by results whose accuracy is known: what is asked for is what is tested."""
    _, real = run_here(
        "fedavg", build(FedavgSettings, fitting(FedavgSettings, DIGITS), {"rounds": 1}), tmp_path / "real"
    )
    asked: list[dict[str, str]] = []

    def run(method, points):
        for point in points:
            asked.append(dict(point.values))
            accuracy = 0.9 if point.values.get("clip") == "2" else 0.5
            metrics = {"server_accuracy": accuracy + 0.01 * int(point.values["seed"])}
            write_json(point.folder / "result.json", {**real, "metrics": metrics})
        return {}

    spot = explore("dp-fedavg", "2", [{}, {"clip": "2"}], [5, 6, 7], tmp_path, run)
    assert asked[:2] == [{"epsilon": "2", "seed": "5"}, {"epsilon": "2", "clip": "2", "seed": "5"}]
    assert [one["seed"] for one in asked[2:]] == ["6", "7"] and spot.chosen == {"clip": "2"}
    assert spot.measured.accuracy == pytest.approx(0.965) and spot.measured.seeds == 2
    assert [accuracy for _, accuracy in spot.tried] == pytest.approx([0.55, 0.95])


def _frontier(out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    words = [part for key, value in DIGITS.items() for part in ("--set", f"{key}={value}")]
    return fedballot("frontier", "--out", out, *words, *more)


def test_what_cannot_work_is_told_before_the_first_run(tmp_path):
    for more, said in (
        (("--methods", "fedavg"), "no epsilon"),
        (("--methods", "dp-fedavg", "--set", "nothing=1"), "--set nothing"),
        (("--methods", "dp-fedavg", "--epsilon", "-1"), "epsilon"),
        (("--methods", ""), "--methods '': names a value twice, or none"),
        (("--methods", "dp-fedavg,dp-fedavg"), "names a value twice"),
        (("--methods", "dp-fedavg", "--epsilon", "1,1"), "--epsilon '1,1'"),
        (("--methods", "dp-fedavg", "--set", "epsilon=3"), "--set epsilon=3: a frontier's budgets"),
        (("--methods", "dp-fedavg", "--set", "dataset=gone.csv"), "gone.csv: no such file or folder"),
        (("--methods", "dp-fedavg", "--set", "dataset=digit"), "dataset: 'digit' is unknown; did you mean 'digits'?"),
    ):
        ended = _frontier(tmp_path / "f", *more)
        assert ended.returncode == 2 and said in ended.stderr, ended.stderr
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize(
    ("name", "words"), [("frontier.json", "none of fedballot's files"), ("run.json", "holds a single run")]
)
def test_a_folder_of_something_else_is_left_as_it_is(name, words, tmp_path):
    (tmp_path / name).write_text("mine")
    ended = _frontier(tmp_path, "--methods", "dp-fedavg", "--epsilon", "2000", "--trials", "1", "--seeds", "1")
    assert ended.returncode == 2 and words in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name] and (tmp_path / name).read_text() == "mine"


@pytest.mark.slow
def test_weights_on_the_real_engine_and_a_frontier_that_goes_on_where_it_stopped(tmp_path):
    """One run of the family, by way of the command that compares methods."""
    asked = ("--methods", "dp-fedavg", "--epsilon", "2000", "--ceiling", "", "--trials", "1", "--seeds", "1")
    ended = _frontier(tmp_path / "f", *asked, "--set", "clip=10")
    assert ended.returncode == 0, ended.stderr
    (spot,) = read_json(tmp_path / "f" / "frontier.json")["spots"]
    assert spot["measured"]["accuracy"] > 0.35, spot  # chance is .1; with other draws of the noise .57 and more
    assert spot["measured"]["epsilon"] == pytest.approx(2000, rel=0.02)
    assert (tmp_path / "f" / "frontier.png").stat().st_size > 5000
    again = _frontier(tmp_path / "f", *asked, "--set", "clip=10")
    assert again.returncode == 0 and "was done" in again.stderr
