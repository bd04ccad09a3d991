"""FedAUX: rounds of averaging and weighted distillation from a common start, scores paid for once."""

from __future__ import annotations

import numpy as np
import pytest

from fedballot.clients.fedaux_weights import FedauxClient
from fedballot.clients.frozen import public_features
from fedballot.clients.workspace import Workspace
from fedballot.core.folders import ClientFolder
from fedballot.core.progress import Silent
from fedballot.core.setting import build
from fedballot.privacy.ledger.ledger import Ledger
from fedballot.runs.engine import federated_data
from fedballot.settings.fedaux import FedauxSettings
from fedballot.strategies.base import Answer
from fedballot.strategies.fedaux_weights import FedauxStrategy
from tests.conftest import fitting

DIGITS = {
    "dataset": "digits",
    "clients": 3,
    "private_size": 600,
    "public_size": 400,
    "test_size": 300,
    "partition": "dirichlet",
    "alpha": 0.3,
    "min_size": 30,
    "client_models": "mlp-torch",
    "extractor": "pca",
    "components": 20,
    "rounds": 2,
    "epochs": 5,
    "batch_size": 16,
    "server_epochs": 10,
    "score_epsilon": 5.0,
    "noise_seed": 1,
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "cache"))


def server_of(settings):
    data = federated_data(settings)
    keywords = {"fingerprint": data.public_fingerprint, "request_id": "run", "progress": Silent()}
    return FedauxStrategy(settings, data=data, device="cpu", nodes=settings.clients, **keywords)


def ask(settings, folder, client_id, number, arrays):
    data = federated_data(settings)
    one = FedauxClient(Workspace(client_id, settings, data, ClientFolder(folder / str(client_id)), "cpu"))
    config = {"request": f"run/{number}", "round": number, "fingerprint": data.public_fingerprint}
    out, _, metrics = one.fit(arrays, config)
    assert metrics["refused"] == "", (metrics, (folder / str(client_id) / "errors.txt").read_text())
    return out


def test_two_rounds_learn_and_the_scores_are_charged_once(tmp_path):
    settings = build(FedauxSettings, fitting(FedauxSettings, DIGITS))
    server = server_of(settings)
    heads = []
    for number in (1, 2):
        sent = [ask(settings, tmp_path, client_id, number, server.request(number)) for client_id in range(3)]
        heads.append(sent[0][1])
        server.combine(number, [Answer(client_id, server.read(arrays), 0, 0) for client_id, arrays in enumerate(sent)])
    outcome = server.outcome()
    assert outcome["metrics"]["server_accuracy"] > 0.7
    assert server.guarantees()[0].status == "none"
    assert np.array_equal(*heads) and heads[0].dtype == np.float16 and heads[0].shape == (21,)
    ledger = Ledger(tmp_path / "0" / "ledger")
    assert [line["kind"] for line in ledger.lines()] == ["open", "charge", "release"]
    assert 4.9 < ledger.spent() <= 5.0


def test_models_begin_as_the_contrastive_extractor_and_clients_take_it_over(tmp_path):
    changed = {"client_models": "resnet8-gn", "extractor": "simclr-resnet8-gn", "pretrain_epochs": 1, "epochs": 1}
    settings = build(FedauxSettings, fitting(FedauxSettings, DIGITS), changed)
    server = server_of(settings)
    fresh = server.weights.copy()
    weights, network = server.request(1)
    assert np.array_equal(weights[: network.size], network)
    assert np.array_equal(weights[network.size :], fresh[network.size :]) and weights.size - network.size == 65 * 10
    out = ask(settings, tmp_path, 0, 1, [weights, network])
    assert out[0].shape == weights.shape and out[1].shape == (65,)
    public = public_features(settings, federated_data(settings), "cpu", network)
    assert np.array_equal(public.features, server.public.features)
