"""Selective-FD's client: it answers about records like its own, and takes what the server has kept."""

import numpy as np
import pytest

from fedballot.clients.selective import SelectiveClient, ballot
from fedballot.clients.workspace import Workspace
from fedballot.core.folders import ClientFolder
from fedballot.core.setting import build
from fedballot.learners.seen import seen_through
from fedballot.runs.engine import federated_data
from fedballot.settings.selective import SelectiveSettings

ONE_CLASS = {
    "dataset": "digits",
    "clients": 10,
    "private_size": 1000,
    "public_size": 300,
    "test_size": 200,
    "partition": "classes-per-client",
    "classes_per_client": 1,
    "client_models": "logistic-regression",
    "selector_records": 40,
}


def client(tmp_path, number=0, **values):
    settings = build(SelectiveSettings, ONE_CLASS, values)
    folder = ClientFolder(tmp_path / str(number))
    return SelectiveClient(Workspace(number, settings, federated_data(settings), folder, "cpu"))


def ask(one, arrays, number=1):
    config = {"request": f"run/{number}", "round": number, "fingerprint": one.data.public_fingerprint}
    return one.fit(arrays, config)


@pytest.mark.parametrize("against", ["pool", "uniform"])
@pytest.mark.parametrize("features", ["", "hog"])
def test_a_client_of_one_class_answers_about_that_class(against, features, tmp_path):
    one = client(tmp_path, selector_against=against, client_features=features)
    (label,) = set(one.workspace.private().y)
    arrays, _, metrics = ask(one, [np.arange(300, dtype=np.int32)])
    assert not metrics["refused"]
    found = ballot(one.settings, (300, 10)).read(arrays)
    answered, same = found.any(axis=1), one.data.public_y == label
    assert found[answered].argmax(axis=1).tolist() == [label] * answered.sum()
    assert same[answered].mean() > 0.5 and answered[same].mean() > 0.5  # .8 and .75 seen, at a tenth of the pool each
    again, _, _ = ask(one, [np.arange(300, dtype=np.int32)])
    assert all(np.array_equal(a, b) for a, b in zip(arrays, again, strict=True))


def test_a_larger_quantile_answers_about_fewer_and_0_about_all_that_a_record_is_like(tmp_path):
    counts = [int(client(tmp_path, leave_out=share)._select().sum()) for share in (0.0, 0.25, 0.75)]
    assert counts[0] > counts[1] > counts[2] > 0


def test_a_class_with_one_record_has_no_selector(tmp_path):
    one = client(tmp_path, private_size=10, partition="iid")
    assert len(one.workspace.private().y) == 1 and not one._select().any()


@pytest.mark.parametrize(
    ("rows", "reason"),
    [([], ""), ([3], ""), (list(range(20)), ""), (list(range(21)), "request"), ([3, 3], "request"), ([300], "request")],
)
def test_what_the_server_has_kept_may_be_less_than_was_asked(rows, reason, tmp_path):
    one = client(tmp_path, queries=20, evaluate_clients=False)
    consensus = np.eye(10, dtype=np.float16)[np.zeros(len(rows), dtype=int)]
    arrays = [np.arange(20, dtype=np.int32), np.array(rows, dtype=np.int32), consensus]
    assert ask(one, arrays, 2)[2]["refused"] == reason


def test_models_learn_from_features_and_densities_may_have_their_own(tmp_path):
    one = client(tmp_path, client_features="hog", selector_features="none+l2")
    own, pool = one._compared
    assert own.shape[1] == pool.shape[1] == 64 and one.data.public_x.shape[1:] != (64,)
    assert one.workspace.private().x.shape[1:] == one.data.public_x.shape[1:] == one.data.test_x.shape[1:]
    extractor, _ = seen_through("hog", one.raw.data, 64, "cpu")
    assert np.array_equal(one.workspace.private().x, extractor.transform(one.raw.private().x))
    assert one.data.public_fingerprint == one.raw.data.public_fingerprint
