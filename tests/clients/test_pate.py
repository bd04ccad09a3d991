"""What leaves a client under PATE-FL: votes within the cap, fresh secret noise once, and refusals that hold no data."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fedballot.clients.pate import PateClient, teacher_batch
from fedballot.clients.workspace import Workspace
from fedballot.core.errors import SettingsError
from fedballot.core.folders import ClientFolder
from fedballot.core.setting import build
from fedballot.privacy.ledger import Account, Ledger
from fedballot.runs.engine import federated_data
from fedballot.settings.voting import PateSettings, mechanism
from fedballot.wire.codec import Integers
from fedballot.wire.packing import unpack_labels


def client(settings: PateSettings, folder, client_id: int = 0) -> PateClient:
    return PateClient(Workspace(client_id, settings, federated_data(settings), ClientFolder(folder), "cpu"))


def ask(one: PateClient, request: str = "run/1", **config):
    queries = np.arange(one.workspace.settings.query_count, dtype=np.int32)
    known = {"request": request, "fingerprint": one.workspace.data.public_fingerprint, **config}
    return one.fit([queries], known)


def noise_free(settings: PateSettings, folder, client_id: int = 0) -> np.ndarray:
    """The same client's votes without noise, (Q, C)."""
    arrays, _, _ = ask(client(build(PateSettings, settings.to_dict(), {"epsilon": "inf"}), folder, client_id))
    labels = unpack_labels(arrays[0], settings.query_count, 11)
    return (labels[:, None] == np.arange(10)).astype(int)


def test_an_answer_is_votes_plus_a_noise_share(small, tmp_path):
    arrays, n, metrics = ask(client(small, tmp_path / "a"))
    release = Integers((300, 10)).read(arrays)
    assert (n, metrics["refused"], metrics["client_id"]) == (1, "", 0)
    noise = release - noise_free(small, tmp_path / "b")
    share = mechanism(small).share_sigma
    # chi-squared on the variance of the real release: a share of half the size is far outside
    statistic = float((noise**2).sum() / share**2)
    assert 1e-6 < stats.chi2.cdf(statistic, noise.size) < 1 - 1e-6
    assert not 1e-6 < stats.chi2.cdf(statistic / 4, noise.size) < 1 - 1e-6


def test_votes_keep_to_the_cap_and_are_mostly_right(small, tmp_path):
    settings = build(PateSettings, small.to_dict(), {"vote_fraction": 0.3})
    votes = noise_free(settings, tmp_path)
    assert 0 < votes.sum() <= 90
    truth = federated_data(settings).public_y[votes.any(axis=1)]
    assert np.mean(votes[votes.any(axis=1)].argmax(axis=1) == truth) > 0.8


def test_few_votes_are_never_told_as_less_than_none(small):
    assert "about 0 % of the queries" in str(small.turnout_warning(-0.02, 0.0))


def test_the_same_request_gets_the_same_bytes_also_after_a_restart(small, tmp_path):
    first = ask(client(small, tmp_path))[0][0]
    again = ask(client(small, tmp_path))[0][0]
    assert first.tobytes() == again.tobytes()


def test_the_experiment_seed_does_not_fix_the_noise(small, tmp_path):
    first = ask(client(small, tmp_path / "a"))[0][0]
    second = ask(client(small, tmp_path / "b"))[0][0]
    assert not np.array_equal(first, second)
    seeded = build(PateSettings, small.to_dict(), {"noise_seed": 5})
    assert np.array_equal(ask(client(seeded, tmp_path / "c"))[0][0], ask(client(seeded, tmp_path / "d"))[0][0])
    assert not np.array_equal(
        ask(client(seeded, tmp_path / "e", client_id=1))[0][0], ask(client(seeded, tmp_path / "c"))[0][0]
    )


def test_the_ledger_is_charged_once_and_refuses_a_second_run(small, tmp_path):
    ask(client(small, tmp_path))
    ask(client(small, tmp_path))
    ledger = Ledger(tmp_path / "ledger")
    assert len(ledger.costs()) == 1
    assert ledger.spent() == pytest.approx(mechanism(small).epsilon(1e-3, "client"))
    assert ledger.account.unit == "client"
    out, _, metrics = ask(client(small, tmp_path), request="run/2")
    assert out == []
    assert metrics["refused"] == "budget"
    assert metrics["detail"] == "the client's privacy budget does not allow this release"
    assert not (tmp_path / "errors.txt").exists()
    assert len(ledger.costs()) == 1


