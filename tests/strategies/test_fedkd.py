"""FedKD's server: the paper's weights, noise drawn once, every loss, and what is promised."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.client_proxy import ClientProxy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedballot.clients.fedkd import FedkdClient, FedkdDpClient, KdAnswer
from fedballot.clients.workspace import Workspace
from fedballot.core.errors import SettingsError
from fedballot.core.files import read_arrays
from fedballot.core.folders import ClientFolder, RunFolder
from fedballot.core.progress import Silent
from fedballot.core.setting import build
from fedballot.datasets.federation import build as build_data
from fedballot.datasets.sources import load
from fedballot.distillation.aggregation import class_weights
from fedballot.methods.registry import get_method
from fedballot.privacy.accounting import gaussian
from fedballot.runs.engine import federated_data, make_server, new_strategy
from fedballot.runs.legacy_api import BallotServer
from fedballot.settings.fedkd import FedkdDpSettings, FedkdSettings, mechanism
from fedballot.strategies.base import Answer
from tests.conftest import SMALL, fitting, small_settings
from tests.datasets.test_multilabel import write_yeast


def strategy(settings):
    name = "fedkd-dp" if isinstance(settings, FedkdDpSettings) else "fedkd"
    data = federated_data(settings)
    return new_strategy(get_method(name), settings, data, request_id="r")


def answers(server, logits, counts):
    packed = [KdAnswer(z.shape, server.settings).pack(z, n) for z, n in zip(logits, counts, strict=True)]
    return [Answer(k, server.read(each), 0.0, 0.0) for k, each in enumerate(packed)]


@given(arrays(np.int64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.integers(0, 1000)))
def test_weights_of_each_class_add_up_to_one_also_where_nobody_has_it(counts):
    weights = class_weights(counts)
    assert np.allclose(weights.sum(axis=0), 1)
    absent = counts.sum(axis=0) == 0
    assert np.allclose(weights[:, absent], 1 / len(counts))
    assert (weights[:, ~absent][counts[:, ~absent] == 0] == 0).all()


def test_the_average_is_equation_2():
    settings = small_settings(FedkdSettings, {"gamma": "inf", "levels": 65536})
    server = strategy(settings)
    rng = np.random.default_rng(0)
    logits, counts = rng.normal(size=(3, 300, 10)), rng.integers(0, 50, size=(3, 10))
    counts[:, 4] = 0  # a class absent everywhere
    found = server.average(answers(server, logits, counts))
    expected = np.empty((300, 10))
    for c in range(10):
        total = sum(counts[k][c] for k in range(3))
        expected[:, c] = sum((counts[k][c] / total if total else 1 / 3) * logits[k][:, c] for k in range(3))
    assert np.abs(found - expected).max() < 1e-3


def test_pairwise_takes_each_client_at_its_word_about_its_own_classes_alone():
    """Two clients with half of the classes each and one in common: the mean is fooled by the classes that they lack."""
    settings = small_settings(FedkdSettings, {"gamma": "inf", "levels": 65536, "ensemble": "pairwise"})
    server = strategy(settings)
    truth = server.data.public_y[server.queries]
    counts = np.array([[20] * 6 + [0] * 4, [0] * 5 + [20] * 5])
    logits = np.random.default_rng(0).normal(size=(2, 300, 10)) * 0.1
    for held, z in zip(counts > 0, logits, strict=True):
        z[:, held] += 6.0 * np.eye(10)[truth][:, held]
        z[:, ~held] -= 3.0 * held[truth][:, None]  # sure of itself where it knows the class
    consensus = server.average(answers(server, logits, counts))
    assert np.mean(consensus.argmax(axis=1) == truth) == 1
    printed = strategy(small_settings(FedkdSettings, {"gamma": "inf", "levels": 65536, "weights": "equal"}))
    assert not printed.settings.pairwise


@pytest.mark.parametrize("gamma", [0.5, 4.0])
def test_the_noise_is_laplace_of_scale_one_over_gamma_drawn_once_and_kept(gamma):
    settings = small_settings(FedkdSettings, {"gamma": gamma})
    server = strategy(settings)
    server.combine(1, answers(server, np.zeros((2, 300, 10)), np.ones((2, 10), int)))
    noise = server.state()["consensus"]
    # |Laplace| is exponential: 3,000 of them have a mean within 9 % at five deviations
    assert np.abs(noise).mean() * gamma == pytest.approx(1, abs=0.1)
    assert np.mean(noise**2) * gamma**2 == pytest.approx(2, abs=0.5)
    later = strategy(settings)
    later.restore(server.state())
    assert np.array_equal(later.state()["consensus"], noise)
    other = strategy(settings)
    other.combine(1, answers(other, np.zeros((2, 300, 10)), np.ones((2, 10), int)))
    assert not np.array_equal(other.state()["consensus"], noise)  # never the experiment's seed


@pytest.mark.parametrize("loss", ["l2", "mae", "kl"])
@pytest.mark.parametrize("model", ["logistic-regression", "mlp-torch"])
def test_the_server_learns_the_ensemble_with_every_loss(loss, model):
    pytest.importorskip("torch")
    changes = {
        "distill_loss": loss,
        "server_model": model,
        "gamma": "inf",
        "server_epochs": 150,
        "server_batch_size": 32,
    }
    server = strategy(small_settings(FedkdSettings, changes))
    data = server.data
    logits = 6.0 * np.eye(10)[data.public_y[server.queries]] - 0.6
    server.round_records.append({"metrics": server.combine(1, answers(server, [logits], [np.ones(10, int)]))})
    metrics = server.outcome()["metrics"]
    assert metrics["label_accuracy"] == 1
    assert metrics["server_accuracy"] > 0.75  # .85 to .94 seen
    assert metrics["float64_bytes_up"] == 0  # nobody has answered over the wire here


@pytest.mark.parametrize("settings", [FedkdSettings, FedkdDpSettings])
def test_neighbours_mend_what_the_ensemble_says_wrong(settings):
    """Three labels in ten are wrong; public digits that look alike outvote most of those."""
    changes = {"queries": 300, "answers": 2, "server_model": "logistic-regression", "spread": 0.9}
    changes |= {"graph_features": "deskew"} | ({"gamma": "inf"} if settings is FedkdSettings else {})
    plain, mended = (strategy(small_settings(settings, {**changes, "student": s})) for s in ("distilled", "propagated"))
    truth, rng = plain.data.public_y[plain.queries], np.random.default_rng(0)
    wrong = rng.random(300) < 0.3
    said = np.where(wrong, (truth + rng.integers(1, 10, 300)) % 10, truth)
    consensus = np.tile(3.0 * np.eye(10)[said], (2, 1)) + rng.normal(size=(600, 10)) * 0.5
    first, second = plain.learn_from(consensus), mended.learn_from(consensus)
    assert first.metrics["label_accuracy"] == pytest.approx(np.mean(~wrong))
    assert second.metrics["label_accuracy"] > first.metrics["label_accuracy"] + 0.15  # .9 seen
    assert np.mean(second.release["labels"] == truth) == second.metrics["label_accuracy"]
    assert second.round_metrics["consensus_accuracy"] == first.metrics["label_accuracy"]
    right = [np.mean(each.scores.argmax(axis=1) == plain.data.test_y) for each in (first, second)]
    assert right[1] > right[0] > 0.5


def test_the_printed_method_says_what_leaks_and_promises_nothing():
    server = strategy(small_settings(FedkdSettings))
    guarantee = server.guarantees()[0]
    assert (guarantee.status, guarantee.epsilon) == ("none", math.inf)
    assert json.loads(json.dumps(guarantee.worded()))["epsilon"] is None
    for word in ("logits", "largest logit", "number of records of each class"):
        assert word in server.warnings()[0]
    bare = strategy(small_settings(FedkdSettings, {"logit_bound": 5, "weights": "equal"}))
    assert "number of records" not in bare.warnings()[0]
    assert bare.guarantees()[0].status == "none"


def test_the_sound_variant_averages_what_was_paid_for():
    settings = small_settings(FedkdDpSettings, {"queries": 300})
    server = strategy(settings)
    steps = np.arange(3000).reshape(300, 10)
    server.combine(1, [Answer(k, steps.astype(np.int32), 0.0, 0.0) for k in range(4)])
    consensus = server.learn(server.state()).release["consensus"]
    assert np.allclose(consensus, steps * mechanism(settings, 10).mechanism.grid)
    seen, own = server.guarantees()
    assert (seen.unit, seen.adjacency, seen.status, seen.view) == ("client", "zero-out", "proved", "output only")
    assert 7.99 < seen.epsilon <= 8
    assert own.view == "server's view"
    assert own.epsilon > seen.epsilon
    seeded = strategy(small_settings(FedkdDpSettings, {"noise_seed": 1}))
    assert {g.status for g in seeded.guarantees()} == {"seeded"}


def test_noise_is_that_of_the_reference_and_shares_make_up_for_absent_and_colluding_clients():
    base = {**SMALL, "clients": 20, "public_size": 500, "private_size": 700, "queries": 500, "min_clients": 20}
    full = mechanism(build(FedkdDpSettings, base), 10)
    reference = gaussian.sigma(math.sqrt(500), 8.0, 1e-5)
    assert full.sigma == pytest.approx(reference, rel=2e-3)  # rounding to the grid costs a thousandth
    fewer = mechanism(build(FedkdDpSettings, base, {"min_clients": 12, "colluders": 2}), 10)
    ratio = float(fewer.mechanism.share_variance / full.mechanism.share_variance)
    assert ratio == pytest.approx(20 / 10, rel=5e-3)


@pytest.fixture
def yeast(tmp_path, monkeypatch):
    """Settings for a generated file in the form of Yeast's."""
    monkeypatch.setenv("FEDBALLOT_DATA", str(tmp_path))
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "cache"))
    for cached in (load, build_data):
        cached.cache_clear()
    write_yeast(tmp_path / "yeast.csv.gz")
    yield {**SMALL, "dataset": "yeast", "clients": 3, "private_size": 300, "public_size": 150, "test_size": 150}
    for cached in (load, build_data):
        cached.cache_clear()


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("fedkd", {"gamma": "inf"}),
        ("fedkd", {"gamma": "inf", "distill_loss": "kl"}),
        ("fedkd-dp", {"epsilon": 1000, "queries": 100}),
    ],
)
def test_several_labels_per_record(method, changes, yeast, tmp_path):
    entry = get_method(method)
    settings = build(entry.settings, fitting(entry.settings, yeast), changes)
    server = strategy(settings)
    ballots = []
    for client_id in range(3):
        workspace = Workspace(client_id, settings, server.data, ClientFolder(tmp_path / str(client_id)), "cpu")
        config = {"fingerprint": server.fingerprint, "request": "r/1"}
        arrays, _, metrics = entry.client_class(workspace).fit(server.request(1), config)
        assert metrics["refused"] == ""
        ballots.append(Answer(client_id, server.read(arrays), 0.0, 0.0))
        assert len(workspace.folder.figures()["auc"]) == 14
    server.round_records.append({"metrics": server.combine(1, ballots)})
    metrics = server.outcome()["metrics"]
    assert metrics["server_auc"] > 0.6  # .66 to .75 seen
    assert len(metrics["server_auc_per_class"]) == 14
    assert server.round_records[0]["metrics"]["consensus_auc"] > 0.6


