"""FedKT: consistent votes, teachers and students, and a guarantee only where there is noise."""

import numpy as np
import pytest

from fedballot.clients.fedkt import FedktClient, consistent_votes
from fedballot.clients.workspace import Workspace
from fedballot.core.folders import ClientFolder
from fedballot.core.setting import build
from fedballot.privacy.mechanism import Facts
from fedballot.runs.engine import federated_data
from fedballot.settings.voting import FedktSettings, PateSettings, ballot_form, mechanism

DIGITS = {
    "dataset": "digits",
    "clients": 3,
    "private_size": 300,
    "public_size": 100,
    "test_size": 100,
    "queries": 40,
    "client_models": "logistic-regression",
    "server_model": "logistic-regression",
}


def client(tmp_path, **values):
    settings = build(FedktSettings, DIGITS, values)
    return FedktClient(Workspace(0, settings, federated_data(settings), ClientFolder(tmp_path / "c"), "cpu"))


def test_students_that_disagree_give_no_vote():
    labels = np.array([[0, 1, 2, 2], [0, 1, 1, 2], [0, 0, 1, 2]])
    assert consistent_votes(labels, 3).tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert consistent_votes(labels[:1], 3).sum() == 4  # a single student always agrees with itself


@pytest.mark.parametrize("features", ["", "none+standardise"])
def test_a_client_votes_once_or_not_at_all_and_always_the_same(features, tmp_path):
    one = client(tmp_path, client_features=features)
    votes = one.votes(np.arange(40))
    assert votes.shape == (40, 10) and set(votes.sum(axis=1)) <= {0, 1} and votes.sum() > 20
    assert (votes.argmax(axis=1) == one.data.public_y[:40])[votes.any(axis=1)].mean() > 0.6
    assert np.array_equal(votes, client(tmp_path, client_features=features).votes(np.arange(40)))
    assert np.sum(one.workspace.folder.figures()["confusion"]) == 100


def test_more_students_vote_on_fewer_records(tmp_path):
    cast = [client(tmp_path, partitions=s, evaluate_clients=False).votes(np.arange(40)).sum() for s in (1, 3)]
    assert cast[0] == 40 > cast[1]


def test_every_record_teaches_in_each_partition_once_and_few_records_make_few_teachers(tmp_path, monkeypatch):
    one, seen = client(tmp_path, subsets=7), []

    class Teacher:
        def fit(self, x, y):
            seen.append(len(y))
            return self

        def predict_logits(self, x):
            return np.eye(10)[np.zeros(len(x), dtype=int)]

    monkeypatch.setattr(one, "_learner", lambda partition, index: Teacher())
    one.votes(np.arange(40))
    size = len(one.workspace.private().y)
    assert [sum(seen[:7]), sum(seen[8:15])] == [size, size] and seen[7] == seen[15] == 40
    own = one.workspace.private()
    few = type(own)(own.x[:3], own.y[:3])
    seen.clear()
    one.student(0, few, one.data.public_x[:5])
    assert seen == [1, 1, 1, 5]


def test_by_default_nothing_is_proved_and_with_an_epsilon_it_is_what_pate_proves():
    facts = Facts(classes=10, arrived=3, all_records=300, largest_client=100)
    plain = build(FedktSettings, DIGITS)
    assert [g.status for g in plain.composition(facts).guarantees()] == ["none"]
    assert plain.student == "argmax"
    noisy = build(FedktSettings, DIGITS, {"epsilon": 5.0})
    pate = build(PateSettings, DIGITS, {"epsilon": 5.0, "vote_fraction": 1.0})
    assert mechanism(noisy) == mechanism(pate) and ballot_form(noisy, 10) == ballot_form(pate, 10)
    ours, theirs = noisy.composition(facts).guarantees(), pate.composition(facts).guarantees()
    theirs = [one for one in theirs if one.status != "paper's claim"]  # another paper's, not FedKT's
    assert [(g.unit, g.epsilon, g.status) for g in ours] == [(g.unit, g.epsilon, g.status) for g in theirs]
    assert ours[0].status == "proved" and ours[0].unit == "client"
