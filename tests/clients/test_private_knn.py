"""What leaves a client under Private-kNN-FL: neighbour counts plus a noise share, and nothing else."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.neighbors import NearestNeighbors

from fedballot.clients.private_knn import KnnClient
from fedballot.clients.workspace import Workspace
from fedballot.core.errors import SettingsError
from fedballot.core.folders import ClientFolder
from fedballot.core.setting import build
from fedballot.datasets.examples import Examples
from fedballot.learners.extractors import make_extractor
from fedballot.learners.neighbours import nearest
from fedballot.privacy.accounting import gaussian
from fedballot.privacy.ledger.ledger import Ledger
from fedballot.runs.engine import federated_data
from fedballot.settings.voting import KnnSettings, mechanism
from fedballot.wire.codec import Integers
from tests.conftest import small_settings

EXTRACTOR = "none+l2"


@pytest.fixture
def small() -> KnnSettings:
    return small_settings(KnnSettings, {"epsilon": 5, "delta": 1e-4, "k": 7, "extractor": EXTRACTOR})


def changed(settings: KnnSettings, **changes: object) -> KnnSettings:
    return build(KnnSettings, settings.to_dict(), changes)


def client(settings: KnnSettings, folder, client_id: int = 0, data=None) -> KnnClient:
    return KnnClient(Workspace(client_id, settings, data or federated_data(settings), ClientFolder(folder), "cpu"))


def ask(one: KnnClient, request: str = "run/1"):
    queries = np.arange(one.workspace.settings.query_count, dtype=np.int32)
    return one.fit([queries], {"request": request, "fingerprint": one.workspace.data.public_fingerprint})


def counts(settings: KnnSettings, folder, data=None) -> np.ndarray:
    """Client 0's counts without noise, (Q, C), as they are sent."""
    arrays, _, metrics = ask(client(changed(settings, epsilon="inf"), folder, data=data))
    assert metrics["refused"] == ""
    return Integers((settings.query_count, 10)).read(arrays)


def test_votes_are_the_classes_of_the_nearest_records(small, tmp_path):
    data = federated_data(small)
    rows = data.parts[0]
    features = make_extractor(EXTRACTOR, input_shape=(8, 8)).fit(data.public_x)
    own, asked = features.transform(data.private.x[rows]), features.transform(data.public_x)
    found = NearestNeighbors(n_neighbors=7, algorithm="brute").fit(own).kneighbors(asked, return_distance=False)
    wanted = np.eye(10, dtype=int)[data.private.y[rows]][found].sum(axis=1)
    sent = counts(small, tmp_path)
    assert (sent.sum(axis=1) == 7).all()
    assert np.mean(sent == wanted) > 0.999  # scikit-learn may break a tie otherwise
    assert np.mean(sent.argmax(axis=1) == data.public_y) > 0.8


def test_an_answer_is_counts_plus_a_noise_share(small, tmp_path):
    arrays, n, metrics = ask(client(small, tmp_path / "a"))
    assert (n, metrics["refused"]) == (1, "")
    noise = Integers((300, 10)).read(arrays) - counts(small, tmp_path / "b")
    share = mechanism(small).share_sigma
    statistic = float((noise**2).sum() / share**2)
    assert 1e-6 < stats.chi2.cdf(statistic, noise.size) < 1 - 1e-6
    assert not 1e-6 < stats.chi2.cdf(statistic / 4, noise.size) < 1 - 1e-6
    # eight shares on sums of counts: the noise that replace-one with L2 sensitivity sqrt(2 Q) needs
    total = share * math.sqrt(small.min_clients)
    assert total == pytest.approx(gaussian.sigma(math.sqrt(600), 5, 1e-4), rel=0.01)


@pytest.mark.parametrize("k", [1, 7, 50])
def test_a_record_costs_the_same_noise_for_every_k_and_an_client_k_times_as_much(small, k):
    record, client = (mechanism(changed(small, k=k, unit=unit, sigma=20 / k)) for unit in ("record", "client"))
    assert record.epsilon(1e-4, "record") == pytest.approx(gaussian.epsilon(math.sqrt(600) / 20, 1e-4), rel=1e-3)
    assert client.epsilon(1e-4, "client") == pytest.approx(gaussian.epsilon(k * math.sqrt(300) / 20, 1e-4), rel=1e-2)


def test_a_record_is_protected_from_the_server_too_by_the_clients_own_share(small):
    noisy = mechanism(small)
    told = [g for g in noisy.guarantees(1e-4) if g.view == "server's view"]
    assert [g.unit for g in told] == ["client", "record"]
    assert told[1].epsilon == pytest.approx(gaussian.epsilon(math.sqrt(600) / noisy.share_sigma, 1e-4), rel=1e-2)
    assert told[1].epsilon < told[0].epsilon / 5
    assert [g.view for g in noisy.guarantees(1e-4, secure=True)].count("server's view") == 4


def test_one_charge_for_one_request_and_the_same_bytes_after_a_restart(small, tmp_path):
    first = ask(client(small, tmp_path))[0][0]
    again = ask(client(small, tmp_path))[0][0]
    assert first.tobytes() == again.tobytes()
    ledger = Ledger(tmp_path / "ledger")
    assert (ledger.account.unit, ledger.account.adjacency) == ("record", "replace-one")
    assert len(ledger.costs()) == 1
    assert ledger.spent() == pytest.approx(mechanism(small).epsilon(1e-4, "record"))
    out, _, metrics = ask(client(small, tmp_path), request="run/2")
    assert (out, metrics["refused"]) == ([], "budget")
    assert len(ledger.costs()) == 1