@pytest.mark.parametrize(("zeros", "told"), [(30, False), (150, True)])
def test_classes_that_are_uneven_in_the_pool_are_told_of(zeros, told):
    """Neighbours even classes out."""
    settings = small_settings(FedkdSettings, {"gamma": "inf", "student": "propagated", "server_epochs": 1})
    server = strategy(settings)
    said = np.r_[np.zeros(zeros, int), np.arange(300 - zeros) % 10]
    warnings = server.learn_from(5.0 * np.eye(10)[said]).warnings
    assert any("% of it are 0: " in one for one in warnings) == told
    distilled = strategy(replace(settings, student="distilled"))
    assert not any("pool" in one for one in distilled.learn_from(5.0 * np.eye(10)[said]).warnings)


def test_neighbours_average_the_noise_of_the_sound_variant_out():
    """So noisy that a quarter of the records is right, as are most labels by their neighbours."""
    changes = {"queries": 300, "server_model": "logistic-regression", "student": "propagated"}
    server = strategy(small_settings(FedkdDpSettings, changes | {"graph_features": "deskew"}))
    truth, rng = server.data.public_y[server.queries], np.random.default_rng(0)
    consensus = np.eye(10)[truth] + rng.normal(size=(300, 10)) * 1.5
    learned = server.learn_from(consensus)
    assert learned.round_metrics["consensus_accuracy"] < 0.4
    assert learned.metrics["label_accuracy"] > 0.7


