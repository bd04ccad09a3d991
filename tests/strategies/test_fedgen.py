"""FedGen on Flower's server loop with clients in this process: what is sent, learnt, kept and refused."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
from flwr.common import ndarrays_to_parameters

from fedballot.clients.fedgen import FedgenClient
from fedballot.clients.workspace import Refusal, Workspace
from fedballot.core.errors import RunError, SettingsError
from fedballot.core.files import read_arrays
from fedballot.core.folders import ClientFolder
from fedballot.core.setting import build
from fedballot.learners import latent
from fedballot.runs.engine import federated_data, make_client
from fedballot.runs.run_config import client_number
from fedballot.settings.weights import FedgenSettings
from fedballot.strategies.base import Answer
from fedballot.wire.packing import WireError, payload_bytes
from tests.conftest import fitting
from tests.inprocess import run_here
from tests.strategies.test_fedmd import strategy_of
from tests.strategies.test_weights import DIGITS


def settings(**over) -> FedgenSettings:
    return build(FedgenSettings, fitting(FedgenSettings, DIGITS), over)


def answer(server, client_id: int, counts) -> Answer:
    step = np.random.default_rng(client_id).normal(0, 0.05, server.weights.size).astype(np.float32)
    return Answer(client_id, server.read([step, np.asarray(counts, dtype=np.int32)]), 0.0, 0.0)


def test_it_learns_its_generator_too_and_a_resumed_run_ends_as_an_uninterrupted_one(tmp_path):
    one = settings()
    result = run_here("fedgen", one, tmp_path / "a")
    losses = [record["metrics"]["generator_loss"] for record in result["rounds"]]
    assert result["metrics"]["server_accuracy"] > 0.75  # .88 to .89 seen
    assert losses[-1] < losses[0] < np.log(10)
    guarantee = result["guarantees"][0]
    assert guarantee["status"] == "none" and "class counts" in guarantee["mechanism"]
    assert "exact number of its records of each class" in result["warnings"][0]

    calls = count()

    def dies(context):
        if next(calls) >= 9:  # in the third round
            raise KeyboardInterrupt
        return make_client("fedgen", one, tmp_path / "b" / "clients", client_number(context))

    with pytest.raises((KeyboardInterrupt, RunError)):
        run_here("fedgen", one, tmp_path / "b", client=dies)
    kept = read_arrays(tmp_path / "b" / "checkpoint.npz")
    whole = read_arrays(tmp_path / "a" / "checkpoint.npz")
    assert not np.array_equal(kept["generator"], whole["generator"])
    again = run_here("fedgen", one, tmp_path / "b", resume=True)
    resumed = read_arrays(tmp_path / "b" / "checkpoint.npz")
    assert all(np.array_equal(resumed[name], whole[name]) for name in ("weights", "generator", "shares"))
    assert again["metrics"] == result["metrics"]


def test_clients_of_a_single_class_each_and_no_counts(tmp_path):
    over = {"partition": "classes-per-client", "classes_per_client": 1, "clients": 10, "rounds": 3, "min_clients": 10}
    over["generator_steps"] = 20
    result = run_here("fedgen", settings(label_counts=False, **over), tmp_path)
    assert result["status"] == "done" and result["warnings"] == []
    assert result["guarantees"][0]["mechanism"] == "Weights without noise"
    assert np.isfinite(result["rounds"][-1]["metrics"]["generator_loss"])


def test_the_first_round_is_fedavgs_and_later_ones_carry_the_generator():
    for told, more in ((True, 10), (False, 0)):
        server = strategy_of(settings(label_counts=told), "fedgen")
        (first,), later = server.request(1), server.request(2)
        assert np.array_equal(first, server.weights) and later[1] is server.generator
        assert sum(each.size for each in later) == server.weights.size + server.generator.size + more
        sent = payload_bytes(ndarrays_to_parameters(later).tensors)
        assert sent >= 4 * (server.weights.size + server.generator.size + more)


def test_labels_come_in_the_clients_shares_and_a_class_that_nobody_has_never():
    server = strategy_of(settings(generator_steps=5), "fedgen")
    one, other = np.zeros(10), np.zeros(10)
    one[2], other[2], other[7] = 30, 10, 60
    answers = [answer(server, 0, one), answer(server, 1, other)]
    before = server.weights.copy()
    after = server.update(1, answers)
    np.testing.assert_allclose(server.shares, np.bincount([2, 7], [0.4, 0.6], minlength=10), rtol=1e-6)
    steps = np.mean([each.ballot[: before.size] for each in answers], axis=0)
    np.testing.assert_allclose(after, before + steps, atol=1e-6)  # the weights are fedavg's


def test_the_clients_last_layers_are_those_of_their_own_models():
    server = strategy_of(settings(), "fedgen")
    step = np.zeros(server.weights.size, np.float32)
    step[-10:] = np.arange(10)  # the bias of the last layer comes last
    (same, moved) = server.heads([Answer(0, 0 * step, 0, 0), Answer(1, step, 0, 0)])
    assert np.array_equal(same[0], moved[0])
    np.testing.assert_allclose(moved[1] - same[1], np.arange(10), atol=1e-6)


@pytest.mark.parametrize("told", [True, False])
def test_a_client_is_heard_about_the_labels_that_it_has(told):
    """Each of two clients calls everything by its own class, which is right where it alone is heard."""
    server = strategy_of(settings(generator_steps=0, label_counts=told), "fedgen")
    answers = []
    for client_id, label in enumerate((2, 7)):
        step = np.zeros(server.weights.size, np.float32)
        step[label - 10] = 1000  # bias of the last layer
        counts = np.bincount([label], minlength=10).astype(np.int32)
        answers.append(Answer(client_id, server.read([step, counts] if told else [step]), 0.0, 0.0))
    server.update(1, answers)
    if told:
        assert server.generator_loss == pytest.approx(0, abs=1e-4)
    else:  # labels are drawn evenly: eight of ten are nobody's, 500 below the two
        assert server.generator_loss == pytest.approx(0.8 * 500, rel=0.1)


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        (lambda d, c: [d], "count"),
        (lambda d, c: [d, c.astype(np.int64)], "shape"),
        (lambda d, c: [d, c[1:]], "shape"),
        (lambda d, c: [d, c - 2], "range"),
        (lambda d, c: [d, 0 * c], "range"),
        (lambda d, c: [d * np.nan, c], "non-finite"),
        (lambda d, c: [d[1:], c], "shape"),
    ],
)
def test_bad_answers_are_dropped_with_a_reason(arrays, reason):
    server = strategy_of(settings(), "fedgen")
    with pytest.raises(WireError) as caught:
        server.read(arrays(np.zeros(server.weights.size, np.float32), np.ones(10, np.int32)))
    assert caught.value.reason == reason


def test_a_client_refuses_what_is_no_generator(tmp_path):
    one = settings()
    data = federated_data(one)
    client = FedgenClient(Workspace(0, one, data, ClientFolder(tmp_path), "cpu"))
    server = strategy_of(one, "fedgen")
    weights, generator, shares = server.request(2)
    config = {"round": 2, "request": "r/2", "fingerprint": data.public_fingerprint}
    for arrays in (
        [weights],
        [weights, generator],
        [weights, generator * np.nan, shares],
        [weights, generator, -shares],
    ):
        assert client.fit(arrays, config)[2]["refused"] == "request"
    assert client.fit([weights, generator[1:], shares], config)[2]["refused"] == "settings"
    with pytest.raises(Refusal):
        client.received([generator, 0 * shares])
    difference, counts = client.fit([weights, generator, shares], config)[0]
    assert difference.shape == weights.shape and counts.sum() == data.parts[0].size


@pytest.mark.parametrize(("model", "words"), [("cnn", "batch norm"), ("linear-torch", "last linear layer")])
def test_models_without_a_last_layer_to_generate_for_are_refused(model, words):
    with pytest.raises(SettingsError, match=words):
        strategy_of(settings(client_models=model), "fedgen")


def test_the_generator_starts_from_the_runs_seed():
    first, same, other = (strategy_of(settings(seed=seed), "fedgen").generator for seed in (0, 0, 1))
    assert np.array_equal(first, same) and not np.array_equal(first, other)
    assert first.size == latent.initial(10, 128, 0).size
