"""What a result is doubted for, and real small runs of uneven tables."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from fedballot.core.progress import Silent
from fedballot.methods.registry import get_method, settings_types
from fedballot.runs.doubts import doubts, few_neighbours
from fedballot.runs.results import Release, load_release, load_result
from fedballot.settings import layers
from fedballot.sim import simulate
from tests.conftest import small_settings

CLASSES = ("no", "yes", "maybe")


def measured(confusion, clients=None):
    matrix = np.asarray(confusion)
    return {
        "server_accuracy": float(matrix.trace() / matrix.sum()),
        "client_accuracy": None if clients is None else {"mean": clients, "std": 0.0},
        "server_measures": {"confusion": matrix.tolist(), "support": matrix.sum(axis=1).tolist()},
        "released_noise_sigma": 0.0,
    }


def tally(shares, queries=200, clients=10, sigma=0.0, mixed=0.0, seed=0):
    """Votes of clients of whom each answers the record's class, or at random in some cases."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(len(shares), size=queries, p=shares)
    p = (1 - mixed) * np.eye(len(shares))[truth] + mixed * np.asarray(shares)
    votes = np.stack([rng.multinomial(clients, row) for row in p])
    return Release(histogram=votes + np.rint(rng.normal(0, sigma, votes.shape)).astype(int))


GOOD = [[60, 3, 2], [2, 60, 3], [3, 2, 65]]
EVEN = tally([0.3, 0.3, 0.4])


def test_a_good_run_is_not_doubted():
    assert doubts(measured(GOOD, clients=0.9), EVEN, CLASSES) == []
    noisy = measured(GOOD, clients=0.9) | {"released_noise_sigma": 20.0}
    assert doubts(noisy, tally([0.3, 0.3, 0.4], sigma=20), CLASSES) == []


def test_a_server_that_is_worse_than_clients_alone():
    (words,) = doubts(measured([[40, 25, 0], [25, 40, 0], [0, 10, 60]], clients=0.9), EVEN, CLASSES)
    assert "worse (70.0 %) than what a client reaches alone (90.0 % on average)" in words.replace("\u202f", " ")
    assert doubts(measured(GOOD, clients=0.95), EVEN, CLASSES) == []  # within chance of 200 test records
    assert doubts(measured(GOOD), EVEN, CLASSES) == []


def test_answers_in_other_shares_than_the_votes():
    release = tally([0.98, 0.01, 0.01], queries=1000, mixed=0.02)
    (words,) = doubts(measured([[150, 50, 0], [0, 2, 0], [0, 0, 2]]), release, CLASSES)
    assert "yes is 25.5 % of its answers" in words.replace("\u202f", " ")


@pytest.mark.parametrize(("sigma", "words"), [(0.0, "no vote at all"), (3.0, "noise alone may make")])
def test_a_class_that_nobody_voted_for(sigma, words):
    release = tally([0.5, 0.5, 0.0], queries=400, sigma=sigma)
    metrics = measured([[80, 0, 20], [0, 80, 20], [0, 0, 1]]) | {"released_noise_sigma": sigma}
    found = doubts(metrics, release, CLASSES)
    assert any("answers maybe, for which" in one and words in one for one in found)
    noisier = metrics | {"released_noise_sigma": 100.0}
    assert not any("answers maybe" in one for one in doubts(noisier, tally([0.5, 0.5, 0], sigma=100), CLASSES))


@pytest.mark.parametrize("sigma", [0.0, 2.0])
def test_votes_that_agree_no_more_than_chance(sigma):
    metrics = measured(GOOD) | {"released_noise_sigma": sigma}
    (words,) = doubts(metrics, tally([0.3, 0.3, 0.4], queries=2000, sigma=sigma, mixed=0.95), CLASSES)
    assert "agree hardly more than chance" in words
    assert doubts(metrics, tally([0.3, 0.3, 0.4], queries=2000, sigma=sigma, mixed=0.5), CLASSES) == []
    # a vote of weight w has w^2 of its own in the sum of squares, not w
    light = tally([0.3, 0.3, 0.4], queries=2000, clients=40, mixed=0.7)
    weighed = Release(histogram=light.histogram / 8)
    noise = {"released_noise_sigma": 0.0}
    assert doubts(measured(GOOD) | noise, light, CLASSES) == []
    assert doubts(measured(GOOD) | noise | {"vote_weight": 1 / 8}, weighed, CLASSES) == []
    assert any("agree hardly" in words for words in doubts(measured(GOOD) | noise, weighed, CLASSES))
    drowned = metrics | {"released_noise_sigma": 300.0}
    assert doubts(drowned, tally([0.3, 0.3, 0.4], queries=100, sigma=300, mixed=0.95), CLASSES) == []


