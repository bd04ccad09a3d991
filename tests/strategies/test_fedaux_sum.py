"""FedAUXfdp with one noise for all clients: what is opened, what it costs, what the server learns from the sum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedballot.core.errors import SettingsError
from fedballot.core.files import read_arrays
from fedballot.core.setting import build
from fedballot.distillation.students import probabilities
from fedballot.privacy.audit.statistics import variance_p_value
from fedballot.privacy.ledger import Ledger
from fedballot.privacy.mechanisms.class_sums import ClassSums, class_sums
from fedballot.privacy.noise.randomness import os_noise
from fedballot.runs.engine import federated_data
from fedballot.settings.class_sums import FedauxfdpSumSettings, shared_mechanism, sums_mechanism
from tests.conftest import fitting
from tests.inprocess import run_here
from tests.strategies.test_fedaux import DIGITS, client, strategy


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "cache"))


def of(**changed):
    return build(FedauxfdpSumSettings, fitting(FedauxfdpSumSettings, DIGITS), {"noise_seed": None}, changed)


def test_shares_add_up_to_the_noise_of_one_release():
    rng = np.random.default_rng(0)
    z, y = np.abs(rng.normal(size=(60, 30))), rng.integers(4, size=60)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    noisy = ClassSums.solve(0.5, 1e-5, classes=4, features=30, signed=False, min_clients=5)
    off = [
        noisy.read(sum(noisy.steps(z[i::5], y[i::5], os_noise()) for i in range(5))) - class_sums(z, y, 4)
        for _ in range(20)
    ]
    assert variance_p_value(np.array(off)[:, :, 1:].ravel(), noisy.variance) > 1e-5
    assert np.mean(np.array(off)[:, :, 0] ** 2) == pytest.approx(noisy.count_variance, rel=0.6)
    alone = ClassSums.solve(0.5, 1e-5, classes=4, features=30, signed=False)
    assert noisy.sigma == pytest.approx(alone.sigma, rel=1e-2)  # not sqrt(5) times as much
    assert noisy.largest(60) > max(np.abs(noisy.steps(z, y, os_noise())).max() for _ in range(20))


def test_what_cannot_be_counted_on_makes_the_shares_larger():
    plain, missing, colluding = (
        shared_mechanism(of(**changed), 10).mechanism.share_variance
        for changed in ({}, {"min_clients": 3}, {"colluders": 1})
    )
    assert missing == pytest.approx(4 / 3 * plain, rel=0.02) and colluding == pytest.approx(4 / 3 * plain, rel=0.02)
    own = sums_mechanism(of(), 10, of().coordinates).mechanism.share_variance
    assert own == pytest.approx(4 * plain, rel=0.02)


@pytest.mark.parametrize("secure", [False, True])
def test_the_server_learns_from_the_sum(secure, tmp_path):
    settings = of(epsilon=1.0, secure_aggregation=secure)
    result = run_here("fedauxfdp-sum", settings, tmp_path / "run")
    assert result["metrics"]["server_accuracy"] > 0.7
    told = result["guarantees"]
    assert told[0]["epsilon"] == pytest.approx(1.0, rel=1e-2) and told[0]["epsilon"] <= 1.0
    assert [(g["unit"], g["adjacency"], g["status"]) for g in told] == [("record", "replace-one", "proved")] * len(told)
    if secure:
        assert [g["view"] for g in told] == ["server's view"] and "min_clients=4" in str(told[0]["trust"])
    else:  # whoever sees one share by itself knows more
        assert [g["view"] for g in told] == ["output only", "server's view"] and told[1]["epsilon"] > 1.8
    ledger = Ledger(tmp_path / "run" / "clients" / "00000" / "ledger")
    masked = ["request", "charge", "release"]  # bound at the first exchange, charged at the third
    kinds = [line["kind"] for line in ledger.lines() if line["kind"] != "opened"]
    assert kinds == ["open", *(masked if secure else masked[1:])]
    assert ledger.spent() == pytest.approx(told[0]["epsilon"])
    kept = read_arrays(next((tmp_path / "run" / "clients" / "00000" / "ledger" / "releases").glob("*.npz")))["sums"]
    assert kept.shape == (10, 1 + settings.coordinates) and np.issubdtype(kept.dtype, np.integer)


def test_the_sum_may_be_told_in_principal_components(tmp_path):
    settings = of(epsilon=4.0, embedding="pca", dimension=24, secure_aggregation=True)
    result = run_here("fedauxfdp-sum", settings, tmp_path / "run")
    assert result["metrics"]["server_accuracy"] > 0.7
    assert result["guarantees"][0]["epsilon"] == pytest.approx(4.0, rel=1e-2)
    noisy = shared_mechanism(settings, 10)
    assert noisy.signed and noisy.features == 24 and noisy.share == 0.5
    data = federated_data(settings)
    one, server = client("fedauxfdp-sum", settings, tmp_path / "a", 0, data), strategy("fedauxfdp-sum", settings)
    config = {"request": "run/1", "round": 1, "fingerprint": data.public_fingerprint}
    assert one.form() == server.form and one.form().shape == (10, 25)
    assert one.exact(one.question(server.request(1), config))["sums"][0].min() < 0  # of either sign
    z = server.embedding.transform(server.public.features)  # soft labels are linear in these, and the student sees them
    seen = server.space.transform(server.public.features)
    assert np.allclose(seen, (z - z.mean(axis=0)) * np.sqrt(24), atol=1e-5)
    with pytest.raises(
        SettingsError, match=r"^dimension=100: of 500 public records with 30 features .*: set dimension from 1 to 30$"
    ):
        _ = strategy("fedauxfdp-sum", replace(settings, dimension=100)).embedding


def test_each_student_of_the_images_after_the_first_learns_what_the_one_before_says():
    told = {"student_reads": "records", "server_model": "mlp-torch", "server_lr": 1e-2, "students": 2}
    settings = of(**told)
    data = federated_data(settings)
    one = strategy("fedauxfdp-sum", replace(settings, students=1))
    two = strategy("fedauxfdp-sum", settings)
    soft = np.eye(10)[data.public_y[one.public.distil]] * 0.55 + 0.045
    first, both = one.distill(soft), two.distill(soft)
    x = data.public_x[one.public.distil]
    assert np.array_equal(both.models[0].predict_logits(x), first.models[0].predict_logits(x))
    second = two.new_student(x.shape[1:], 1).distill(x, probabilities(first.models, x).astype(np.float32))
    assert np.array_equal(both.models[1].predict_logits(x), second.predict_logits(x))
    assert np.allclose(both.scores, probabilities([first.models[0], second], data.test_x))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"epsilon": "inf"}, "epsilon"),
        ({"students": 0}, "students"),
        ({"student_reads": "images"}, "student_reads"),
        ({"colluders": 4}, "no honest client"),
        ({"embedding": "pca", "dimension": 0}, "dimension=0, but with embedding=pca"),
        ({"dimension": 100_000}, "^dimension=100000: .* public_size=500: set dimension from 2 to 499$"),
        ({"dimension": 1}, "^dimension=1: .*: set dimension from 2 to 499$"),
        ({"public_size": 2, "pretrain_share": 0.5}, "^dimension=0: .* public_size=2: raise public_size$"),
        ({"embedding": "pca", "dimension": 500}, "^dimension=500: .*public_size=500: set dimension to at most 499$"),
        ({"dataset": "sites", "public_dataset": "digits", "private_size": 0}, "set records"),
    ],
)
def test_settings_that_cannot_work_are_refused(changed, says):
    with pytest.raises(SettingsError, match=says):
        of(**changed)


def test_of_more_records_than_declared_the_first_ones_are_told(tmp_path):
    """Whether a client holds too many is its own affair: it is answered like any other, and within the bound."""
    settings = replace(of(), records=5)
    data = federated_data(settings)
    one = client("fedauxfdp-sum", settings, tmp_path / "a", 0, data)
    server = strategy("fedauxfdp-sum", settings)
    config = {"request": "run/1", "round": 1, "fingerprint": one.workspace.data.public_fingerprint}
    assert one.workspace.records > 5
    out, _, metrics = one.fit(server.request(1), config)
    assert metrics["refused"] == "" and not one.failed
    assert len(Ledger(tmp_path / "a" / "0" / "ledger").costs()) == 1
    question = one.question(server.request(1), config)
    z, y = one.exact(question)["sums"]
    assert len(z) == len(y) == 5 and np.array_equal(y, one.workspace.private().y[:5])
    few = client(
        "fedauxfdp-sum", settings, tmp_path / "b", 0, replace(data, parts=(data.parts[0][:5], *data.parts[1:]))
    )
    all_told = client("fedauxfdp-sum", replace(settings, records=one.workspace.records), tmp_path / "c", 0, data)
    assert np.array_equal(all_told.exact(question)["sums"][0][:5], z)
    # a matrix product of fewer records may round otherwise, by the processor
    np.testing.assert_allclose(few.exact(question)["sums"][0], z, rtol=0, atol=1e-6)
    assert np.abs(out[0].astype(float)).max() <= one.form().largest
