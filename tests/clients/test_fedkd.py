"""What leaves a client under FedKD: quantised logits, or clipped ones with noise that was paid for first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedballot.clients.fedkd import FedkdClient, FedkdDpClient, KdAnswer, class_counts
from fedballot.clients.workspace import Workspace
from fedballot.core.errors import SettingsError
from fedballot.core.folders import ClientFolder
from fedballot.privacy.ledger import Account, Ledger
from fedballot.privacy.mechanisms.vectors import clip_rows
from fedballot.runs.engine import federated_data
from fedballot.settings.fedkd import FedkdDpSettings, FedkdSettings, mechanism
from fedballot.wire.codec import Integers
from fedballot.wire.packing import WireError, pack_labels
from tests.conftest import small_settings

COUNTS = np.arange(10)


def client(settings, folder, client_id: int = 0):
    kind = FedkdDpClient if isinstance(settings, FedkdDpSettings) else FedkdClient
    return kind(Workspace(client_id, settings, federated_data(settings), ClientFolder(folder), "cpu"))


def ask(one, request: str = "run/1"):
    queries = np.arange(one.workspace.settings.query_count, dtype=np.int32)
    return one.fit([queries], {"request": request, "fingerprint": one.workspace.data.public_fingerprint})


@pytest.fixture
def printed() -> FedkdSettings:
    return small_settings(FedkdSettings)


@pytest.fixture
def sound() -> FedkdDpSettings:
    return small_settings(FedkdDpSettings)


@pytest.mark.parametrize(("levels", "size"), [(2, 125), (16, 500), (17, 625), (200, 1000), (256, 1000), (65536, 2000)])
def test_levels_travel_in_as_few_bits_as_they_need_and_come_back_to_the_nearest_level(levels, size):
    settings = small_settings(FedkdSettings, {"levels": levels})
    logits = np.random.default_rng(levels).normal(size=(100, 10))
    arrays = KdAnswer(logits.shape, settings).pack(logits, COUNTS)
    assert arrays[0].nbytes <= size
    found, counts = KdAnswer((100, 10), settings).read(arrays)
    largest = np.abs(logits).max()
    assert np.abs(found - logits).max() <= largest / (levels - 1) + 1e-5
    assert np.array_equal(counts, COUNTS)


@given(st.floats(-1e30, 1e30), st.integers(2, 300))
def test_constant_logits_come_back_within_half_a_level(value, levels):
    settings = small_settings(FedkdSettings, {"levels": levels})
    codec = KdAnswer((3, 10), settings)
    found, _ = codec.read(codec.pack(np.full((3, 10), value), COUNTS))
    assert np.isfinite(found).all()
    assert np.ptp(found) == 0
    assert abs(float(found[0, 0]) - value) <= abs(value) * (1 / (levels - 1) + 1e-5) + 1e-37


def test_what_the_settings_declare_public_is_not_told():
    settings = small_settings(FedkdSettings, {"logit_bound": 2, "weights": "equal"})
    arrays = KdAnswer((3, 10), settings).pack(np.full((3, 10), 5.0), COUNTS)
    assert len(arrays) == 1
    found, counts = KdAnswer((3, 10), settings).read(arrays)
    assert (found == 2).all()
    assert (counts == 1).all()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda a: a[:2], "count"),
        (lambda a: [a[0].astype(np.int16), *a[1:]], "dtype"),
        (lambda a: [a[0][:-1], *a[1:]], "coding"),
        (lambda a: [np.full(40, 255, np.uint8), *a[1:]], "range"),
        (lambda a: [np.zeros(41, np.uint8), *a[1:]], "shape"),
        (lambda a: [a[0], np.zeros(1, np.float32), a[2]], "range"),
        (lambda a: [a[0], np.full(1, np.nan, np.float32), a[2]], "non-finite"),
        (lambda a: [a[0], a[1], a[2][:9]], "shape"),
        (lambda a: [a[0], a[1], -a[2]], "range"),
        (lambda a: [a[0], a[1], 0 * a[2]], "range"),
    ],
)
def test_a_damaged_answer_is_refused(printed, change, reason):
    arrays = KdAnswer((4, 10), printed).pack(np.ones((4, 10)), COUNTS)
    with pytest.raises(WireError) as error:
        KdAnswer((4, 10), printed).read(change(arrays))
    assert error.value.reason == reason


def test_counts_of_a_class_that_a_client_lacks_are_zero():
    assert class_counts(np.array([1, 1, 3]), 5).tolist() == [0, 2, 0, 1, 0]


def test_the_printed_method_tells_logits_counts_and_bound_the_same_after_a_restart(printed, tmp_path):
    arrays, _, metrics = ask(client(printed, tmp_path))
    assert metrics["refused"] == ""
    logits, counts = KdAnswer((300, 10), printed).read(arrays)
    assert counts.sum() == 100
    data = federated_data(printed)
    assert np.mean(logits.argmax(axis=1) == data.public_y) > 0.6  # .8 seen
    again = ask(client(printed, tmp_path))[0]
    assert [a.tobytes() for a in arrays] == [a.tobytes() for a in again]


def test_a_noisy_answer_is_clipped_logits_plus_a_share(sound, tmp_path):
    one = client(sound, tmp_path)
    release = Integers((200, 10)).read(ask(one)[0])
    vector = mechanism(sound, 10).mechanism
    signal = clip_rows(one.logits(np.arange(200)), sound.logit_bound) / vector.grid
    noise = release - np.rint(signal)
    statistic = float((noise**2).sum() / float(vector.share_variance))
    assert 1e-6 < stats.chi2.cdf(statistic, noise.size) < 1 - 1e-6
    assert not 1e-6 < stats.chi2.cdf(statistic / 2, noise.size) < 1 - 1e-6


def test_a_ledger_about_records_is_not_charged_what_clients_cost(sound, tmp_path):
    """An exchanged record may turn a model's logits round: twice the cost of a client that is blank."""
    ledger = Ledger(tmp_path / "own", Account("site 0", "its data", "record", "replace-one", 100.0, 1e-5))
    workspace = Workspace(0, sound, federated_data(sound), ClientFolder(tmp_path), "cpu", ledger)
    out, _, metrics = ask(FedkdDpClient(workspace))
    assert out == [] and metrics["refused"] == "policy" and "records under replace-one" in metrics["detail"]
    assert ledger.costs() == []


