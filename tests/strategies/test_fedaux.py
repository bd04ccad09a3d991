"""FedAUXfdp and its baselines with real clients in this process: what leaves, what it costs, what the server learns."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from fedballot.clients.class_sums import class_axes
from fedballot.clients.frozen import public_features, split_public
from fedballot.clients.workspace import Workspace
from fedballot.core.errors import SettingsError
from fedballot.core.folders import ClientFolder
from fedballot.core.setting import build
from fedballot.datasets.examples import Examples
from fedballot.methods.registry import get_method
from fedballot.privacy.accounting import gaussian, papers
from fedballot.privacy.ledger import Ledger
from fedballot.privacy.mechanisms.class_sums import class_sums
from fedballot.privacy.mechanisms.heads import fit_head, prepare
from fedballot.runs.engine import federated_data, new_strategy
from fedballot.settings.class_sums import sums_mechanism
from fedballot.settings.fedaux import FedauxfdpSettings, FedauxFSettings
from fedballot.settings.heads import FeddSettings, PrivateHeadSettings, class_mechanism, score_mechanism
from fedballot.strategies.base import Answer
from fedballot.wire.packing import WireError
from tests.conftest import fitting

DIGITS = {
    "dataset": "digits",
    "clients": 4,
    "private_size": 800,
    "public_size": 500,
    "test_size": 300,
    "partition": "dirichlet",
    "alpha": 0.3,
    "min_size": 30,
    "extractor": "pca",
    "components": 30,
    "noise_seed": 5,
}
KINDS = {
    "fedauxfdp": FedauxfdpSettings,
    "fedd-p": FeddSettings,
    "fedavg-p": PrivateHeadSettings,
    "fedaux-f": FedauxFSettings,
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "cache"))


def of(method, **changed):
    return build(KINDS[method], fitting(KINDS[method], DIGITS), {"noise_seed": 5}, changed)


def client(method, settings, folder, client_id=0, data=None):
    workspace = Workspace(
        client_id, settings, data or federated_data(settings), ClientFolder(folder / str(client_id)), "cpu"
    )
    return get_method(method).client_class(workspace)


def strategy(method, settings):
    data = federated_data(settings)
    return new_strategy(get_method(method), settings, data, request_id="run")


def ask(one, arrays=(), request="run/1"):
    config = {"request": request, "round": 1, "fingerprint": one.workspace.data.public_fingerprint}
    out, _, metrics = one.fit(list(arrays), config)
    assert metrics["refused"] == "", (metrics, (one.workspace.folder.path / "errors.txt").read_text())
    return out


def run(method, settings, folder):
    """One round; returns the strategy after it, and the bytes that one client sent."""
    server = strategy(method, settings)
    sent = [
        ask(client(method, settings, folder, client_id), server.request(1)) for client_id in range(settings.clients)
    ]
    answers = [Answer(client_id, server.read(arrays), 0, 0) for client_id, arrays in enumerate(sent)]
    server.round_records.append({"answered": len(sent), "metrics": server.combine(1, answers)})
    return server, sum(array.nbytes for array in sent[0])


@pytest.mark.parametrize(
    ("method", "changed", "least"),
    [
        ("fedauxfdp", {"epsilon": 2.0}, 0.75),
        ("fedauxfdp", {"epsilon": 2.0, "precision": "int8"}, 0.75),
        ("fedauxfdp", {"epsilon": 2.0, "embedding": "pca"}, 0.75),
        ("fedauxfdp", {"epsilon": 20.0, "score_epsilon": 20.0, "head": "logistic"}, 0.6),
        ("fedauxfdp", {"epsilon": 20.0, "score_epsilon": 20.0, "head": "logistic", "weighting": "logits"}, 0.45),
        ("fedd-p", {"epsilon": 20.0}, 0.6),
        ("fedavg-p", {"epsilon": 20.0}, 0.5),
        ("fedaux-f", {"client_models": "logistic-regression", "score_epsilon": 20.0}, 0.75),
    ],
)
def test_the_server_learns(method, changed, least, tmp_path):
    server, _ = run(method, of(method, **changed), tmp_path)
    assert server.outcome()["metrics"]["server_accuracy"] > least


def test_pretraining_and_distillation_records_are_disjoint_and_all():
    distil, auxiliary = split_public(500, 0.2, 3)
    assert (len(distil), len(auxiliary)) == (400, 100)
    assert sorted([*distil, *auxiliary]) == list(range(500))
    assert not np.array_equal(split_public(500, 0.2, 4)[0], distil)
    settings = of("fedauxfdp")
    public = public_features(settings, federated_data(settings), "cpu")
    assert not set(public.distil) & set(public.auxiliary)


def test_the_extractor_has_seen_the_auxiliary_records_only():
    settings, data = of("fedauxfdp"), federated_data(of("fedauxfdp"))
    public = public_features(settings, data, "cpu")
    changed = np.array(data.public_x)
    changed[public.distil] = 0
    other = public_features(settings, replace(data, public_x=changed, public_fingerprint="other"), "cpu")
    x = np.asarray(data.test_x[:5])
    assert np.array_equal(public.extractor.transform(x), other.extractor.transform(x))


@pytest.mark.parametrize("changed", [{}, {"head": "logistic"}, {"embedding": "pca"}, {"precision": "int8"}])
def test_a_client_with_a_single_class_sends_the_same_shapes(changed, tmp_path):
    settings = of("fedauxfdp", **changed)
    data = federated_data(settings)
    rows = data.parts[0]
    y = np.array(data.private.y)
    y[rows] = 3
    single = replace(data, private=Examples(data.private.x, y, None))
    server = strategy("fedauxfdp", settings)
    asked = server.request(1)
    usual, alone = (
        ask(client("fedauxfdp", settings, tmp_path / n, 0, d), asked) for n, d in (("a", data), ("b", single))
    )
    assert [(a.shape, a.dtype) for a in usual] == [(a.shape, a.dtype) for a in alone]
    server.read(alone)


def test_class_sums_are_told_with_the_noise_of_the_ledgers_charge(tmp_path):
    settings = of("fedauxfdp", epsilon=1.0, dimension=16)
    one = client("fedauxfdp", settings, tmp_path)
    asked = strategy("fedauxfdp", settings).request(1)
    out = ask(one, asked)
    ledger = Ledger(tmp_path / "0" / "ledger")
    lines = [line["kind"] for line in ledger.lines()]
    assert lines == ["open", "charge", "release"]
    assert ledger.spent() == pytest.approx(1.0, rel=2e-3) and ledger.spent() <= 1.0
    assert (ledger.account.unit, ledger.account.adjacency) == ("record", "replace-one")
    data = one.workspace.data
    public = public_features(settings, data, "cpu")
    embedding = replace(class_axes(settings, data, public), landmarks=asked[0])
    own = one.workspace.private()
    exact = class_sums(embedding.transform(public.extractor.transform(own.x)), own.y, 10)
    noise = out[0].astype(float) - exact
    variance = sums_mechanism(settings, 10, 16).variance
    assert np.mean(noise[:, 1:] ** 2) == pytest.approx(variance, rel=0.4)  # 160 draws: standard error .11
    assert out[0][:, 0].sum() == pytest.approx(len(own.y), abs=1)
    assert np.array_equal(ask(client("fedauxfdp", settings, tmp_path), asked)[0], out[0])
    assert len(ledger.lines()) == 3


def test_two_logistic_heads_are_charged_one_by_one_and_compose(tmp_path):
    settings = of("fedauxfdp", head="logistic", epsilon=0.5, score_epsilon=0.1)
    one = client("fedauxfdp", settings, tmp_path)
    ask(one)
    ledger = Ledger(tmp_path / "0" / "ledger")
    # in one charge, so that no crash lets one of them out without the other's
    assert [line["kind"] for line in ledger.lines()] == ["open", "charge", "release"]
    assert list(ledger.lines()[1]["costs"]) == ["classes", "scores"] and len(ledger.costs()) == 2
    assert ledger.account.delta == 2e-5
    # golden fedaux.compose.analytic.2e-05
    assert ledger.spent() == pytest.approx(0.488, abs=2e-3) and ledger.spent() <= ledger.account.epsilon
    server, _ = run("fedauxfdp", settings, tmp_path / "b")
    told = [one.worded() for one in server.guarantees()]
    assert [g["status"] for g in told] == ["seeded"] and told[0]["epsilon"] == pytest.approx(0.488, abs=2e-3)
    assert told[0]["delta"] == 2e-5 and "records a client holds is public" in told[0]["composition"]


def test_the_papers_noise_is_its_claim_beside_what_is_proved(tmp_path):
    settings = replace(of("fedauxfdp", head="logistic", mechanism="paper"), noise_seed=None)
    records, features = 2500, 65
    assert class_mechanism(settings, records, features, 10).sigma == pytest.approx(2.4513, abs=1e-4)  # golden
    pair = score_mechanism(settings, 5000, features)
    assert pair.sigma * math.sqrt(2) == pytest.approx(papers.fedaux_score_sigma(0.01, 5000, 0.1, 1e-5))
    # two classes with 2 lambda are one head: sensitivity 2/(lambda N), sqrt(2) of the noise in each of the two
    tight = score_mechanism(replace(settings, mechanism="tight"), 5000, features)
    assert tight.sigma * math.sqrt(2) == pytest.approx(gaussian.sigma(2 / (0.01 * 5000), 0.1, 1e-5), rel=5e-3)
    server, _ = run("fedauxfdp", settings, tmp_path)
    claim, proved = [one.worded() for one in server.guarantees()]
    assert (claim["status"], proved["status"]) == ("paper's claim", "proved")
    assert claim["epsilon"] == pytest.approx(0.6) and claim["delta"] == 2e-5
    assert proved["epsilon"] < 0.2  # golden fedaux.eps_delivered_by_paper_sigma: .147 for the classes alone


@pytest.mark.parametrize(
    ("method", "changed", "arrays", "nbytes"),
    [
        ("fedauxfdp", {"dimension": 16}, 1, 2 * 10 * 17),
        ("fedauxfdp", {"dimension": 16, "precision": "int8"}, 2, 10 * 17 + 4),
        ("fedauxfdp", {}, 1, 2 * 10 * 51),
        ("fedauxfdp", {"head": "logistic"}, 2, 2 * (10 * 31 + 31)),
        ("fedauxfdp", {"head": "logistic", "share": "predictions", "precision": "int8"}, 4, 400 * 11 + 8),
        ("fedavg-p", {}, 1, 2 * 10 * 31),
        ("fedaux-f", {"client_models": "logistic-regression"}, 2, 2 * 400 * 11),
    ],
)
def test_bytes_that_leave_a_client(method, changed, arrays, nbytes, tmp_path):
    settings = of(method, **changed)
    sent = ask(client(method, settings, tmp_path), strategy(method, settings).request(1))
    assert len(sent) == arrays and sum(array.nbytes for array in sent) == nbytes


def test_heads_and_predictions_teach_the_same(tmp_path):
    told = [
        run("fedauxfdp", of("fedauxfdp", share=share, head="logistic", epsilon=5.0), tmp_path / share)[0]
        for share in ("heads", "predictions")
    ]
    soft = [one.state()["soft_labels"] for one in told]
    assert np.abs(soft[0] - soft[1]).max() < 0.02  # float16


def test_equation_1_by_hand():
    settings = of("fedauxfdp", head="logistic", share="predictions", clients=2)
    server = strategy("fedauxfdp", settings)
    rng = np.random.default_rng(0)
    logits, certain = rng.normal(size=(2, 400, 10)), rng.uniform(0.01, 1, (2, 400))
    answers = [Answer(i, np.column_stack([logits[i], certain[i]]), 0, 0) for i in (0, 1)]
    g = softmax(logits, axis=2)
    wanted = (certain[..., None] * g).sum(axis=0) / certain.sum(axis=0)[:, None]
    assert np.allclose(server.ensemble().of(answers), wanted)
    on_logits = strategy("fedauxfdp", replace(settings, weighting="logits"))
    mean = (certain[..., None] * logits).sum(axis=0) / certain.sum(axis=0)[:, None]
    assert np.allclose(on_logits.ensemble().of(answers), softmax(mean, axis=1))


def test_without_noise_the_average_of_heads_is_that(tmp_path):
    settings = of("fedavg-p", epsilon="inf", clients=2)
    server, _ = run("fedavg-p", settings, tmp_path)
    data = federated_data(settings)
    public = public_features(settings, data, "cpu")
    heads = [
        fit_head(
            prepare(public.extractor.transform(np.asarray(data.private.x[rows])), public.bound),
            np.asarray(data.private.y[rows]),
            10,
            0.01,
        ).weights
        for rows in data.parts
    ]
    assert np.allclose(server.state()["head"], np.mean(heads, axis=0), atol=2e-3)
    assert server.guarantees()[0].status == "none"
    (charge,) = (line for line in Ledger(tmp_path / "0" / "ledger").lines() if line["kind"] == "charge")
    assert charge["costs"] == {} and charge["uncharged"] == ["classes"]  # on the record that nothing protects it


def test_bad_answers_are_refused():
    server = strategy("fedauxfdp", of("fedauxfdp", dimension=16))
    good = np.zeros((10, 17), np.float16)
    for bad, reason in (
        ([], "count"),
        ([good, good], "count"),
        ([good.astype(np.float32)], "dtype"),
        ([good[:, 1:]], "shape"),
        ([good * np.float16(np.nan)], "non-finite"),
    ):
        with pytest.raises(WireError, match=reason):
            server.read(bad)


def test_a_request_with_anything_but_a_network_is_refused(tmp_path):
    one = client("fedauxfdp", of("fedauxfdp"), tmp_path)
    config = {"request": "run/1", "round": 1, "fingerprint": one.workspace.data.public_fingerprint}
    good = strategy("fedauxfdp", one.workspace.settings).request(1)[0]
    for bad in (
        [],
        [good[:, 1:]],
        [good[:1]],
        [good * np.float32(np.nan)],
        [good * np.float32(1e9)],
        [good, good],
        [good.ravel()],
    ):
        assert one.fit(bad, config)[2]["refused"] == "request", [array.shape for array in bad]
    pca = client("fedauxfdp", of("fedauxfdp", embedding="pca"), tmp_path)
    assert pca.fit([good], config)[2]["refused"] == "request"
    assert not (tmp_path / "0" / "ledger").exists()


@pytest.mark.parametrize(
    ("method", "changed", "says"),
    [
        ("fedauxfdp", {"mechanism": "paper"}, "head=logistic"),
        ("fedauxfdp", {"extractor": "hgo"}, "did you mean 'hog'"),
        ("fedauxfdp", {"pretrain_share": 0.0001}, "nothing to pretrain"),
        (
            "fedauxfdp",
            {"dataset": "sites", "public_dataset": "digits", "private_size": 0, "embedding": "pca"},
            "set records",
        ),
        ("fedauxfdp", {"share": "predictions"}, "share=predictions"),
    ],
)
def test_settings_that_cannot_work_are_refused(method, changed, says):
    with pytest.raises(SettingsError, match=says):
        of(method, **changed)


@pytest.mark.parametrize("method", ["fedauxfdp", "fedavg-p"])
def test_an_extractor_that_cannot_take_the_data_fails_before_clients_are_asked(method, tmp_path):
    path = tmp_path / "vectors.npz"
    rng = np.random.default_rng(0)
    np.savez(path, x=rng.normal(size=(300, 5)).astype(np.float32), y=np.arange(300) % 3)
    changed = {"dataset": str(path), "private_size": 100, "public_size": 100, "test_size": 50, "min_size": 1}
    with pytest.raises(SettingsError, match="takes images"):
        strategy(method, of(method, extractor="hog", **changed)).ready()
