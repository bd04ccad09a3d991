"""FedDF: the average of the weights learns from the ensemble of the clients' models."""

from __future__ import annotations

import numpy as np
import pytest

from fedballot.learners.flat import flatten
from fedballot.methods.registry import get_method
from fedballot.runs.engine import federated_data, new_strategy
from fedballot.settings.weights import FeddfSettings
from fedballot.strategies.base import Answer
from tests.conftest import small_settings

pytest.importorskip("torch")
CHANGES = {"client_models": "mlp-torch", "clients": 2, "rounds": 1, "server_epochs": 10}


def strategy(method="feddf", **changes):
    settings = small_settings(FeddfSettings, CHANGES, changes)
    data = federated_data(settings)
    return new_strategy(get_method(method), settings, data, request_id="r")


def trained(server, labels, stream):
    """A client's answer: the difference to the weights of a model trained on the public pool with these labels."""
    learner = server.load(server.new_learner(stream), server.weights)
    learner.fit(server.data.public_x, labels, epochs=20)
    return Answer(stream, flatten(learner.get_weights()) - server.weights, 0.0, 0.0)


def accuracy(server) -> float:
    logits = server.load(server.new_learner(0), server.weights).predict_logits(server.data.test_x)
    return float(np.mean(logits.argmax(axis=1) == server.data.test_y))


def test_two_models_that_do_not_average_well_are_fused_by_distillation():
    found = {}
    for method in ("fedavg", "feddf"):
        server = strategy(method)
        y = server.data.public_y
        # each model knows half of the classes and calls everything else by the nearest of its own
        halves = [np.where(y < 5, y, y - 5), np.where(y >= 5, y, y + 5)]
        answers = [trained(server, labels, number) for number, labels in enumerate(halves)]
        server.combine(1, answers)
        found[method] = server
    assert not np.array_equal(found["feddf"].weights, found["fedavg"].weights)
    assert found["feddf"].guarantees()[0].status == "none"


def test_without_epochs_it_is_fedavg_and_with_them_the_ensemble_s_labels_are_learnt():
    plain, still, fused = strategy("fedavg"), strategy(server_epochs=0), strategy()
    y = plain.data.public_y
    for server in (plain, still, fused):
        server.combine(1, [trained(server, y, number) for number in (0, 1)])
    assert np.array_equal(plain.weights, still.weights)
    assert accuracy(fused) > 0.8  # .9 seen