@pytest.mark.parametrize(("unit", "adjacency"), [("client", "zero-out"), ("record", "replace-one")])
def test_a_ledger_of_the_client_s_own_is_charged_for_its_own_unit(unit, adjacency, small, tmp_path):
    ledger = Ledger(tmp_path / "own", Account("site 0", "its data", unit, adjacency, 100.0, 1e-3))
    workspace = Workspace(0, small, federated_data(small), ClientFolder(tmp_path), "cpu", ledger)
    assert ask(PateClient(workspace))[2]["refused"] == ""
    assert ledger.spent() == pytest.approx(mechanism(small).epsilon(1e-3, unit))


def test_seeded_noise_is_noted_in_the_ledger(small, tmp_path):
    for name, seed in (("secret", None), ("seeded", 5)):
        ask(client(replace(small, noise_seed=seed), tmp_path / name))
    secret, seeded = (Ledger(tmp_path / name / "ledger").lines()[1] for name in ("secret", "seeded"))
    assert "seeded" not in secret and seeded["seeded"] is True and secret["costs"] == seeded["costs"]


def test_a_teacher_that_fails_is_answered_blank_and_charged_and_the_folder_says_why(small, tmp_path, monkeypatch):
    def breaks(self):
        raise ValueError("patient 17")

    monkeypatch.setattr(PateClient, "teacher", breaks)
    one = client(small, tmp_path)
    arrays, _, metrics = ask(one)
    assert (metrics["refused"], metrics["detail"], one.failed) == ("", "", True)
    assert Ledger(tmp_path / "ledger").costs() == [mechanism(small).cost("client")]
    assert "patient 17" in (tmp_path / "errors.txt").read_text() and one.workspace.folder.blank.exists()
    noise = Integers((300, 10)).read(arrays)  # and nothing but noise, of the size that was charged
    statistic = float((noise**2).sum() / mechanism(small).share_sigma ** 2)
    assert 1e-6 < stats.chi2.cdf(statistic, noise.size) < 1 - 1e-6
    assert not 1e-6 < stats.chi2.cdf(statistic / 4, noise.size) < 1 - 1e-6
    monkeypatch.undo()
    sound = client(small, tmp_path)
    assert ask(sound)[0][0].tobytes() == arrays[0].tobytes()
    assert len(Ledger(tmp_path / "ledger").costs()) == 1 and not sound.workspace.folder.model.exists()


def test_a_ledger_of_another_client_is_refused(small, tmp_path):
    ask(client(small, tmp_path))
    out, _, metrics = ask(client(small, tmp_path, client_id=1))
    assert out == [] and metrics["refused"] == "settings"
    errors = (tmp_path / "errors.txt").read_text()
    assert "client is 'client 0' in this ledger, not 'client 1'" in errors
    assert len(Ledger(tmp_path / "ledger").costs()) == 1


def test_other_private_data_under_a_known_name_are_refused(small, tmp_path):
    first = ask(client(small, tmp_path))[0][0]
    other = PateClient(replace(client(small, tmp_path).workspace, version="of next year"))
    out, _, metrics = ask(other)
    assert (out, metrics["refused"]) == ([], "request")
    assert ask(client(small, tmp_path))[0][0].tobytes() == first.tobytes()
    assert len(Ledger(tmp_path / "ledger").costs()) == 1


def test_a_trained_teacher_is_not_trained_again(small, tmp_path):
    one = client(small, tmp_path)
    one.teacher()
    stamp = one.workspace.folder.model.stat().st_mtime_ns
    client(small, tmp_path).teacher()
    assert one.workspace.folder.model.stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    ("arrays", "config", "reason"),
    [
        ([np.arange(300)], {"fingerprint": "sha256:00"}, "fingerprint"),
        ([], {}, "request"),
        ([np.arange(299)], {}, "request"),
        ([np.arange(300) + 1], {}, "request"),
        ([np.zeros(300, dtype=int)], {}, "request"),
        ([np.arange(300) - 1], {}, "request"),
        ([np.arange(300.0)], {}, "request"),
        ([np.arange(300).reshape(30, 10)], {}, "request"),
    ],
)
def test_a_wrong_request_is_refused_before_any_training(small, tmp_path, arrays, config, reason):
    one = client(small, tmp_path)
    known = {"request": "r", "fingerprint": one.workspace.data.public_fingerprint, **config}
    out, _, metrics = one.fit(arrays, known)
    assert (out, metrics["refused"]) == ([], reason)
    assert not one.workspace.folder.model.exists()


