"""The median and the trimmed mean in place of the mean: one client that says anything moves none of the consensus."""

from dataclasses import replace

import numpy as np
import pytest

from fedballot.core.errors import SettingsError
from fedballot.core.progress import Silent
from fedballot.methods.registry import all_methods, get_method
from fedballot.runs.engine import federated_data, new_strategy
from fedballot.settings.fedkd import FedkdSettings
from fedballot.settings.fedmd import FedmdSettings
from fedballot.settings.robust import RobustAggregation
from fedballot.settings.weights import FedavgSettings
from fedballot.strategies.base import Answer
from tests.conftest import small_settings

HOW = [("median", {}), ("trimmed-mean", {"trim": 2})]


def server(name, kind, how, **given):
    changes = {"clients": 5, "min_clients": 5, "weights": "equal", "aggregation": how, **given}
    settings = small_settings(kind, changes)
    data = federated_data(settings)
    return new_strategy(get_method(name), settings, data, request_id="run", progress=Silent())


def answers_of(shape, loud, seed=0):
    ballots = np.random.default_rng(seed).normal(size=(5, *shape)).astype(np.float32)
    ballots[1] = loud
    return [Answer(client, ballot, 0.0, 0.0) for client, ballot in enumerate(ballots)]


@pytest.mark.parametrize(("how", "more"), HOW)
def test_the_consensus_of_logits(how, more):
    fedmd = server("fedmd", FedmdSettings, how, share="logits", **more)
    fedkd = server("fedkd", FedkdSettings, how, gamma=np.inf, **more)
    found = []
    for loud in (50.0, 1e9):
        answers = answers_of(fedmd.shape, loud)
        fedmd.combine(1, answers)
        found.append(fedmd.consensus)
        counts = np.ones((1, 10), np.float32)
        told = answers_of(fedkd.shape, loud)
        found.append(fedkd.average([replace(one, ballot=np.vstack([counts, one.ballot])) for one in told]))
    assert np.array_equal(found[0], found[2]) and np.array_equal(found[1], found[3])
    assert np.abs(found[0]).max() < 6


@pytest.mark.parametrize(("how", "more"), HOW)
def test_a_consensus_of_probabilities_holds_probabilities(how, more):
    fedmd = server("fedmd", FedmdSettings, how, share="softmax", **more)
    rows = np.random.default_rng(0).dirichlet(np.ones(10), size=(5, fedmd.shape[0]))
    rows[:, 0] = np.eye(10)[:5]  # each sure of another class
    fedmd.combine(1, [Answer(client, ballot, 0.0, 0.0) for client, ballot in enumerate(rows)])
    assert np.allclose(fedmd.consensus.sum(axis=1), 1) and fedmd.consensus.min() >= 0


@pytest.mark.parametrize(("how", "more"), HOW)
def test_weights_move_no_further_than_the_others(how, more):
    fedavg = server("fedavg", FedavgSettings, how, client_models="linear-torch", **more)
    answers = answers_of(fedavg.weights.shape, 1e6)
    found = fedavg.averaging().of(answers)
    others = np.stack([one.ballot for one in answers if one.client_id != 1])
    assert (found <= others.max(axis=0) + 1e-6).all() and (found >= others.min(axis=0) - 1e-6).all()


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (FedkdSettings, {"aggregation": "median"}, "set weights=equal"),
        (FedmdSettings, {"aggregation": "median", "share": "argmax"}, "share=softmax"),
        (FedmdSettings, {"aggregation": "trimmed-mean", "share": "softmax", "clients": 4, "trim": 2}, "half of them"),
        (FedavgSettings, {"aggregation": "trimmed-mean", "clients": 10, "participation": 0.2}, "leaves none of 2"),
    ],
)
def test_what_cannot_work_is_refused(kind, given, message):
    with pytest.raises(SettingsError, match=message):
        small_settings(kind, given)


def test_only_methods_whose_server_sees_every_answer_have_it():
    known = {one.name for one in all_methods().values() if issubclass(one.settings, RobustAggregation)}
    assert known == {"fedkd", "fedmd", "fedavg", "fedprox", "fedavgm"}