def test_features_that_the_pool_cannot_have_are_refused_before_anybody_is_asked():
    settings = small_settings(FedkdSettings, {"student": "propagated", "graph_features": "standardise+hellinger"})
    with pytest.raises(SettingsError, match=r"^graph_features=standardise\+hellinger: .*takes counts"):
        strategy(settings)


@pytest.mark.parametrize("setting", ["student=propagated", "ensemble=pairwise"])
def test_what_compares_classes_is_refused_for_several_labels(setting, yeast):
    name, _, value = setting.partition("=")
    settings = build(FedkdSettings, yeast, {name: value})
    with pytest.raises(SettingsError, match=f"^{setting} is for one label per record, .* set {name}="):
        strategy(settings)


def test_methods_that_take_one_label_refuse_several(yeast, tmp_path):
    settings = build(get_method("pate-fl").settings, yeast)
    folder = RunFolder.open(tmp_path / "run", "pate-fl", settings, resume=False)
    with pytest.raises(SettingsError, match="several labels per record, which pate-fl cannot take: use fedkd"):
        make_server(get_method("pate-fl"), settings, folder, workers=1, progress=Silent())


def test_a_pool_without_labels_of_the_task_gives_no_accuracy_of_the_consensus():
    server = strategy(small_settings(FedkdSettings))
    unknown = np.full_like(server.data.public_y, -1)
    server.data = replace(server.data, public_y=unknown)
    metrics = server.combine(1, answers(server, [np.zeros((300, 10))], [np.ones(10, int)]))
    server.round_records.append({"metrics": metrics})
    assert server.outcome()["metrics"]["label_accuracy"] is None
    assert server.round_records[0]["metrics"] == {"consensus_accuracy": None}