def emptied(settings):
    data = federated_data(settings)
    return replace(data, parts=(np.array([], dtype=np.int64), *data.parts[1:]))


def test_an_empty_partition_is_answered_blank_and_charged(small, tmp_path):
    """With a guarantee, whether there are records is not told; without one, it is."""
    one = PateClient(Workspace(0, small, emptied(small), ClientFolder(tmp_path / "a"), "cpu"))
    arrays, _, metrics = ask(one)
    assert metrics["refused"] == "" and one.failed and "no private records" in (tmp_path / "a/errors.txt").read_text()
    assert Integers((300, 10)).read(arrays).any()
    assert Ledger(tmp_path / "a" / "ledger").costs() == [mechanism(small).cost("client")]
    free = build(PateSettings, small.to_dict(), {"epsilon": "inf"})
    out, _, metrics = ask(PateClient(Workspace(0, free, emptied(free), ClientFolder(tmp_path / "b"), "cpu")))
    assert (out, metrics["refused"]) == ([], "empty")


def test_a_client_with_one_class_still_answers_for_all_of_them(small, tmp_path):
    settings = build(
        PateSettings, small.to_dict(), {"partition": "classes-per-client", "classes_per_client": 1, "clients": 10}
    )
    votes = noise_free(settings, tmp_path, client_id=4)
    assert votes.shape == (300, 10)
    assert set(np.flatnonzero(votes.sum(axis=0))) <= {4}


def test_an_unknown_error_tells_only_its_type(small, tmp_path, monkeypatch):
    def breaks(self):
        raise ValueError("patient 17")

    monkeypatch.setattr(PateClient, "teacher", breaks)
    free = build(PateSettings, small.to_dict(), {"epsilon": "inf"})
    out, _, metrics = ask(client(free, tmp_path))
    assert (out, metrics["refused"]) == ([], "raised")
    assert metrics["detail"] == "ValueError; the client's own folder says more"
    assert "patient 17" in (tmp_path / "errors.txt").read_text() and not (tmp_path / "blank.json").exists()


def test_targets_at_client_and_record_level(small):
    client_level = mechanism(build(PateSettings, small.to_dict(), {"epsilon": 2}))
    record = mechanism(build(PateSettings, small.to_dict(), {"epsilon": 2, "unit": "record"}))
    assert 1.999 < client_level.epsilon(1e-3, "client") <= 2
    assert 1.999 < record.epsilon(1e-3, "record") <= 2
    assert record.sigma == pytest.approx(client_level.sigma * math.sqrt(2), rel=0.02)
    assert mechanism(build(PateSettings, small.to_dict(), {"epsilon": "inf"})) is None
    assert mechanism(build(PateSettings, small.to_dict(), {"sigma": 50})).sigma == 50


def test_domain_adaptation_and_abstaining_teachers_exclude_each_other():
    with pytest.raises(SettingsError, match="abstain=false"):
        build(PateSettings, {"domain_adaptation": 0.5})


def test_teachers_learn_with_domain_adaptation(small, tmp_path):
    over = {"client_models": "mlp-torch", "epochs": 20, "batch_size": 16, "abstain": False, "vote_fraction": 1.0}
    plain = noise_free(build(PateSettings, small.to_dict(), over), tmp_path / "a")
    settings = build(PateSettings, small.to_dict(), over, {"domain_adaptation": 0.3})
    adapted = noise_free(settings, tmp_path / "b")
    truth = federated_data(settings).public_y
    assert (adapted.argmax(axis=1) == truth).mean() > 0.6
    assert not np.array_equal(plain, adapted)


@pytest.mark.parametrize(
    ("largest", "records", "batch"),
    [(64, 600, 64), (64, 576, 64), (64, 300, 33), (64, 50, 10), (64, 1, 10), (8, 50, 8)],
)
def test_few_records_are_taken_in_smaller_batches(largest, records, batch):
    assert teacher_batch(largest, records) == batch
