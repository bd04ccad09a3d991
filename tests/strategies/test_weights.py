"""Weights on Flower's own server loop, with real clients in this process: averages, cohorts, checkpoints, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.strategy import FedAvgM
from flwr.server.strategy.aggregate import aggregate

from fedballot.core.errors import RunError, SettingsError
from fedballot.core.files import read_arrays
from fedballot.core.setting import build
from fedballot.distillation.aggregation import VectorMean, momentum_step
from fedballot.learners.flat import flatten, unflatten
from fedballot.learners.objectives import Proximal
from fedballot.runs.engine import federated_data
from fedballot.settings.weights import FedavgmSettings, FedavgSettings, ProxSettings
from fedballot.strategies.base import Answer
from tests.conftest import fitting
from tests.strategies.test_fedmd import run, strategy_of

DIGITS = {
    "dataset": "digits",
    "clients": 4,
    "private_size": 400,
    "public_size": 200,
    "test_size": 200,
    "client_models": "mlp-torch",
    "server_model": "mlp-torch",
    "rounds": 4,
    "epochs": 3,
    "batch_size": 16,
    "lr": 5e-3,
}


def settings(**over) -> FedavgSettings:
    return build(FedavgSettings, fitting(FedavgSettings, DIGITS), over)


def mean(vectors, weights) -> np.ndarray:
    one = VectorMean()
    for vector, weight in zip(vectors, weights, strict=True):
        one.add(vector, weight)
    return one.value()


def test_the_average_is_flowers_own_and_one_by_hand():
    generator = np.random.default_rng(0)
    vectors, sizes = generator.normal(size=(5, 7)).astype(np.float32), [3, 1, 4, 1, 5]
    flowers = aggregate([([v], n) for v, n in zip(vectors, sizes, strict=True)])[0]
    np.testing.assert_allclose(mean(vectors, sizes), flowers, rtol=1e-6)
    np.testing.assert_allclose(mean([np.zeros(2), np.ones(2)], [1.0, 3.0]), [0.75, 0.75])


@pytest.mark.parametrize("weights", [[], [0.0], [-1.0], [np.nan]])
def test_an_average_of_nothing_is_refused(weights):
    with pytest.raises(ValueError):
        mean([np.zeros(2)] * len(weights), weights)


def test_a_vector_becomes_the_same_arrays_again():
    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((0,), np.float32), np.ones((4,), np.float32)]
    back = unflatten(flatten(arrays), [a.shape for a in arrays])
    assert all(np.array_equal(a, b) for a, b in zip(arrays, back, strict=True))


def test_fedavg_learns_and_a_resumed_run_ends_as_an_uninterrupted_one(tmp_path):
    strategy, result = run("fedavg", settings(), tmp_path / "a")
    accuracies = [record["metrics"]["server_accuracy"] for record in result["rounds"]]
    assert accuracies[-1] > 0.75, accuracies  # measured .87 to .92
    assert result["guarantees"][0]["epsilon"] is None and result["guarantees"][0]["status"] == "none"

    def stop(client_id: int, number: int) -> None:
        if number == 3:
            raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, RunError)):
        run("fedavg", settings(), tmp_path / "b", stop)
    kept = read_arrays(tmp_path / "b" / "checkpoint.npz")
    assert not np.array_equal(kept["weights"], strategy.weights)
    resumed, again = run("fedavg", settings(), tmp_path / "b", resume=True)
    assert np.array_equal(resumed.weights, strategy.weights)
    assert again["metrics"] == result["metrics"]


def test_a_cohort_of_half_answers_in_half_precision(tmp_path):
    whole = settings(participation=0.5, precision="float16", rounds=6)
    strategy, result = run("fedavg", whole, tmp_path)
    assert [record["answered"] for record in result["rounds"]] == [2] * 6
    assert result["metrics"]["server_accuracy"] > 0.75
    assert result["communication"]["bytes_up"] == pytest.approx(12 * 2 * strategy.weights.size, rel=0.02)


def test_the_server_can_rebuild_each_clients_model():
    strategy = strategy_of(settings(), "fedavg")
    x = federated_data(settings()).test_x[:20]
    step = np.full(strategy.weights.size, 0.01, np.float32)
    first, second = strategy.client_logits([Answer(0, 0 * step, 0, 0), Answer(1, step, 0, 0)], x)
    np.testing.assert_array_equal(first, strategy.load(strategy.new_learner(0), strategy.weights).predict_logits(x))
    np.testing.assert_array_equal(
        second, strategy.load(strategy.new_learner(0), strategy.weights + step).predict_logits(x)
    )


def test_size_weights_count_records():
    strategy = strategy_of(settings(weights="size", partition="dirichlet"), "fedavg")
    sizes = [strategy.data.parts[client_id].size for client_id in (0, 1)]
    ones = np.ones(strategy.weights.size, np.float32)
    mean = strategy.averaging().of([Answer(0, ones, 0, 0), Answer(1, 3 * ones, 0, 0)])
    np.testing.assert_allclose(mean, (sizes[0] + 3 * sizes[1]) / sum(sizes))


@pytest.mark.parametrize("model", ["cnn", "logistic-regression", "random-forest"])
def test_batch_norm_and_scikit_learn_are_refused_with_what_works(model):
    with pytest.raises(SettingsError, match="cnn-small, cnn-gn, resnet8-gn, mlp-torch, linear-torch"):
        strategy_of(settings(client_models=model), "fedavg")


def test_one_kind_of_model_only():
    with pytest.raises(SettingsError, match="client_models=mlp-torch,cnn-small"):
        strategy_of(settings(client_models="mlp-torch,cnn-small"), "fedavg")


def test_momentum_is_flowers_own():
    generator = np.random.default_rng(1)
    start, steps = generator.normal(size=6), generator.normal(size=(3, 6))
    flower = FedAvgM(initial_parameters=ndarrays_to_parameters([start]), server_momentum=0.7, server_learning_rate=0.5)
    mine, velocity, theirs = start, np.zeros(6), start
    for number, step in enumerate(steps, start=1):
        velocity = momentum_step(velocity, step, 0.7)
        mine = mine + 0.5 * velocity
        reply = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([theirs + step]), 1, {})
        theirs = parameters_to_ndarrays(flower.aggregate_fit(number, [(None, reply)], [])[0])[0]
        flower.initial_parameters = ndarrays_to_parameters([theirs])
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


@pytest.mark.parametrize(("method", "kind"), [("fedprox", ProxSettings), ("fedavgm", FedavgmSettings)])
def test_the_kin_of_fedavg_learn(method, kind, tmp_path):
    over = {"mu": 1.0} if method == "fedprox" else {"momentum": 0.5}
    _, result = run(method, build(kind, fitting(kind, DIGITS), over), tmp_path)
    assert result["metrics"]["server_accuracy"] > 0.7
    assert result["guarantees"][0]["status"] == "none"


def test_a_strong_proximal_term_keeps_a_client_near_the_servers_weights():
    moved = []
    for mu in (0.0, 10.0):
        learner = strategy_of(settings(), "fedavg").new_learner(0)
        start = flatten(learner.get_weights())
        data = federated_data(settings())
        learner.fit(data.public_x, data.public_y, epochs=3, objective=Proximal(learner.get_weights(), mu))
        moved.append(np.linalg.norm(flatten(learner.get_weights()) - start))
    assert moved[1] < 0.5 * moved[0]