class Node(ClientProxy):
    """A connected client that answers in this process."""

    def __init__(self, make, client_id: int) -> None:
        super().__init__(f"node-{client_id}")
        self.make, self.client_id, self.replies = make, client_id, []

    def fit(self, ins, timeout, group_id):
        arrays, n, metrics = self.make(self.client_id).fit(parameters_to_ndarrays(ins.parameters), dict(ins.config))
        self.replies.append(arrays)
        return FitRes(Status(Code.OK, ""), ndarrays_to_parameters(arrays), n, metrics)

    get_properties = get_parameters = evaluate = reconnect = None


Node.__abstractmethods__ = frozenset()


def test_under_masks_the_server_learns_from_the_sum_of_what_the_ledgers_hold(tmp_path):
    changes = {"clients": 5, "min_clients": 4, "queries": 60, "epsilon": 1000, "secure_aggregation": True}
    settings = small_settings(FedkdDpSettings, changes)
    server = strategy(settings)

    def client(client_id):
        return FedkdDpClient(
            Workspace(client_id, settings, server.data, ClientFolder(tmp_path / str(client_id)), "cpu")
        )

    running = BallotServer(server, lambda error: None)
    nodes = [Node(client, client_id) for client_id in range(5)]
    for node in nodes:
        running.client_manager().register(node)
    running.fit(1, 60)
    kept = [read_arrays(next((tmp_path / str(a) / "ledger" / "releases").glob("*.npz")))["logits"] for a in range(5)]
    assert np.array_equal(server.state()["total"], sum(kept))
    assert not any(
        np.array_equal(array, kept[node.client_id]) for node in nodes for sent in node.replies for array in sent
    )
    (guarantee,) = server.guarantees()
    assert (guarantee.view, str(guarantee.trust)) == (
        "server's view",
        "secure aggregation (min_clients=4, colluders=0)",
    )
    assert server.outcome()["metrics"]["server_accuracy"] > 0.6  # .75 to .85 seen
    folder = RunFolder.open(tmp_path / "run", "fedkd-dp", settings, resume=False)
    folder.save()
    server.save(folder)
    consensus = read_arrays(folder.release)["consensus"]
    assert np.allclose(consensus, sum(kept) * (mechanism(settings, 10).mechanism.grid / 5))