@pytest.mark.parametrize("bad", ["float64", "not finite", "too large"])
def test_records_without_features_do_not_change_whether_there_is_an_answer(bad, small, tmp_path):
    """One record that has none, or all of them: answered and charged like sound ones, and nothing says so outside."""
    data = federated_data(small)
    x = np.array(data.private.x, dtype=np.float64 if bad == "float64" else np.float32)
    if bad != "float64":
        x[data.parts[0][3]] = np.nan if bad == "not finite" else np.finfo(np.float32).max
    broken = replace(data, private=Examples(x, data.private.y))
    (arrays, _, metrics), (usual, _, told) = (
        ask(client(small, tmp_path / name, data=given)) for name, given in (("a", broken), ("b", data))
    )
    assert metrics["refused"] == told["refused"] == "" and metrics["detail"] == ""
    assert (arrays[0].shape, arrays[0].dtype.kind) == (usual[0].shape, usual[0].dtype.kind)
    costs = [Ledger(tmp_path / name / "ledger").costs() for name in "ab"]
    assert costs[0] == costs[1] == [mechanism(small).cost("record")]


def test_nothing_but_the_neighbours_votes_leaves(small, tmp_path):
    """Records that are no query's neighbour may be anything at all: not one byte of the answer changes."""
    settings = changed(small, noise_seed=3)
    data = federated_data(settings)
    rows = data.parts[0]
    one = client(settings, tmp_path / "a")
    features, _ = one.records
    used = np.unique(nearest(features, one.extractor.transform(data.public_x), 7))
    unused = np.setdiff1d(np.arange(len(rows)), used)
    assert len(unused) > 0
    x, y = np.array(data.private.x), np.array(data.private.y)
    distances = np.linalg.norm(one.extractor.transform(data.public_x)[:, None] - features[unused], axis=2)
    farthest = unused[distances.min(axis=0).argmax()]
    y[rows[unused]] = 9 - y[rows[unused]]  # labels of all records that no query is near to
    x[rows[farthest]] = 0  # and the features of one: at distance 1 from every query, farther than 7 others
    poisoned = replace(data, private=Examples(x, y))
    plain, *_, told = ask(one)
    again, *_, told_again = ask(client(settings, tmp_path / "b", data=poisoned))
    assert plain[0].tobytes() == again[0].tobytes()
    assert set(told) == set(told_again) == {"client_id", "began", "compute_s", "refused", "detail"}
    assert not np.array_equal(counts(small, tmp_path / "c"), counts(small, tmp_path / "d", with_labels_moved(data)))


def with_labels_moved(data):
    return replace(data, private=Examples(data.private.x, (data.private.y + 1) % 10))


def test_a_client_with_fewer_records_than_k_counts_them_all(small, tmp_path):
    data = federated_data(small)
    few = replace(data, parts=(data.parts[0][:4], *data.parts[1:]))
    sent = counts(small, tmp_path / "a", data=few)
    assert (sent == np.bincount(data.private.y[data.parts[0][:4]], minlength=10)).all()
    arrays, _, metrics = ask(client(small, tmp_path / "b", data=few))
    assert metrics["refused"] == "" and len(arrays) == 1
    assert "lower k" in small.turnout_warning(4 / 7, 0.1) and small.turnout_warning(0.99, 0.0) is None
    assert small.turnout_warning(0.92, 0.22) is None  # noise alone may do that
    none = replace(data, parts=(data.parts[0][:0], *data.parts[1:]))
    blank = client(small, tmp_path / "c", data=none)
    arrays, _, metrics = ask(blank)  # none at all: noise alone, at the same price
    assert metrics["refused"] == "" and blank.failed
    noise = Integers((300, 10)).read(arrays)
    assert 1e-6 < stats.chi2.cdf(float((noise**2).sum() / mechanism(small).share_sigma ** 2), noise.size) < 1 - 1e-6
    assert Ledger(tmp_path / "c" / "ledger").costs() == [mechanism(small).cost("record")]
    free = changed(small, epsilon="inf")
    assert ask(client(free, tmp_path / "d", data=none))[2]["refused"] == "empty"


def test_the_clients_own_figure_stays_in_its_folder(small, tmp_path):
    ask(client(small, tmp_path))
    matrix = np.array(ClientFolder(tmp_path).figures()["confusion"])
    assert matrix.shape == (10, 10) and matrix.sum() == 300 and np.trace(matrix) > 200
    ask(client(changed(small, evaluate_clients="false"), tmp_path / "quiet"))
    assert ClientFolder(tmp_path / "quiet").figures() is None


def test_a_wrong_extractor_or_k_is_refused_at_once(small):
    for changes, words in (
        ({"extractor": "hogg"}, "did you mean 'hog'"),
        ({"graph_features": "pixels"}, "unknown extractor step"),
        ({"server_features": "l2+own:net"}, "unknown extractor step"),
        ({"k": 0}, "at least 1"),
    ):
        with pytest.raises(SettingsError, match=words):
            changed(small, **changes)