def run(data: dict[str, np.ndarray], out: Path, **values: object) -> dict[str, object]:
    """A run of PATE-FL on this machine."""
    path = out / "table.npz"
    np.savez(path, **data)
    base = {
        "dataset": str(path),
        "private_size": 700,
        "public_size": 500,
        "test_size": 400,
        "clients": 5,
        "min_clients": 5,
        "client_models": "logistic-regression",
        "server_model": "random-forest",
        "abstain": False,
        "vote_fraction": 1.0,
        "workers": 1,
        "device": "cpu",
        "noise_seed": 1,
    }
    settings = layers.resolve("pate-fl", settings_types(get_method("pate-fl")), values=base | values)
    return simulate("pate-fl", settings, out / "run", resume=False, progress=Silent())


@pytest.fixture(scope="module")
def rare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on digits of which 1 % are threes, against the rest."""
    out = tmp_path_factory.mktemp("rare")
    x, y = load_digits(return_X_y=True)
    chosen = (y != 3) | (np.cumsum(y == 3) <= 16)
    run({"x": (x[chosen] / 16).astype(np.float32), "y": (y[chosen] == 3).astype(int)}, out, epsilon=20.0)
    return out / "run"


def test_a_rare_class_stays_rare_in_a_real_run_and_the_measures_show_it(rare):
    result, release = load_result(rare), load_release(rare)
    metrics = result["metrics"]
    assert metrics["label_accuracy"] > 0.97 > metrics["noisy_label_accuracy"]
    assert metrics["server_accuracy"] > 0.97
    assert release.labels is not None and release.labels.mean() < 0.03  # it was a quarter to a half
    measures = metrics["server_measures"]
    assert sum(measures["support"]) == 400 and np.sum(measures["confusion"]) == 400
    assert measures["recall_per_class"] == metrics["server_accuracy_per_class"]
    assert 0 <= measures["calibration_error"] <= 1 and measures["auc"] is not None
    assert set(metrics["client_measures"]) == {"balanced_accuracy", "macro_f1"}
    assert not any("other shares" in words for words in result["warnings"])
    json.dumps(result, allow_nan=False)


@pytest.mark.parametrize("alike", [True, False])
def test_a_pool_of_nothing_alike_is_doubted(tmp_path, alike):
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    pool = x if alike else 1 - x  # black on white
    data = {"x_train": x[:900], "y_train": y[:900], "x_test": pool[900:], "y_test": y[900:]}
    apart = {"partition": "classes-per-client", "classes_per_client": 4, "public_size": 400, "test_size": 300}
    result = run(data, tmp_path, epsilon="inf", noise_seed=None, client_models="random-forest", **apart)
    assert any("agree hardly" in words for words in result["warnings"]) != alike
    assert not alike or result["warnings"] == []


def test_neighbours_that_clients_do_not_have_are_told():
    models, sizes = ("knn", "knn(n_neighbors=50)", "mlp", "knn(n_neighbors=50)"), [3, 40, 3, 60, 3, 70, 3, 20]
    (words,) = few_neighbours(models, sizes)
    assert words.startswith("client_models=knn(n_neighbors=50): n_neighbors=50 is more than the records of 2 of the 4 ")
    assert "(the smallest holds 20)" in words
    assert few_neighbours(models, [60] * 8) == [] == few_neighbours(models, [0] * 8)  # sites keep their numbers


@pytest.mark.parametrize("method", ["pate-fl", "standalone", "centralized"])
def test_a_simulation_tells_of_neighbours_that_are_not_there(tmp_path, method):
    many = {"client_models": "knn(n_neighbors=100)"} if method != "centralized" else {"server_model": "knn"}
    settings = small_settings(get_method(method).settings, {**many, "clients": 10, "workers": 1})
    result = simulate(method, settings, tmp_path / "r", resume=False, progress=Silent())
    assert [words.partition(":")[0] for words in result["warnings"] if "neighbours" in words] == [
        "client_models=knn(n_neighbors=100)"
    ] * (method != "centralized")