def test_each_answer_is_distilled_against_its_own_copy_and_costs_its_bytes(tmp_path):
    pytest.importorskip("torch")
    changes = {"answers": 3, "queries": 50, "gamma": "inf", "client_models": "mlp-torch", "server_model": "mlp-torch"}
    settings = small_settings(FedkdSettings, changes)
    server = strategy(settings)
    assert server.request(1)[0].nbytes == 38 and server.shape == (150, 10)  # 300 records, a bit each; rows take 200
    config = {"fingerprint": server.fingerprint, "request": "r/1"}
    one = FedkdClient(Workspace(0, settings, server.data, ClientFolder(tmp_path / "0"), "cpu"))
    arrays, _, _ = one.fit(server.request(1), config)
    assert arrays[0].nbytes <= 1500
    ballot = server.read(arrays)
    asked = []

    class Remembers:
        def distill(self, x, targets, **_):
            asked.append((x, targets))
            return self

    server.combine(1, [Answer(0, ballot, 0.0, 0.0)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "new_student", lambda *_: Remembers())
        server.distill(server.state()["consensus"])
    ((x, targets),) = asked
    assert np.array_equal(x[:50], server.data.public_x[server.queries])
    assert not np.array_equal(x[50:100], x[:50]) and not np.array_equal(x[50:100], x[100:])
    own = one.model().predict_logits(x)
    own -= own.mean(axis=1, keepdims=True)
    assert np.abs(targets - own).max() <= np.abs(own).max() / 199 + 1e-4
    consensus = server.state()["consensus"]
    mean = (consensus[:50] + consensus[50:100] + consensus[100:]) / 3
    right = np.mean(mean.argmax(axis=1) == server.data.public_y[server.queries])
    assert server.quality(consensus)["consensus_accuracy"] == right


def test_few_records_of_a_large_pool_are_asked_by_row():
    (rows,) = strategy(small_settings(FedkdSettings, {"queries": 9})).request(1)
    assert (rows.dtype, rows.size) == (np.int32, 9)
    (rows,) = strategy(small_settings(FedkdDpSettings, {"queries": 300})).request(1)
    assert (rows.dtype, rows.size) == (np.int32, 300)  # ledgers hold its digest


def test_each_answer_of_the_sound_variant_is_a_query_that_is_paid_for():
    four = small_settings(FedkdDpSettings, {"queries": 60, "answers": 4})
    same = small_settings(FedkdDpSettings, {"queries": 240})
    assert (four.record_count, four.query_count) == (60, 240)  # a site allows so many queries
    assert mechanism(four, 10) == mechanism(same, 10)
    assert mechanism(four, 10).sensitivity == pytest.approx(math.sqrt(240))
    server = strategy(four)
    assert server.form.shape == (240, 10)
    assert "240 queries" in server.guarantees()[0].composition


def test_pairs_of_several_labels_are_refused(yeast):
    settings = build(FedkdSettings, fitting(FedkdSettings, yeast), {"ensemble": "pairwise"})
    with pytest.raises(SettingsError, match="set ensemble=mean"):
        strategy(settings)


def test_several_answers_about_vectors_are_refused(yeast):
    with pytest.raises(SettingsError, match=r"answers=2 .* set answers=1"):
        strategy(build(FedkdSettings, yeast, {"answers": 2}))