def test_the_ledger_is_charged_once_and_refuses_a_second_run(sound, tmp_path):
    first = ask(client(sound, tmp_path))[0][0]
    assert ask(client(sound, tmp_path))[0][0].tobytes() == first.tobytes()
    ledger = Ledger(tmp_path / "ledger")
    assert len(ledger.costs()) == 1
    assert 7.99 < ledger.spent() <= 8
    assert (ledger.account.unit, ledger.account.adjacency) == ("client", "zero-out")
    out, _, metrics = ask(client(sound, tmp_path), "run/2")
    assert (out, metrics["refused"]) == ([], "budget")
    assert len(ledger.costs()) == 1


def test_a_training_that_fails_is_answered_blank_and_charged_and_the_folder_says_why(sound, tmp_path, monkeypatch):
    def breaks(self):
        raise ValueError("patient 17")

    monkeypatch.setattr(FedkdDpClient, "model", breaks)
    one = client(sound, tmp_path)
    arrays, _, metrics = ask(one)
    assert (metrics["refused"], metrics["detail"], one.failed) == ("", "", True)
    assert Ledger(tmp_path / "ledger").costs() == [mechanism(sound, 10).cost()]
    assert "patient 17" in (tmp_path / "errors.txt").read_text() and one.workspace.folder.blank.exists()
    noise = Integers((200, 10)).read(arrays)  # nothing but a share of the noise
    statistic = float((noise**2).sum() / float(mechanism(sound, 10).mechanism.share_variance))
    assert 1e-6 < stats.chi2.cdf(statistic, noise.size) < 1 - 1e-6
    assert not 1e-6 < stats.chi2.cdf(statistic / 2, noise.size) < 1 - 1e-6


def test_without_a_guarantee_a_training_that_fails_is_refused(printed, tmp_path, monkeypatch):
    def breaks(self):
        raise ValueError("patient 17")

    monkeypatch.setattr(FedkdClient, "model", breaks)
    out, _, metrics = ask(client(printed, tmp_path))
    assert (out, metrics["refused"]) == ([], "raised") and "patient 17" not in metrics["detail"]
    assert not (tmp_path / "ledger").exists() and not (tmp_path / "blank.json").exists()


def test_secret_noise_differs_and_a_seeded_one_does_not(sound, tmp_path):
    first, second = (ask(client(sound, tmp_path / name))[0][0] for name in "ab")
    assert not np.array_equal(first, second)
    seeded = small_settings(FedkdDpSettings, {"noise_seed": 1})
    third, fourth = (ask(client(seeded, tmp_path / name))[0][0] for name in "cd")
    assert np.array_equal(third, fourth)


def test_rows_may_be_asked_as_bits_of_the_pool(printed, tmp_path):
    config = {"request": "r", "fingerprint": federated_data(printed).public_fingerprint}
    listed, marked = (
        client(printed, tmp_path).fit([rows], config)[0]
        for rows in (np.arange(300, dtype=np.int32), pack_labels(np.ones(300, int), 2))
    )
    assert [a.tobytes() for a in listed] == [a.tobytes() for a in marked]


ONE_LESS = pack_labels(np.arange(300) > 0, 2)


@pytest.mark.parametrize(
    "queries",
    [
        np.arange(299),
        np.zeros(300, int),
        np.arange(300) + 1,
        np.arange(300.0),
        ONE_LESS,
        pack_labels(np.ones(312, int), 2),
        np.full(37, 255, np.uint8),
    ],
)
def test_a_wrong_request_is_refused_before_training(printed, tmp_path, queries):
    one = client(printed, tmp_path)
    out, _, metrics = one.fit([queries], {"request": "r", "fingerprint": one.workspace.data.public_fingerprint})
    assert (out, metrics["refused"]) == ([], "request")
    assert not one.workspace.folder.model.exists()


def test_settings_that_cannot_work_are_refused():
    with pytest.raises(SettingsError, match="queries=301"):
        small_settings(FedkdSettings, {"queries": 301})
    with pytest.raises(SettingsError, match="colluders=8"):
        small_settings(FedkdDpSettings, {"colluders": 8})
